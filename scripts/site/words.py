"""Counts the words of hand-written pages, and checks their sum.

    words.py           words by folder and in all; exit status 1 above the bound
    words.py --pages   also words of each page, longest first

A word is "a", or a run of at least two letters, outside of code, of formulas in blocks, of targets of links, of
comments and of places that a generator fills. Left out: dated notes, decisions, and the changelog.
"""

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOTAL = 35_000
# Texts of generated pages.
TEMPLATES = ["validation/chain/page.md"]
LEFT_OUT = ("docs/notes/", "docs/decisions/")


def prose(text):
    """Text without code, targets of links and comments."""
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|\{\{.*?\}\}", "", text, flags=re.DOTALL)
    text = re.sub(r"^ {4}(?! *(?:-|\d+\.) ).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"\]\([^)\n]*\)", "]", text))


def count(text):
    return len(re.findall(r"[^\W\d_]{2,}|\b[aA]\b", prose(text)))


def pages():
    """Names and words of hand-written pages, and of the templates of generated ones."""
    names = ["SPECIFICATION.md", *TEMPLATES]
    names += sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        if not name.startswith(LEFT_OUT):
            yield name, count(text)


def main(arguments):
    words = dict(pages())
    if "--pages" in arguments:
        for name, number in sorted(words.items(), key=lambda page: -page[1]):
            print(f"{number:6} {name}")
    folders = Counter()
    for name, number in words.items():
        folders[str(Path(name).parent)] += number
    for folder, number in sorted(folders.items()):
        print(f"{number:6} {folder}/")
    total = sum(words.values())
    print(f"{total:6} words in {len(words)} hand-written pages; at most {TOTAL}")
    return total > TOTAL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
