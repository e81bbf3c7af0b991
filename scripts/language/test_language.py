"""Tests of scripts/language.py: bad and good samples of every pattern, extraction of prose, and the ratchet."""

import importlib.util
import sys
import unittest
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("language", Path(__file__).resolve().parent.parent / "language.py")
language = importlib.util.module_from_spec(SPEC)
sys.modules["language"] = language
SPEC.loader.exec_module(language)

BAD = {
    "people": ["A flow who fell idle.", "Nobody limits it.", "Whoever owns the slot."],
    "whose": ["A queue whose head waits."],
    "speech": ["The node is told its rate.", "A neighbour that is heard.", "It says nothing."],
    "silent": ["A silent flow.", "The flow fell silent."],
    "anew": ["The bound begins anew."],
    "for-good": ["It is gone for good."],
    "so-manieth": ["The so-manieth packet."],
    "unit-fragment": ["Time between two decisions; s.", "Power of the sender; dBm. More."],
    "is-no": ["A bare name is no command.", "Those are no flows."],
    "inverted": ["Did its own level fall by 4 % or less, it keeps that."],
    "idiom": ["Signs of life are sent.", "Mode 0644 lets others at it.", "The limit goes on."],
    "history": ["Until now it ignored marks.", "That was tried."],
    "old-word": ["The node whence it came."],
}
GOOD = [
    "An operator who upgrades reads this page.",
    "Users who run several gateways.",
    "There is no route. There are no flows, and it is no longer there.",
    "The load is no more than 3; the rate is no larger.",
    "Had it failed?",
    "Sends a report; the receiver senses the medium.",
    "`told` and `who` are names of code.",
    "Time between two decisions in s.",
    "A flow that went idle while underserved stays in the active set.",
    "See [this page](who/nobody.md) and https://example.org/told.",
]


def names(text: str, file: str = "a.md") -> list[str]:
    """Return the names of the patterns that match."""
    return [f.pattern for f in language.check(file, text)]


class Samples(unittest.TestCase):
    """Bad and good samples."""

    def test_bad_samples_match_their_pattern(self) -> None:
        for name, samples in BAD.items():
            for sample in samples:
                with self.subTest(sample):
                    self.assertIn(name, names(sample))

    def test_every_word_pattern_has_a_sample(self) -> None:
        self.assertEqual(set(BAD), {p.name for p in language.PATTERNS})

    def test_good_samples_match_nothing(self) -> None:
        for sample in GOOD:
            with self.subTest(sample):
                self.assertEqual(names(sample), [])

    def test_a_finding_names_file_line_and_replacement(self) -> None:
        (finding,) = language.check("docs/a.md", "One.\n\nIt begins anew.")
        self.assertEqual(str(finding), 'docs/a.md:3: anew: "anew"; expected: again')


class Documentation(unittest.TestCase):
    """First lines of doc comments."""

    def test_rust(self) -> None:
        self.assertEqual(names("/// What a host offers.\nfn f() {}\n", "a.rs"), ["doc-word"])
        self.assertEqual(names("/// Its capabilities.\nfn f() {}\n", "a.rs"), ["doc-pronoun"])
        self.assertEqual(names("/// Capabilities of a host\nfn f() {}\n", "a.rs"), ["doc-line"])
        self.assertEqual(names(f"//! A {'long ' * 20}line.\n", "a.rs"), ["doc-line"])
        self.assertEqual(names("/// Capabilities of a host. RFC 3168 §6.1.2\nfn f() {}\n", "a.rs"), [])
        self.assertEqual(names("/// Capabilities of a host.\n/// What follows has no form\nfn f() {}\n", "a.rs"), [])
        self.assertEqual(names("// What this does\nfn f() {}\n", "a.rs"), [])

    def test_names(self) -> None:
        self.assertEqual(names("#[test]\nfn what_was_lost_is_sent_again() {}\n", "a.rs"), ["name"])
        self.assertEqual(names("pub(crate) const TOLD: u8 = 1;\nstruct Heard;\nenum WhoSends {}\n", "a.rs"), ["name"] * 3)
        self.assertEqual(names("def test_nobody_starves():\n    pass\n", "a.py"), ["name"])
        self.assertEqual(names("fn lost_packets_are_sent_again() {}\nconst SAYINGS: u8 = 1;\n", "a.rs"), [])

    def test_rust_messages(self) -> None:
        text = 'fn f() { g("it says {told}", "a b {who}", "told"); }\n#[cfg(test)]\nmod tests { const A: &str = "nobody is told"; }\n'
        self.assertEqual([f.text for f in language.check("crates/a/src/b.rs", text)], ["says"])
        self.assertEqual(language.check("crates/a/tests/b.rs", text), [])

    def test_rust_item_after_module(self) -> None:
        self.assertEqual(names("//! A module.\n/// What it is.\nstruct A;\n", "a.rs"), ["doc-word"])

    def test_python(self) -> None:
        self.assertEqual(names('def f():\n    """Where it is."""\n', "a.py"), ["doc-word"])
        self.assertEqual(names('def f():\n    """Return it"""\n', "a.py"), ["doc-line"])
        self.assertEqual(names('def f():\n    """Return it.\n\n    What else\n    """\n', "a.py"), [])

    def test_script(self) -> None:
        self.assertEqual(names("/** How it draws. */\nf();\n", "a.ts"), ["doc-word"])


class Extraction(unittest.TestCase):
    """Prose is found where it is, and code is not prose."""

    def test_strings_are_not_comments(self) -> None:
        self.assertEqual(names('let a = "// nobody";\nlet b = r#"// "nobody""#;\nlet c = \'"\'; // anew\n', "tests/a.rs"), ["anew"])
        self.assertEqual(names('a = "# nobody"  # anew\n', "a.py"), ["anew"])
        self.assertEqual(names('a = "# nobody" # anew\n', "a.toml"), ["anew"])
        self.assertEqual(names('echo "# nobody" ${#a} # anew\n', "a.sh"), ["anew"])
        self.assertEqual(names("const a = '// nobody'; // anew\n", "a.js"), ["anew"])

    def test_lifetimes_do_not_hide_comments(self) -> None:
        self.assertEqual(names("fn f<'a>(x: &'a str) {} // anew\n", "a.rs"), ["anew"])

    def test_fenced_code_is_left_out(self) -> None:
        self.assertEqual(names("```sh\nnobody\n```\nanew\n"), ["anew"])
        self.assertEqual(names("/// Text.\n///\n/// ```\n/// nobody\n/// ```\nfn f() {}\n", "a.rs"), [])

    def test_lines_are_counted(self) -> None:
        (finding,) = language.check("a.rs", "fn f() {}\n/*\n * anew\n */\n")
        self.assertEqual(finding.line, 3)


class Ratchet(unittest.TestCase):
    """Counts may fall and never rise."""

    def findings(self, number: int) -> list:
        return [language.Finding("crates/a/src/b.rs", i, "anew", "anew") for i in range(number)]

    def test_a_risen_count_is_reported(self) -> None:
        self.assertEqual(language.ratchet(self.findings(3), {"crates/a": {"anew": 2}}), ([("crates/a", "anew", 3, 2)], 0))

    def test_a_new_directory_has_no_allowance(self) -> None:
        self.assertEqual(language.ratchet(self.findings(1), {}), ([("crates/a", "anew", 1, 0)], 0))

    def test_a_fallen_count_passes(self) -> None:
        self.assertEqual(language.ratchet(self.findings(1), {"crates/a": {"anew": 4}, "docs": {"people": 2}}), ([], 5))

    def test_update_lowers_and_never_raises(self) -> None:
        allowed = {"crates/a": {"anew": 2}, "docs": {"people": 1}}
        self.assertEqual(language.lowered(self.findings(5), allowed), {"crates/a": {"anew": 2}})
        self.assertEqual(language.lowered(self.findings(1), allowed), {"crates/a": {"anew": 1}})

    def test_directories(self) -> None:
        self.assertEqual(language.directory("README.md"), ".")
        self.assertEqual(language.directory("docs/a.md"), "docs")
        self.assertEqual(language.directory("crates/a/src/b/c.rs"), "crates/a")


class Exceptions(unittest.TestCase):
    """Exceptions need a reason and a known pattern."""

    HEAD = '[commits]\nsince = "a"\n[[spelling]]\nwords = ["ect"]\nreason = "r"\n[[exclude]]\nfiles = ["docs/notes/*"]\nreason = "r"\n'

    def test_a_missing_reason_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "no reason"):
            language.Exceptions(self.HEAD + '[[accept]]\npattern = "anew"\nfiles = ["*"]\n')

    def test_an_unknown_pattern_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "unknown \"new\""):
            language.Exceptions(self.HEAD + '[[accept]]\npattern = "new"\nfiles = ["*"]\nreason = "r"\n')

    def test_accepted_by_file_and_line(self) -> None:
        e = language.Exceptions(self.HEAD + '[[accept]]\npattern = "anew"\nfiles = ["a/*"]\ntext = "begins"\nreason = "r"\n')
        self.assertTrue(e.accepts(language.Finding("a/b.md", 1, "anew", "anew"), "it begins anew"))
        self.assertFalse(e.accepts(language.Finding("a/b.md", 1, "anew", "anew"), "anew"))
        self.assertFalse(e.accepts(language.Finding("b.md", 1, "anew", "anew"), "it begins anew"))
        self.assertTrue(e.excludes("docs/notes/a.md"))


if __name__ == "__main__":
    unittest.main()
