"""Writing to notes: one line is named by all of its text, and every other byte of the note stays."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tars import notes
from tars.chunker import read_note
from tars.errors import TarsError
from tars.facts import as_fact
from tars.memory import decode, inside
from tars.notes import NoSingleLine, Written

LIKES = "# Memory\n\n## About me\n\n- I like teapots\n- I like tea\n- I do not think that I like tea at all\n"


class Notes:
    """A folder of notes and its lock, with the calls under test."""

    def __init__(self, folder: Path, lock: Path) -> None:
        self.folder, self.lock = folder, lock

    def put(self, text: str | bytes, path: str = "Memory.md") -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    def bytes(self, path: str = "Memory.md") -> bytes:
        return (self.folder / path).read_bytes()

    def text(self, path: str = "Memory.md") -> str:
        return self.bytes(path).decode()

    def remember(self, fact: str, **more: str) -> Written:
        return notes.remember(self.folder, fact, lock=self.lock, **more)

    def update(self, old: str, new: str, **more: str) -> Written:
        return notes.update(self.folder, old, new, lock=self.lock, **more)

    def forget(self, text: str, **more: str) -> Written:
        return notes.forget(self.folder, text, lock=self.lock, **more)


@pytest.fixture
def vault_notes(vault: Path, tmp_path: Path) -> Notes:
    return Notes(vault, tmp_path / "home" / "notes-lock")


# ---- one line, all of it, and no other


def test_i_like_tea_never_touches_i_like_teapots(vault_notes: Notes) -> None:
    vault_notes.put(LIKES)
    vault_notes.update("I like tea", "I like coffee")
    vault_notes.forget("I like coffee")

    assert vault_notes.text() == LIKES.replace("- I like tea\n", "")


@pytest.mark.parametrize(
    "line", ["the code is 4711.", "the code is - 4711", "the code is 1) here", "- the code is * x"]
)
def test_what_looks_like_a_bullet_within_a_line_is_part_of_it(vault_notes: Notes, line: str) -> None:
    vault_notes.put(line)
    for part in ("the code is", "the code is here", "the code is x", "4711"):
        with pytest.raises(NoSingleLine):
            vault_notes.forget(part)

    vault_notes.forget(line)
    assert vault_notes.text() == ""


def test_part_of_a_line_names_no_line_and_the_nearest_are_told(vault_notes: Notes) -> None:
    vault_notes.put(LIKES.replace("- I like tea\n", ""))
    for call in (lambda: vault_notes.forget("I like tea"), lambda: vault_notes.update("I like tea", "x")):
        with pytest.raises(
            NoSingleLine, match=r"no line of Memory\.md says exactly that.*Memory\.md:5: I like teapots"
        ):
            call()

    assert vault_notes.text() == LIKES.replace("- I like tea\n", "")


def test_a_line_that_is_shown_in_part_shows_that_it_is(vault_notes: Notes) -> None:
    vault_notes.put(f"- I like tea {'very ' * 30}much\n")
    with pytest.raises(NoSingleLine, match=r"very ver…$"):
        vault_notes.forget("I like tea")


def test_a_line_named_by_its_place_goes_from_a_folder_without_a_memory_file(vault_notes: Notes) -> None:
    vault_notes.put("- I like tea\n- I like soup\n", "food.md")
    with pytest.raises(TarsError, match=r"no Memory\.md yet; .* 'PATH:LINE: TEXT'"):
        vault_notes.forget("I like tea")

    vault_notes.forget("food.md:1: I like tea")
    assert vault_notes.text("food.md") == "- I like soup\n"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("- I like tea", "I like tea"),
        ("* I like tea.", "  - I  like\ttea"),
        ("12. I like tea", "I like tea."),
        ("- [x] I like tea", "I like tea"),
        ("- [ ] I like tea", "- [x] I like tea"),
        ("  + I like tea  ", "I like tea"),
        ("I like tea", "I like tea!"),
        ("- \\# no heading", "# no heading"),
        ("- cafe\u0301", "caf\u00e9"),
        ("- see [[Tea|the leaves]] 🫖", "see [[Tea|the leaves]] 🫖"),
    ],
)
def test_bullet_checkbox_white_space_and_last_punctuation_do_not_count(
    vault_notes: Notes, line: str, named: str
) -> None:
    vault_notes.put(f"before\n\n{line}\n\nafter\n")
    lead = notes.lead(line)

    assert vault_notes.update(named, "I like coffee").line == 3
    assert vault_notes.text() == f"before\n\n{lead}I like coffee\n\nafter\n"
    vault_notes.forget("I like coffee")
    assert vault_notes.text() == "before\n\n\nafter\n"


@pytest.mark.parametrize("named", ["Memory", "# Memory", "title: x", "---", "code", "***", "", " ", "..."])
def test_headings_frontmatter_fences_and_rules_are_no_facts(vault_notes: Notes, named: str) -> None:
    text = "---\ntitle: x\n---\n# Memory\n\n```\ncode\n```\n\n***\n\n- a fact\n"
    vault_notes.put(text)
    with pytest.raises(TarsError):
        vault_notes.forget(named)

    assert vault_notes.text() == text


def test_equal_lines_are_told_apart_by_number_and_text_together(vault_notes: Notes) -> None:
    vault_notes.put("- tea\n- coffee\n- tea.\n")
    vault_notes.put("- tea\n", "Procedural.md")
    with pytest.raises(NoSingleLine, match="more than one") as raised:
        vault_notes.forget("tea")

    assert [(at.path, at.line) for at in raised.value.lines] == [
        ("Memory.md", 1),
        ("Memory.md", 3),
        ("Procedural.md", 1),
    ]
    with pytest.raises(NoSingleLine, match=r"with its text.*Memory\.md:3: tea\."):
        vault_notes.forget("Memory.md:3")
    with pytest.raises(NoSingleLine, match=r"Memory\.md:2: coffee"):
        vault_notes.forget("Memory.md:2: tea")
    vault_notes.forget("Memory.md:3: tea")
    vault_notes.update("Procedural.md:1 tea", "water")
    assert (vault_notes.text(), vault_notes.text("Procedural.md")) == ("- tea\n- coffee\n", "- water\n")


def test_other_notes_are_written_only_when_named(vault_notes: Notes) -> None:
    vault_notes.put("- in Memory\n")
    vault_notes.put("- tea\n", "people/Ruth.md")
    with pytest.raises(NoSingleLine):
        vault_notes.forget("tea")
    vault_notes.update("tea", "coffee", path="people/Ruth.md")

    assert vault_notes.text("people/Ruth.md") == "- coffee\n"


def test_forget_takes_what_is_indented_below_an_item_and_nothing_else(vault_notes: Notes) -> None:
    keep_above, keep_below = "- one\n  more of one\n", "\n - a sibling by one blank\n- three\n\n    not of two\n"
    vault_notes.put(f"{keep_above}- two\n  more of two\n\n  - nested\n    ```\n    code\n    ```\n{keep_below}")
    gone = vault_notes.forget("two")

    assert vault_notes.text() == keep_above + keep_below
    assert "nested" in gone.text and (gone.path, gone.line) == ("Memory.md", 3)


def test_a_fence_is_forgotten_whole_or_not_at_all(vault_notes: Notes) -> None:
    fence = "  ```\nnot indented\n  ```\n"
    vault_notes.put(f"- two\n{fence}- three\n")
    vault_notes.forget("two")

    assert vault_notes.text() == f"{fence}- three\n"


def test_an_item_over_several_lines_may_be_named_whole(vault_notes: Notes) -> None:
    vault_notes.put("- I like tea\n  with milk.\n- three")
    vault_notes.update("I like tea with milk", "I like coffee")

    assert vault_notes.text() == "- I like coffee\n- three"


def test_a_line_that_opens_or_closes_a_private_passage_is_left_to_the_person(vault_notes: Notes) -> None:
    text = "- open\n- <private> secret\n- hidden </private>\n- pin <private>1</private>\n"
    vault_notes.put(text)
    for line in ("<private> secret", "hidden </private>"):
        with pytest.raises(TarsError, match="by hand"):
            vault_notes.forget(line)
    vault_notes.forget("pin <private>1</private>")

    assert vault_notes.text() == text.replace("- pin <private>1</private>\n", "")


# ---- remember


@pytest.mark.parametrize(
    ("before", "section", "after"),
    [
        (None, None, "# Memory\n\n## Facts\n\n- NEW\n"),
        ("", None, "## Facts\n\n- NEW\n"),
        ("# Memory\n\n## About me\n\n", None, "# Memory\n\n## About me\n\n- NEW\n"),
        ("# Memory\n\n## About me\n", None, "# Memory\n\n## About me\n\n- NEW\n"),
        ("## A\n\n- a\n\n## B\n\n- b\n", None, "## A\n\n- a\n\n## B\n\n- b\n\n## Facts\n\n- NEW\n"),
        ("## A\n\n- a\n\n## FACTS\n\n- b", None, "## A\n\n- a\n\n## FACTS\n\n- b\n- NEW"),
        ("## A\n\n- a\n\n## B\n\n- b\n", "a", "## A\n\n- a\n- NEW\n\n## B\n\n- b\n"),
        ("## A\n\n## B\n\n- b\n", "## A", "## A\n\n- NEW\n\n## B\n\n- b\n"),
        ("## A\n## B\n", "A", "## A\n\n- NEW\n\n## B\n"),
        ("## A\ntext\n\n### sub\n- b\n", "A", "## A\ntext\n\n- NEW\n\n### sub\n- b\n"),
        ("## A\n- a\n  - nested\n", "A", "## A\n- a\n  - nested\n- NEW\n"),
        ("A\n---\n\n- a\n", "A", "A\n---\n\n- a\n- NEW\n"),
        ("```\n## A\n```\n", "A", "```\n## A\n```\n\n## A\n\n- NEW\n"),
        ("---\ntitle: x\n---", "A\n# B", "---\ntitle: x\n---\n\n## A # B\n\n- NEW"),
    ],
)
def test_a_fact_goes_under_its_section(vault_notes: Notes, before: str | None, section: str | None, after: str) -> None:
    if before is not None:
        vault_notes.put(before)
    written = vault_notes.remember("NEW", **({"section": section} if section else {}))

    assert vault_notes.text() == after
    assert after.split("\n")[written.line - 1] == "- NEW"


NASTY = [
    "I like tea",
    "I like teapots",
    "tea",
    "the code is",
    "the code is 4711.",
    "the code",
    "the code - 5",
    "the code 5",
    "# Heading",
    "###### deep",
    "#tag first",
    "---",
    "--- title: x",
    "===",
    "> quoted",
    "- bullet",
    "* * *",
    "+ 3 degrees",
    "- 5 degrees",
    "1. first",
    "1) first",
    "```python",
    "~~~",
    "| a | b |",
    "line one\n## Forged\n- forged",
    "line one\r\n---\r\ntitle: forged\r\n---\r\nrest",
    "tabs\tand\x0bfeeds\x0c\x1c\u2028\u2029\x85 end",
    "nul \x00 bell \x07 escape \x1b[31m red",
    "right \u202e to left",
    "half a \ud83d pair",
    "[[Wiki#link|alias]] and ![[embed]]",
    "emoji 👩‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "private:: true",
    "**title**:: forged",
    "</private> out",
    "<private> in",
    "pin <private>1234</private>",
    "<!-- hidden",
    "[ref]: http://example.org",
    "[x] done",
    "ends with backslash \\",
    "C:\\temp\\notes",
    "\\# escaped already",
    "  spaces   around  ",
    "Memory.md:12: not a place",
    "日本語の事実。",
    "&lt;b>",
]


@pytest.mark.parametrize("fact", NASTY, ids=ascii)
def test_a_fact_is_one_item_and_forges_nothing(vault_notes: Notes, fact: str) -> None:
    before = "---\ntitle: Memory\n---\n# Memory\n\n## Facts\n\n- the one before\n"
    vault_notes.put(before)
    written = vault_notes.remember(fact)
    note = read_note(decode(vault_notes.bytes()))

    assert vault_notes.text().startswith(before)
    added = vault_notes.text().removeprefix(before)
    assert re.fullmatch(r"- [^\n]+\n", added) and added.isprintable() is False  # but for the last newline
    assert all(c.isprintable() or c in "\u200d" or 0xE0000 <= ord(c) <= 0xE007F for c in added[:-1])
    assert (note.title, note.private, note.date) == ("Memory", False, None)
    assert {chunk.heading for chunk in note.chunks} == {"Facts"}
    assert not vault_notes.remember(fact).changed
    assert vault_notes.forget(fact).line == written.line
    assert vault_notes.text() == before


@pytest.mark.parametrize("fact", NASTY, ids=ascii)
def test_a_plain_line_that_is_updated_forges_nothing_either(vault_notes: Notes, fact: str) -> None:
    vault_notes.put("A first line\n\nplain text\n\nlast\n")
    vault_notes.update("A first line", fact)
    vault_notes.update("plain text", fact + " b")
    note = read_note(decode(vault_notes.bytes()))

    assert (note.title, note.private) == (None, False)
    assert {chunk.heading for chunk in note.chunks} == {""}
    assert vault_notes.text().split("\n")[1::2] == ["", "", ""]


@pytest.mark.parametrize("fact", ["", " \n\t", "\x00", "...", "x" * 2_001])
def test_no_fact_and_no_essay(vault_notes: Notes, fact: str) -> None:
    vault_notes.put("- a\n")
    with pytest.raises(TarsError):
        vault_notes.remember(fact)

    assert vault_notes.text() == "- a\n"


def test_a_fence_that_was_never_closed_swallows_no_fact(vault_notes: Notes) -> None:
    vault_notes.put("## Facts\n\n```\ncode\n\n")
    with pytest.raises(TarsError, match=r"Memory\.md:3 is not closed"):
        vault_notes.remember("tea")


# ---- bytes


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("final", [True, False])
def test_encoding_line_ends_and_the_end_of_the_note_stay(
    vault_notes: Notes, encoding: str, newline: str, final: bool
) -> None:
    def encoded(*lines: str) -> bytes:
        text = newline.join(lines) + (newline if final else "")
        return ("\ufeff" if encoding == "utf-16-be" else "").encode(encoding) + text.encode(encoding)

    vault_notes.put(encoded("---", "title: ä", "---", "- one 🫖", "", "# Facts", "- two"))
    vault_notes.remember("thrëe")
    assert vault_notes.bytes() == encoded("---", "title: ä", "---", "- one 🫖", "", "# Facts", "- two", "- thrëe")
    vault_notes.update("one 🫖", "1")
    vault_notes.forget("thrëe")
    assert vault_notes.bytes() == encoded("---", "title: ä", "---", "- 1", "", "# Facts", "- two")


def test_a_note_that_changed_since_it_was_read_is_not_written(vault_notes: Notes) -> None:
    vault_notes.put("- one\n")
    stamp = (vault_notes.folder / "Memory.md").stat()
    note = notes.read_note_text(vault_notes.folder, "Memory.md")
    vault_notes.put("- two\n")  # the same size, and the same time
    os.utime(vault_notes.folder / "Memory.md", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    with pytest.raises(notes.Changed, match="has changed since it was read"):
        notes.write_note(vault_notes.folder, "Memory.md", b"- three\n", expected=note.stamp)
    with pytest.raises(notes.Changed):
        notes.write_note(vault_notes.folder, "Memory.md", b"- three\n", expected=None)
    assert vault_notes.text() == "- two\n"
    assert [file.name for file in vault_notes.folder.iterdir()] == ["Memory.md"]


def test_the_mode_of_a_note_stays_and_protection_is_respected(vault_notes: Notes) -> None:
    vault_notes.put("- one\n")
    target = vault_notes.folder / "Memory.md"
    target.chmod(0o640)
    vault_notes.remember("two")

    assert target.stat().st_mode & 0o777 == 0o640
    target.chmod(0o440)
    if not os.access(target, os.W_OK):  # everything may be written as root
        with pytest.raises(TarsError, match="write-protected"):
            vault_notes.remember("three")


def test_a_folder_that_cannot_be_written_to_is_one_clear_line(vault_notes: Notes) -> None:
    vault_notes.put("in the way", "people")
    with pytest.raises(TarsError, match="cannot write"):
        notes.write_note(vault_notes.folder, "people/Ruth.md", b"x", expected=None)


def test_private_lines_are_left_blank_and_the_others_keep_their_numbers() -> None:
    text = "# A\n\nopen\n<private>\nsecret\n\n</private>\nopen again <private>x</private>\nlast\n"

    assert notes.public_text(text) == "# A\n\nopen\n\n\n\n\n\nlast\n"
    assert notes.public_text(f"---\nprivate: yes\n---\n{text}").strip() == ""


# ---- paths


def refused(folder: Path, outside: Path) -> list[str]:
    (outside / "secret.md").write_text("secret")
    (folder / ".obsidian").mkdir()
    (folder / "drafts").mkdir()
    for path in (".hidden.md", ".obsidian/x.md", "picture.png", "drafts/x.md", "a.sync-conflict-1.md"):
        (folder / path).write_text("x")
    (folder / ".tarsignore").write_text("drafts/\n")
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "linked").symlink_to(outside)
    (folder / "loop.md").symlink_to(folder / "loop.md")
    (folder / "folder.md").mkdir()
    return [
        "../../etc/passwd", "../outside/secret.md", "people/../../outside/secret.md", "/etc/passwd", "",
        str(outside / "secret.md"), str(folder / "Memory.md"), "link.md", "linked/secret.md", "linked/new.md", "loop.md",
        ".hidden.md", ".obsidian/x.md", "picture.png", "drafts/x.md", "a.sync-conflict-1.md", "folder.md", ".",
        "a\0.md", "half \ud83d.md",
    ]  # fmt: skip


def test_no_path_leaves_the_folder_or_names_what_is_no_note(vault: Path, vault_notes: Notes, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    paths = refused(vault, outside)

    for path in paths:
        calls: list[Callable[[], object]] = [
            lambda path=path: inside(vault, path),
            lambda path=path: notes.read_note_text(vault, path),
            lambda path=path: notes.write_note(vault, path, b"x", expected=None),
            lambda path=path: vault_notes.remember("x", path=path),
            lambda path=path: vault_notes.update("secret", "x", path=path),
            lambda path=path: vault_notes.forget("secret", path=path),
            lambda path=path: vault_notes.forget(f"{path}:1: secret", path="Memory.md"),
        ]
        for call in calls:
            with pytest.raises(TarsError):
                call()
    assert (outside / "secret.md").read_text() == "secret"
    assert [file.name for file in outside.iterdir()] == ["secret.md"]


def test_a_link_that_stays_inside_is_written_at_its_true_place(vault: Path, vault_notes: Notes) -> None:
    vault_notes.put("- tea\n", "true/Place.md")
    (vault / "Memory.md").symlink_to(vault / "true" / "Place.md")

    assert vault_notes.forget("tea").path == "true/Place.md"
    assert (vault / "Memory.md").is_symlink()
    assert vault_notes.text("true/Place.md") == ""


# ---- many writers


REMEMBER_MANY = """
import sys
from pathlib import Path
from tars import notes
for number in range(int(sys.argv[4])):
    notes.remember(Path(sys.argv[1]), f"{sys.argv[3]} says {number}", lock=Path(sys.argv[2]))
"""


def test_two_processes_and_two_threads_lose_no_fact(vault_notes: Notes) -> None:
    args = [str(vault_notes.folder), str(vault_notes.lock)]
    processes = [subprocess.Popen([sys.executable, "-c", REMEMBER_MANY, *args, name, "50"]) for name in "ab"]
    threads = [
        threading.Thread(target=lambda name=name: [vault_notes.remember(f"{name} says {n}") for n in range(50)])
        for name in "cd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [process.wait() for process in processes] == [0, 0]
    facts = [line for line in vault_notes.text().split("\n") if line.startswith("- ")]
    assert sorted(facts) == sorted(f"- {name} says {n}" for name in "abcd" for n in range(50))


def test_a_line_that_cites_other_lines_is_found_by_its_own_place(vault_notes: Notes) -> None:
    vault_notes.put("- see home/boiler.md:12 for the code\n- tea\n")
    vault_notes.forget("Memory.md:1: see home/boiler.md:12 for the code")

    assert vault_notes.text() == "- tea\n"


# ---- 500 sequences against a model: a list of lines, and which of them are facts


class Model:
    """A note as lines without their ends; it does not know where a new line goes, only that no other moves."""

    def __init__(self, rng: random.Random) -> None:
        self.newline = rng.choice(["\n", "\r\n"])
        self.bom = rng.choice([b"", b"\xef\xbb\xbf"])
        self.final = rng.choice([self.newline, ""])
        front = rng.choice([[], ["---", "title: Memory", "tags: [a, b]", "---"]])
        head = ["# Memory", "", "## Facts", ""]
        tail = rng.choice([[], ["", "## Later", "", "```", "- I like tea", "# Heading", "```", ""]])
        facts = ["Some text about  tea ", "- first", "- first of all", "* [ ] tea\t", "  - I like teapots!"]
        self.lines = [*front, *head, *facts, *tail]
        self.is_fact = [line in facts for line in self.lines]

    def encoded(self) -> bytes:
        return self.bom + (self.newline.join(self.lines) + self.final).encode()

    def lines_of(self, content: bytes) -> list[str]:
        return content.removeprefix(self.bom).decode().removesuffix(self.final).split(self.newline)

    def named(self, text: str) -> set[int]:
        """Which facts say exactly that, with or without the bullet in front."""
        return {at for at, line in enumerate(self.lines) if self.is_fact[at] and plain(line) in readings(text)}

    def insert(self, at: int, line: str) -> None:
        self.lines.insert(at, line)
        self.is_fact.insert(at, True)

    def remove(self, first: int, count: int) -> None:
        del self.lines[first : first + count], self.is_fact[first : first + count]


def readings(text: str) -> set[str]:
    """What a text may stand for that has a bullet in front, or seems to."""
    text = " ".join(re.sub("[\x00-\x08\x0e-\x1b\x7f\u202e\ud83d]", "", text).split())
    return {plain(text), plain(f"- {text}")} - {""}


def plain(line: str) -> str:
    words = re.sub(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[.\]\s)?", "", line)
    return " ".join(re.sub(r"\\([!-/:-@[-`{-~])", r"\1", words).replace("&lt;", "<").split()).rstrip(" .,;:!…")


def remember_step(model: Model, vault_notes: Notes, fact: str) -> None:
    written = vault_notes.remember(fact)
    if written.changed:
        line = model.lines_of(vault_notes.bytes())[written.line - 1]
        assert line.startswith("- ")
        model.insert(written.line - 1, line)
    assert plain(model.lines[written.line - 1]) in readings(fact)


def update_step(model: Model, vault_notes: Notes, old: str, new: str) -> None:
    at, *others = model.named(old) or {-1}
    if at < 0 or others:
        with pytest.raises(TarsError):
            vault_notes.update(old, new)
        return
    lead = re.match(r"\s*(?:[-*+] (?:\[.\] )?)?", model.lines[at])
    assert lead and vault_notes.update(old, new).line == at + 1
    model.lines[at] = lead[0] + as_fact(new)


def forget_step(model: Model, vault_notes: Notes, old: str) -> None:
    at, *others = model.named(old) or {-1}
    if at < 0 or others:
        with pytest.raises(TarsError):
            vault_notes.forget(old)
        return
    assert vault_notes.forget(old).line == at + 1
    below = model.lines[at].startswith(("- ", "* ")) and model.lines[at + 1 : at + 2] and model.lines[at + 1][:1] == " "
    model.remove(at, 2 if below else 1)


def random_step(model: Model, vault_notes: Notes, rng: random.Random) -> None:
    there = [line for at, line in enumerate(model.lines) if model.is_fact[at]] or ["nothing"]
    fact, line = rng.choice(NASTY), rng.choice(there)
    old = rng.choice([line, line, line.lstrip("-* "), fact, line[: len(line) // 2], fact[: len(fact) // 2], "Facts"])
    match rng.randrange(4):
        case 0 | 1:
            remember_step(model, vault_notes, fact)
        case 2:
            update_step(model, vault_notes, old, fact)
        case 3:
            forget_step(model, vault_notes, old)


@pytest.mark.parametrize("block", range(10))
def test_after_any_sequence_every_other_byte_is_unchanged(vault_notes: Notes, block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        rng = random.Random(seed)
        model = Model(rng)
        vault_notes.put(model.encoded())
        for _ in range(rng.randrange(3, 9)):
            random_step(model, vault_notes, rng)
            assert vault_notes.bytes() == model.encoded(), f"seed {seed}"
