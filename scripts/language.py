#!/usr/bin/env python3
"""Check the language of comments, messages, pages and commit subjects.

    language.py             check; exit status 1 if a count is above the allowed one
    language.py --list DIR  also print every finding below DIR
    language.py --update    lower the allowed counts to the present ones; it never raises them

Allowed counts per directory and pattern are in scripts/language/allowed.json, exclusions and accepted
exceptions, each with its reason, in scripts/language/exceptions.toml. A count below the allowed one passes.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "scripts/language/allowed.json"
EXCEPTIONS = ROOT / "scripts/language/exceptions.toml"
SUBJECT = 72
FIRST_LINE = 90
SHOWN = 30

# Nouns that stand for people: "an operator who" is correct.
PEOPLE = ("administrator", "attacker", "author", "contributor", "engineer", "maintainer", "operator", "people",
          "person", "reader", "researcher", "reporter", "reviewer", "subscriber", "user", "anyone", "those")
NOT_PEOPLE = "".join(rf"(?<!\b{noun} )(?<!\b{noun}s )" for noun in PEOPLE)


@dataclass(frozen=True)
class Pattern:
    """A pattern of words, and the replacement to write."""

    name: str
    regex: re.Pattern[str]
    instead: str


def pattern(name: str, regex: str, instead: str, flags: int = re.IGNORECASE) -> Pattern:
    """Compile a pattern."""
    return Pattern(name, re.compile(regex, flags), instead)


# Word patterns of the style guide, and what replaces them.
PATTERNS = [
    pattern("people", NOT_PEOPLE + r"\b(?:who|whom|whoever)\b|\b(?:nobody|somebody|everybody|anybody|someone|everyone)\b",
            "name the flow, node, host or process"),
    pattern("whose", NOT_PEOPLE + r"\bwhose\b", "with a …, or of which the …"),
    pattern("speech", r"\b(?:tell|tells|told|telling|say|says|said|saying|hear|hears|heard|hearing|cry|cries|cried)\b",
            "send, report, receive, notify, state, sense"),
    pattern("silent", r"\b(?:silent|silently|silence|silenced|silences|hush)\b", "idle, without traffic, without a message"),
    pattern("anew", r"\banew\b", "again"),
    pattern("for-good", r"\bfor good\b", "permanently"),
    pattern("so-manieth", r"\b(?:so|how)-?manieth\b", "n-th"),
    pattern("unit-fragment", r";\s*(?:s|ms|µs|us|ns|bit/s|kbit/s|B|bytes|dB|dBm|m|W|Hz)\.(?:\s|$)",
            "one sentence; the unit in the type or the name", 0),
    pattern("is-no", r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|other\b|one\b|\w+er\b|sooner\b|worse\b|better\b)[a-z]+",
            "is not a …, has no …", 0),
    pattern("inverted", r"(?:^|[.;:] )(?:Did|Had|Were|Should|Does|Do|Has|did|had|should) (?:its|the|a|an|this|that|one|it|they)\b[^.?!]*,[^.?!]*(?:[.;]|$)",
            "if …, or when …", 0),
    pattern("idiom", r"\b(?:signs? of life|lets? others at|come upon|came upon|looks? of|as good as|a look is|goes by|go by|goes? on|has got|the very)\b",
            "a literal statement"),
    pattern("history", r"\b(?:until now|up to now|hitherto|(?:was|were) tried|tried and (?:not kept|dropped)|as it was before)\b",
            "the present state; experiments go to docs/notes"),
    pattern("old-word", r"\b(?:whence|thereof|wherefrom|whereupon|therein|thereupon|wherein)\b", "from which, of it, then, in which"),
]
DOC_WORD = pattern("doc-word", r"^(?:What|Who|Whose|Whether|Where|How)\b", "begin with a noun phrase or a verb in the third person", 0)
DOC_PRONOUN = pattern("doc-pronoun", r"^(?:It|Its|They|Their|These|Those|That|The same)\b", "begin with the noun that the pronoun stands for", 0)
DOC_LINE = pattern("doc-line", "", f"a first line of at most {FIRST_LINE} characters that ends with a full stop")
# Words of names of functions, tests, constants and types; a name is read as its words.
NAME = pattern("name", r"\b(?:what|whatever|who|whom|whose|whoever|nobody|somebody|everybody|anybody|tells?|told|says?|said|hears?|heard"
               r"|silent|silence|anew|afar)\b", "a name that states the rule, the quantity or the action")
ALL = {p.name: p for p in [*PATTERNS, DOC_WORD, DOC_PRONOUN, DOC_LINE, NAME]}


@dataclass(frozen=True)
class Finding:
    """A match in a file."""

    file: str
    line: int
    pattern: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.pattern}: \"{self.text}\"; expected: {ALL[self.pattern].instead}"


@dataclass(frozen=True)
class Prose:
    """A line of prose; `doc` is true for the first line of a doc comment, `name` for the words of a name."""

    line: int
    text: str
    doc: bool = False
    name: bool = False


# Strings come first, so that a mark inside of one begins no comment.
RUST = re.compile(
    r'b?r(?P<h>#*)".*?"(?P=h)|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\])\'|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)', re.DOTALL)
SCRIPT = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`|(?P<line>(?<!:)//[^\n]*)|(?P<block>/\*.*?\*/)', re.DOTALL)
HASH = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|\\.|\$\{?#|\$\(\(#|(?P<line>(?:(?<=\s)|^)#[^\n]*)',
    re.DOTALL | re.MULTILINE)
TOML = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|(?P<line>#[^\n]*)', re.DOTALL)
MARKS = re.compile(r"^\s*(?:///|//!|//|/\*\*|/\*|\*/|\*|#+!?)\s?")


def plain(text: str) -> str:
    """Return the text without inline code, targets of links and addresses."""
    text = re.sub(r"`[^`]*`", "`code`", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"https?://\S+", "URL", text)


def comments(text: str, lexer: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the lines of comments, with their marks and numbers."""
    found = []
    for m in lexer.finditer(text):
        comment = m.groupdict().get("line") or m.groupdict().get("block")
        if comment:
            first = text.count("\n", 0, m.start()) + 1
            found.extend((first + i, line) for i, line in enumerate(comment.split("\n")))
    return found


def prose_of_code(text: str, lexer: re.Pattern[str]) -> list[Prose]:
    """Return the prose of comments; fenced code in doc comments is left out."""
    result: list[Prose] = []
    last, kind, fenced = -1, "", False
    for line, raw in comments(text, lexer):
        mark = raw.strip()[:3]
        mark = mark if mark in ("///", "//!", "/**") else ""
        content = MARKS.sub("", raw).rstrip().removesuffix("*/").rstrip()
        begins = mark != "" and (line != last + 1 or mark != kind)
        if line != last + 1 or (mark != kind and raw.lstrip().startswith("/")):
            fenced = False
        last, kind = line, mark
        if content.startswith("```"):
            fenced = not fenced
        elif not fenced and content:
            result.append(Prose(line, content, begins))
    return result


def messages_of_rust(text: str) -> list[Prose]:
    """Return string literals of more than one word, without those of unit tests; placeholders count as code."""
    text = text.split("#[cfg(test)]\nmod ", 1)[0]
    found = []
    for m in RUST.finditer(text):
        literal = m.group()
        if literal.startswith('"') and " " in literal.strip('" '):
            content = re.sub(r"\\\n\s*|\\n", " ", literal[1:-1])
            found.append(Prose(text.count("\n", 0, m.start()) + 1, re.sub(r"\{[^{}]*\}", "`code`", content)))
    return found


RUST_NAME = re.compile(r"^\s*(?:pub(?:\([\w: ]+\))? )?(?:const |async |unsafe )*(?:fn|const|static|struct|enum|trait|type|mod) (\w+)", re.MULTILINE)
PYTHON_NAME = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)", re.MULTILINE)


def names(text: str, declaration: re.Pattern[str]) -> list[Prose]:
    """Return declared names as their words."""
    found = []
    for m in declaration.finditer(text):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", m[1]).replace("_", " ")
        found.append(Prose(text.count("\n", 0, m.start(1)) + 1, words, name=True))
    return found


def prose_of_python(text: str) -> list[Prose]:
    """Return comments and docstrings of Python."""
    result = [Prose(t.start[0], MARKS.sub("", t.string))
              for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            begin = node.body[0].lineno
            for i, line in enumerate(node.body[0].value.value.split("\n")):
                if line.strip():
                    result.append(Prose(begin + i, line.strip(), i == 0))
    return result


def prose_of_markdown(text: str) -> list[Prose]:
    """Return the prose of a page: no fenced or indented code, no comments."""
    result, fenced = [], False
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    for line, content in enumerate(text.split("\n"), 1):
        if content.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and content.strip() and not content.startswith("    "):
            result.append(Prose(line, content))
    return result


def prose(file: str, text: str) -> list[Prose]:
    """Return the prose of a file by its name."""
    name = Path(file).name
    suffix = Path(file).suffix
    if suffix == ".rs":
        tests = {"tests", "examples"} & set(Path(file).parts) or name.endswith("tests.rs")
        return prose_of_code(text, RUST) + names(text, RUST_NAME) + ([] if tests else messages_of_rust(text))
    if suffix in (".ts", ".tsx", ".js", ".mjs"):
        return prose_of_code(text, SCRIPT)
    if suffix in (".py", ".pyi"):
        return prose_of_python(text) + names(text, PYTHON_NAME)
    if suffix == ".md":
        return prose_of_markdown(text)
    if suffix == ".toml":
        return [Prose(line, MARKS.sub("", raw)) for line, raw in comments(text, TOML)]
    if suffix in (".sh", ".service", ".conf") or name == "Makefile" or text.startswith("#!/bin/"):
        return [Prose(line, MARKS.sub("", raw)) for line, raw in comments(text, HASH) if not raw.startswith("#!")]
    return []


def check(file: str, text: str) -> list[Finding]:
    """Return every match in a file."""
    found = []
    for p in prose(file, text):
        if p.name:
            found.extend(Finding(file, p.line, NAME.name, p.text) for _ in NAME.regex.finditer(p.text))
            continue
        content = plain(p.text)
        for pat in PATTERNS:
            found.extend(Finding(file, p.line, pat.name, m.group().strip()) for m in pat.regex.finditer(content))
        if p.doc:
            if m := DOC_WORD.regex.search(p.text):
                found.append(Finding(file, p.line, DOC_WORD.name, m.group()))
            if m := DOC_PRONOUN.regex.search(p.text):
                found.append(Finding(file, p.line, DOC_PRONOUN.name, m.group()))
            # A heading or a table in a module's documentation has no sentence; a source may follow the full stop.
            ends = p.text.startswith(("#", "|")) or re.search(r"(?:[.:?]|\.[)*`\"]|\. [^.]*§[\w.§, –-]+)$", p.text)
            if len(p.text) > FIRST_LINE:
                found.append(Finding(file, p.line, DOC_LINE.name, f"{len(p.text)} characters"))
            elif not ends:
                found.append(Finding(file, p.line, DOC_LINE.name, p.text[-30:]))
    return found


def directory(file: str) -> str:
    """Return the directory that a file is counted in."""
    parts = file.split("/")[:-1]
    return "/".join(parts[:2]) if parts else "."


def git(*args: str) -> str | None:
    """Return the output of git, or nothing if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def files() -> list[str]:
    """Return the files to be checked: those of git, or of the folder where git has none."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed:
        return sorted(f for f in set(listed.split("\0")) if f and (ROOT / f).is_file())
    return sorted(str(f.relative_to(ROOT)) for f in ROOT.rglob("*") if f.is_file() and "target" not in f.parts)


class Exceptions:
    """Exclusions and accepted findings; an entry without reason is an error."""

    def __init__(self, text: str) -> None:
        """Read the TOML text."""
        table = tomllib.loads(text)
        self.since: str = table["commits"]["since"]
        self.words: list[str] = [w for entry in table["spelling"] for w in entry["words"]]
        self.excluded: list[str] = [g for entry in table["exclude"] for g in entry["files"]]
        self.accepted: list[dict] = table.get("accept", [])
        for entry in [*table["exclude"], *self.accepted, *table["spelling"]]:
            if not entry.get("reason"):
                raise ValueError(f"exceptions.toml: {entry}: no reason; expected reason = \"…\"")
        for entry in self.accepted:
            if entry["pattern"] not in ALL:
                raise ValueError(f"exceptions.toml: pattern: unknown \"{entry['pattern']}\"; expected one of {', '.join(ALL)}")

    def excludes(self, file: str) -> bool:
        """Return true if a file is not checked."""
        return any(fnmatch(file, g) for g in self.excluded)

    def accepts(self, finding: Finding, line: str) -> bool:
        """Return true if a finding is accepted, by its file, pattern and line."""
        return any(e["pattern"] == finding.pattern and any(fnmatch(finding.file, g) for g in e["files"])
                   and re.search(e.get("text", ""), line) for e in self.accepted)


def ratchet(found: list[Finding], allowed: dict[str, dict[str, int]]) -> tuple[list[tuple[str, str, int, int]], int]:
    """Compare counts with the allowed ones: those that rose, and the sum by which others fell."""
    counts = Counter((directory(f.file), f.pattern) for f in found)
    keys = set(counts) | {(d, p) for d, of in allowed.items() for p in of}
    pairs = [(d, p, counts[d, p], allowed.get(d, {}).get(p, 0)) for d, p in sorted(keys)]
    return [x for x in pairs if x[2] > x[3]], sum(a - n for _, _, n, a in pairs if n < a)


def lowered(found: list[Finding], allowed: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the allowed counts, none above the present one."""
    counts = Counter((directory(f.file), f.pattern) for f in found)
    result = {d: {p: min(n, counts[d, p]) for p, n in of.items() if counts[d, p]} for d, of in allowed.items()}
    return {d: of for d, of in sorted(result.items()) if of}


def changed_lines() -> dict[str, set[int]]:
    """Return the lines that the working tree and the last commit added."""
    lines: dict[str, set[int]] = defaultdict(set)
    file = ""
    for line in (git("diff", "-U0", "--no-color", "HEAD~1") or "").split("\n"):
        if line.startswith("+++ b/"):
            file = line[6:]
        elif m := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            begin, number = int(m[1]), int(m[2] or 1)
            lines[file].update(range(begin, begin + number))
    return lines


def subjects(since: str) -> list[str]:
    """Return messages about commit subjects that are too long."""
    if git("merge-base", "--is-ancestor", since, "HEAD") is None:
        print(f"language: commit subjects not checked: the history does not reach back to {since[:8]}", file=sys.stderr)
        return []
    log = git("log", "--no-merges", "--format=%h %s", f"{since}..HEAD") or ""
    pairs = [line.split(" ", 1) for line in log.splitlines()]
    return [f"commit {c}: subject of {len(s)} characters; expected at most {SUBJECT}" for c, s in pairs if len(s) > SUBJECT]


def main() -> int:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="lower the allowed counts to the present ones")
    parser.add_argument("--list", metavar="DIR", help="print every finding below a directory or in a file")
    parser.add_argument("--words", action="store_true", help="print the words that codespell accepts, and end")
    parser.add_argument("--files", action="store_true", help="print the checked files, each ended by NUL, and end")
    args = parser.parse_args()
    exceptions = Exceptions(EXCEPTIONS.read_text(encoding="utf-8"))
    if args.words:
        print(",".join(exceptions.words))
        return 0
    found: list[Finding] = []
    number = 0
    for file in files():
        if exceptions.excludes(file):
            continue
        try:
            text = (ROOT / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = text.split("\n")
        if args.files:
            if prose(file, text):
                print(file, end="\0")
            continue
        number += 1
        found.extend(f for f in check(file, text) if not exceptions.accepts(f, lines[f.line - 1]))
    if args.files:
        return 0
    if args.list is not None:
        for f in found:
            if f.file == args.list or f.file.startswith(args.list.rstrip("/") + "/"):
                print(f)
    allowed = json.loads(ALLOWED.read_text(encoding="utf-8"))
    if args.update:
        allowed = lowered(found, allowed)
        ALLOWED.write_text(json.dumps(allowed, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    risen, fallen = ratchet(found, allowed)
    new = changed_lines() if risen else {}
    for where, name, now, most in risen:
        print(f"language: {where}: {name}: {now} found, {most} allowed; of these:")
        of = [f for f in found if directory(f.file) == where and f.pattern == name]
        of.sort(key=lambda f: f.line not in new.get(f.file, ()))
        for f in of[:SHOWN]:
            print(f"  {f}")
        if len(of) > SHOWN:
            print(f"  and {len(of) - SHOWN} more: scripts/language.py --list {where}")
    long = subjects(exceptions.since)
    for message in long:
        print(f"language: {message}")
    if fallen:
        print(f"language: {fallen} fewer than allowed; scripts/language.py --update lowers the allowed counts", file=sys.stderr)
    print(f"language: {number} files, {len(found)} findings, {len(risen)} counts above the allowed ones", file=sys.stderr)
    return 1 if risen or long else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError) as e:
        sys.exit(f"language: {e}")
