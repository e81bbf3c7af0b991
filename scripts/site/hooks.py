"""Lets MkDocs read pages as GitHub does: links out of docs/, lists after paragraphs, folds.

Adds the generated pages, which are in the folder FAIRMESH_PAGES instead of docs/ (scripts/site.sh). A link to a heading
of docs/generated.md, where a reader of the repository finds the sources of a page, leads to the page in the site.
"""

import logging
import os
import posixpath
import re
from urllib.parse import urlsplit

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File

log = logging.getLogger("mkdocs.hooks.fairmesh")


GENERATED = "generated.md"


class MappedLinks(Treeprocessor):
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
    def __init__(self, docs, repository, generated):
        super().__init__()
        self.docs, self.repository, self.generated = docs, repository, generated
        self.top = os.path.dirname(docs)
        self.page = ""

    def extendMarkdown(self, md):
        # After inline patterns (20), before MkDocs looks at relative links (0).
        md.treeprocessors.register(MappedLinks(md, self), "fairmesh_mapped_links", 1)

    def map(self, target):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return target
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(self.page), parts.path))
        if path == f"docs/{GENERATED}" and parts.fragment:
            return self.of_generated(target, parts.fragment)
        if path == "docs" or path.startswith("docs/"):
            return target
        file = os.path.join(self.top, path)
        if path.startswith("..") or not os.path.exists(file):
            log.warning("docs/%s: %s: no such file; expected a file of the repository", self.page, target)
        kind = "tree" if os.path.isdir(file) else "blob"
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        return f"{self.repository}/{kind}/main/{path}{anchor}"

    def of_generated(self, target, name):
        """Link to a generated page, at the mechanism of this page if it has a section."""
        page = self.generated.get(name)
        if page is None:
            log.warning("docs/%s: %s: no generated page; expected one of %s", self.page, target, ", ".join(self.generated))
            return target
        about = posixpath.splitext(posixpath.basename(self.page))[0]
        with open(os.path.join(os.environ["FAIRMESH_PAGES"], page), encoding="utf-8") as file:
            anchor = f"#{about}" if f"## {about}\n" in file else ""
        return posixpath.relpath(page, posixpath.dirname(self.page) or ".") + anchor


def on_config(config):
    links = Links(config.docs_dir, config.extra["repository"], config.extra["generated"])
    config.markdown_extensions.append(links)
    config.extra["links"] = links
    return config


def on_files(files, config):
    """Adds the generated pages and their pictures."""
    folder = os.environ["FAIRMESH_PAGES"]
    for parent, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(parent, name), folder)
            if files.get_file_from_path(path):
                log.warning("docs/%s: is a generated page; remove it from docs/", path)
                continue
            files.append(File.generated(config, path, abs_src_path=os.path.join(parent, name)))
    return files


def on_page_markdown(markdown, page, config, files):
    config.extra["links"].page = page.file.src_uri
    # GitHub renders Markdown inside of a fold.
    return separate_lists(markdown.replace("<details", '<details markdown="1"'))


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
