"""Checks the built site: search, clicks, foreign hosts, Markdown, words, glossary.

    check.py SITE PAGES   PAGES: the folder of generated pages

Prints one line for each problem and exits with 1 if there is any.
"""

import json
import re
import sys
import tomllib
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GLOSSARY = "start/glossary.html"
CLICKS = 3
WORDS = 1200
# Tasks of a reader: the page that answers, and commands or words that must be on it.
TASKS = {
    "install and see starvation": ("start/simulate.html", ["make demo", "starves"]),
    "run a map of your own": ("scenarios/maps.html", ["fairmesh compare map.netjson"]),
    "put a gateway into observe mode": ("start/gateway.html", ["fairmesh-gateway init", 'mode = "observe"']),
    "write a mechanism": ("control.html", ["Adding one", "registry.add"]),
    'find the meaning of "of fair"': (GLOSSARY, ["of fair"]),
}
# Attributes by which a browser loads a resource without a click.
LOADED = {"src", "srcset", "poster", "data"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
BASE = "http://site/"


class Page(HTMLParser):
    """Links of the article, loaded resources, anchors, and text of paragraphs."""

    def __init__(self, text):
        super().__init__()
        self.article = 0
        self.paragraph = None
        self.links, self.resources, self.anchors, self.paragraphs, self.tags = [], [], set(), [], set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = {name: value or "" for name, value in attributes}
        self.tags.add((tag, attributes.get("data-md-component", "")))
        self.tags.update((tag, name) for name in attributes.get("class", "").split())
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        self.resources += [attributes[name] for name in LOADED & attributes.keys()]
        if tag == "link" and LOADED_LINKS & set(attributes.get("rel", "").split()):
            self.resources.append(attributes.get("href", ""))
        if tag == "article":
            self.article += 1
        elif self.article and tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif self.article and tag == "p":
            self.paragraph = ""

    def handle_endtag(self, tag):
        if tag == "article":
            self.article -= 1
        elif tag == "p" and self.paragraph is not None:
            self.paragraphs.append(self.paragraph)
            self.paragraph = None

    def handle_data(self, data):
        if self.article:
            self.text += data
        if self.paragraph is not None:
            self.paragraph += data


def source(name):
    """Page of docs/ of a built page."""
    path = Path(name).with_suffix(".md")
    return "docs/" + str(path.with_name("README.md") if path.name == "index.md" else path)


def inside(page, link):
    """Built page and anchor of a link, or None if it leaves the site."""
    url = urlsplit(urljoin(BASE + page, link))
    if url.netloc != "site":
        return None
    return unquote(url.path.lstrip("/")) or "index.html", unquote(url.fragment)


def clicks(pages):
    """Fewest clicks from the front page by links of articles; the navigation does not count."""
    found, queue = {"index.html": 0}, deque(["index.html"])
    while queue:
        page = queue.popleft()
        for target in (inside(page, link) for link in pages[page].links):
            if target and target[0] in pages and target[0] not in found:
                found[target[0]] = found[page] + 1
                queue.append(target[0])
    return found


def check_clicks(pages):
    found = clicks(pages)
    for page in sorted(pages):
        if found.get(page, CLICKS + 1) > CLICKS:
            reached = f"{found[page]} clicks" if page in found else "no link"
            yield f"{source(page)}: {reached} from docs/README.md; expected at most {CLICKS} clicks"


def check_tasks(pages):
    """Each task is at most three clicks away, and its page has the commands for it."""
    found = clicks(pages)
    for task, (page, contents) in TASKS.items():
        number = found.get(page)
        if number is None or number > CLICKS:
            yield f"{source(page)}: {task}: {number or 'no'} clicks; expected at most {CLICKS}"
        for content in contents:
            if page in pages and content not in pages[page].text:
                yield f"{source(page)}: {task}: {content!r} is missing"


def check_links(pages, site):
    for page, parsed in sorted(pages.items()):
        for link in parsed.links:
            target = inside(page, link)
            if target is None:
                continue
            name, anchor = target
            if name in pages:
                if anchor and anchor not in pages[name].anchors and anchor != "__top":
                    yield f"{source(page)}: {link}: no such heading"
            elif not (site / name).is_file():
                yield f"{source(page)}: {link}: no such file in the site"


def check_hosts(pages, site):
    for page, parsed in sorted(pages.items()):
        for resource in parsed.resources:
            if not resource.startswith("data:") and inside(page, resource) is None:
                yield f"{source(page)}: loads {resource}; expected files of the site only"
        # Parts of the theme that ask other hosts: the widget of the repository, diagrams drawn by a script.
        if ("a", "md-source") in parsed.tags or ("pre", "mermaid") in parsed.tags:
            yield f"{source(page)}: a widget of the theme loads from another host; unset repo_url, use a picture"
    for style in sorted(site.rglob("*.css")):
        for url in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", style.read_text(encoding="utf-8")):
            if urlsplit(url).netloc:
                yield f"{style.relative_to(site)}: loads {url}; expected files of the site only"


def check_markdown(pages):
    """Markdown that GitHub shows as a table or a list, and MkDocs as text."""
    for page, parsed in sorted(pages.items()):
        for text in parsed.paragraphs:
            for line in text.splitlines()[1:]:
                if re.match(r"\s*\|[ :|-]+\|$", line):
                    yield f"{source(page)}: a table begins inside a paragraph: {text[:60]!r}; put an empty line before it"
                elif re.match(r"\s*([-*+]|1\.) ", line):
                    yield f"{source(page)}: a list begins inside a paragraph: {line[:60]!r}; put an empty line before it"


def terms():
    """Terms of the glossary: each entry may have several, separated by commas."""
    text = (DOCS / "start/glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^- \*\*(.+?)\*\*:", text, re.MULTILINE)


def check_search(site, generated):
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    glossary = " ".join(d["text"] for d in index["docs"] if d["location"].startswith(GLOSSARY))
    glossary = re.sub(r"<[^>]+>", "", glossary).replace("&amp;", "&")
    names = terms()
    if len(names) < 60:
        yield f"docs/start/glossary.md: {len(names)} terms; expected entries as '- **term**: text'"
    for term in names:
        if term not in glossary:
            yield f"docs/start/glossary.md: {term}: not in the search index"
    found = {d["location"].partition("#")[0] for d in index["docs"]}
    for page in sorted([*DOCS.rglob("*.md"), *generated.rglob("*.md")]):
        path = page.relative_to(generated if page.is_relative_to(generated) else DOCS)
        name = path.with_suffix(".html")
        name = str(name.with_name("index.html") if name.name == "README.html" else name)
        if not (site / name).is_file():
            yield f"{page}: not in the site"
        elif name not in found:
            yield f"{page}: not in the search index"


def check_glossary(pages):
    """A link to the glossary leads to its start, to a letter, or to an entry."""
    entries = pages[GLOSSARY].anchors
    for page, parsed in sorted(pages.items()):
        for link in parsed.links:
            target = inside(page, link)
            if target and target[0] == GLOSSARY and target[1] and target[1] not in entries:
                yield f"{source(page)}: {link}: the glossary has no such entry"


def budgets():
    """Accepted exceptions: pages, each with its bound and a reason."""
    with open(Path(__file__).with_name("budgets.toml"), "rb") as file:
        return tomllib.load(file)


def check_words():
    accepted = budgets()
    for page in sorted(DOCS.rglob("*.md")):
        name = page.relative_to(DOCS).as_posix()
        if name.startswith("notes/"):
            continue
        words = len(re.findall(r"[A-Za-z]+", page.read_text(encoding="utf-8")))
        exception = accepted.pop(name, None)
        bound = exception["words"] if exception else WORDS
        if words > bound:
            yield f"docs/{name}: {words} words; expected at most {bound}"
        elif exception and words <= WORDS:
            yield f"scripts/site/budgets.toml: {name}: has {words} words and needs no exception; remove it"
        if exception and len(exception.get("reason", "")) < 20:
            yield f"scripts/site/budgets.toml: {name}: reason: missing; expected a sentence"
    for name in accepted:
        yield f"scripts/site/budgets.toml: {name}: no such page"


def main(site, generated):
    pages = {
        page.relative_to(site).as_posix(): Page(page.read_text(encoding="utf-8"))
        for page in sorted(site.rglob("*.html"))
        if page.name != "404.html"
    }
    problems = [
        *check_clicks(pages),
        *check_tasks(pages),
        *check_links(pages, site),
        *check_hosts(pages, site),
        *check_markdown(pages),
        *check_search(site, generated),
        *check_glossary(pages),
        *check_words(),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if len(pages) < 60:
        problems.append("pages")
        print(f"{site}: {len(pages)} pages; expected all of docs/", file=sys.stderr)
    most = max(clicks(pages).values())
    print(f"site: {len(pages)} pages, at most {most} clicks from the front page, {len(terms())} terms, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
