"""Lets MkDocs read pages as GitHub does: links out of docs/, lists after paragraphs."""

import logging
import os
import posixpath
import re
from urllib.parse import urlsplit

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

log = logging.getLogger("mkdocs.hooks.fairmesh")


class OutsideLinks(Treeprocessor):
    """Maps links that leave docs/ to the repository; a link to a missing file stays an error."""

    def __init__(self, md, links):
        super().__init__(md)
        self.links = links

    def run(self, root):
        for element in root.iter():
            attribute = {"a": "href", "img": "src"}.get(element.tag)
            target = attribute and element.get(attribute)
            if target:
                element.set(attribute, self.links.map(target))


class Links(Extension):
    def __init__(self, docs, repository):
        super().__init__()
        self.docs, self.repository = docs, repository
        self.top = os.path.dirname(docs)
        self.page = ""

    def extendMarkdown(self, md):
        # After inline patterns (20), before MkDocs looks at relative links (0).
        md.treeprocessors.register(OutsideLinks(md, self), "fairmesh_outside_links", 1)

    def map(self, target):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return target
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(self.page), parts.path))
        if path == "docs" or path.startswith("docs/"):
            return target
        file = os.path.join(self.top, path)
        if path.startswith("..") or not os.path.exists(file):
            log.warning("docs/%s: %s: no such file; expected a file of the repository", self.page, target)
        kind = "tree" if os.path.isdir(file) else "blob"
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        return f"{self.repository}/{kind}/main/{path}{anchor}"


def on_config(config):
    links = Links(config.docs_dir, config.extra["repository"])
    config.markdown_extensions.append(links)
    config.extra["links"] = links
    return config


def on_page_markdown(markdown, page, config, files):
    config.extra["links"].page = page.file.src_uri
    return separate_lists(markdown)


def separate_lists(markdown):
    """Puts an empty line, which Python-Markdown needs, between a paragraph and a list."""
    lines, fence, paragraph = [], None, False
    for line in markdown.split("\n"):
        mark = re.match(r"\s*(```|~~~)", line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
            paragraph = False
        elif not fence:
            if paragraph and re.match(r"([-*+]|1\.) ", line):
                lines.append("")
            starts = bool(re.match(r"[^\s#>|]", line)) and not re.match(r"([-*+]|\d+\.) ", line)
            before = lines[-1].strip() if lines else ""
            paragraph = bool(line.strip()) and (paragraph or starts and (not before or before.startswith("#")))
            if re.match(r"([-*+]|1\.) |#", line):
                paragraph = False
        lines.append(line)
    return "\n".join(lines)
