"""Checks the sources of the pages, each problem with file and line.

    pages.py   links and their headings, terms of the glossary, pages that are generated, tests that SPECIFICATION.md names

Exit status 1 if there is a problem.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs/start/glossary.md"
CONCEPTS = ROOT / "docs/start/concepts.md"
# Names in italics that are not terms.
NAMES = {"italics", "Stack"}
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def slug(heading):
    """Anchor of a heading, as on GitHub."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def lines(page):
    """Lines of a page outside fenced code, each with its number."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(page):
    """Anchors of the headings of a page."""
    found = set()
    for _, line in lines(page):
        if m := re.match(r"#+ (.*)", line):
            name, base, number = slug(m[1]), slug(m[1]), 0
            while name in found:
                number += 1
                name = f"{base}-{number}"
            found.add(name)
    return found


def pages():
    """Pages of docs/ and at the top."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def entries():
    """Terms of the glossary, in lower case."""
    found = re.findall(r"^- \*\*(.+?)\*\*:", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return {part.strip().lower() for term in found for part in re.sub(r"\([^)]*\)", "", term).split(",")}


def is_entry(text, terms):
    """True if a text is a term, its plural or its first word."""
    text = text.lower()
    return any(text in (term, term + "s", term.split(" ")[0]) for term in terms)


def check_links():
    known = {}
    terms = entries()
    for page in pages():
        if page.is_relative_to(ROOT / "docs/notes"):
            continue
        for number, line in lines(page):
            at = f"{page.relative_to(ROOT)}:{number}"
            for text, link in LINK.findall(re.sub(r"`[^`]*`(?!\]|[^\[]*\]\()", "", line)):
                target, _, anchor = link.partition("#")
                if re.match(r"[a-z]+:", target):
                    continue
                file = (page.parent / target).resolve() if target else page
                if not file.exists():
                    yield f"{at}: {link}: no such file"
                elif anchor and file.suffix == ".md":
                    known.setdefault(file, anchors(file))
                    if anchor not in known[file]:
                        yield f"{at}: {link}: no such heading; expected one of {', '.join(sorted(known[file]))}"
                    elif file == GLOSSARY and len(anchor) == 1 and text != "glossary" and not is_entry(text, terms):
                        yield f"{at}: {text}: the glossary has no such entry"


def check_terms():
    """Terms in italics on the page of concepts are entries of the glossary."""
    terms = entries()
    for number, line in lines(CONCEPTS):
        for text in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", line):
            if text not in NAMES and not is_entry(text, terms):
                yield f"{CONCEPTS.relative_to(ROOT)}:{number}: {text}: the glossary has no such entry"


def check_generated():
    """Generated pages are not committed."""
    for name in re.findall(r"^    [\w-]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE):
        if (ROOT / "docs" / name).exists():
            yield f"docs/{name}:1: is a generated page (docs/generated.md); change its source and remove it from docs/"


def check_specification():
    """Tests that the specification names exist."""
    names = set()
    for folder in ("crates", "fuzz", "scripts"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".rs", ".py") and "node_modules" not in file.parts:
                names.add(file.stem)
                names.update(re.findall(r"\b(?:fn|def|mod) (\w+)", file.read_text(encoding="utf-8")))
    for number, line in enumerate((ROOT / "SPECIFICATION.md").read_text(encoding="utf-8").split("\n"), 1):
        evidence = line.rsplit("|", 2)[-2] if line.count("|") >= 3 else ""
        for code in re.findall(r"`([^`]+)`", evidence):
            for word in re.findall(r"(?<![\w./-])[a-z0-9]+(?:_[a-z0-9]+)+(?:_…)?(?![\w/.-])", code):
                found = any(n.startswith(word[:-1]) for n in names) if word.endswith("…") else word in names
                if not found:
                    yield f"SPECIFICATION.md:{number}: {word}: no such test; expected the name of a test"


def main():
    problems = [*check_links(), *check_terms(), *check_generated(), *check_specification()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
