"""Any sequence of remember, update and forget on any note."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from hypothesis import strategies as st

from tars import memory, notes, session_note
from tars.chunker import read_note
from tars.errors import TarsError
from tars.notes import Written
from tars.outline import Outline

FACTS = st.one_of(
    st.sampled_from(
        [
            *(
                "I like tea",
                "I like teapots",
                "- I like tea",
                "# Heading",
                "## Facts",
                "---",
                "title: x",
                "```",
                "~~~",
                "***",
                "a",
            ),
            *(
                "1. one",
                "- [x] done",
                "> said",
                "| a | b |",
                "<private>",
                "</private>",
                "<private>pin 4711</private>",
                "<!-- x",
            ),
            *(
                "private:: true",
                "alias:: X",
                "a\nb",
                "a\r\n# b",
                "a\u2028b",
                "a\x0b- b",
                "\x1b[31mred",
                "\ud800",
                "café",
                "cafe\u0301",
            ),
            *(
                "[[Tea|leaves]]",
                "[x]: http://a",
                "===",
                "12) x",
                "a\\",
                "\\# a",
                "&lt;b",
                "Memory.md:3: I like tea",
                "\ufeffa",
                "  ",
            ),
        ]
    ),
    st.text(max_size=20),
)
LINES = st.one_of(
    st.sampled_from(
        [
            *(
                "# Memory",
                "## Facts",
                "## Later",
                "Under",
                "===",
                "---",
                "",
                "",
                "Some text about  tea ",
                "- first",
                "- I like tea.",
            ),
            *(
                "* [ ] tea\t",
                "  - I like teapots!",
                "  wrapped on",
                "\tmore",
                "1. one",
                "```",
                "~~~",
                "- I like tea",
                "> quoted",
                "title: x",
            ),
            *(
                "<private>",
                "</private>",
                "- <private>pin</private>",
                "| a | b |",
                "|---|---|",
                "    code",
                "-",
                "#",
                "a\u2028b",
                "private: no",
            ),
        ]
    ),
    st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=12),
)
CODINGS = {
    "utf-8": b"",
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
STEPS = st.one_of(
    st.tuples(
        st.just("remember"),
        FACTS,
        st.sampled_from(["", "", "Facts", "Later", "# New\n- x", "<private>", "New ##", "\ud800"]),
    ),
    st.tuples(st.just("update"), FACTS, FACTS),
    st.tuples(st.just("forget"), FACTS, st.just("")),
    st.tuples(st.just("update"), st.integers(0, 30), FACTS),
    st.tuples(st.just("forget"), st.integers(0, 30), st.just("")),
)
EDITS = st.tuples(
    st.lists(LINES, max_size=16),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.sampled_from(sorted(CODINGS)),
    st.lists(STEPS, min_size=1, max_size=4),
)


class Folder:
    """A memory of one note, with its bytes at hand."""

    def __init__(self, place: str) -> None:
        self.folder, self.lock = Path(place), Path(place) / ".lock"
        self.note = self.folder / "Memory.md"

    def did(self, call: Callable[..., Written], *words: str, **more: str) -> Written | None:
        """What a call did; if it was refused, nothing has changed."""
        before = self.note.read_bytes()
        try:
            return call(self.folder, *words, lock=self.lock, **more)
        except TarsError:
            assert self.note.read_bytes() == before
            return None

    def outline(self) -> Outline:
        return Outline(notes.read_note_text(self.folder, "Memory.md"))


def edits_hold(given: tuple[list[str], str, bool, str, list[tuple[str, str | int, str]]]) -> None:
    """A step changes the lines that it says and no other byte; what it wrote is found, and can be taken back."""
    lines, newline, final, coding, steps = given
    text = newline.join(lines) + newline * final
    with tempfile.TemporaryDirectory() as place:
        memory_of = Folder(place)
        memory_of.note.write_bytes(CODINGS[coding] + text.encode(coding.removesuffix("-sig")))
        for kind, named, words in steps:
            if isinstance(named, int):
                named = line_at(memory_of, named)
            if kind == "remember":
                remember_holds(memory_of, named, words)
            elif kind == "update":
                update_holds(memory_of, named, words)
            else:
                forget_holds(memory_of, named)
        assert not [path.name for path in memory_of.folder.iterdir() if path.name not in ("Memory.md", ".lock")]


def line_at(memory_of: Folder, number: int) -> str:
    """A line that is there, so that steps do not only miss."""
    outline = memory_of.outline()
    there = outline.facts()
    if not there:
        return ""
    at = there[number % len(there)]
    return f"Memory.md:{at + 1}: {outline.texts[at]}"


def remember_holds(memory_of: Folder, fact: str, section: str) -> None:
    before, old = memory_of.outline(), memory_of.note.read_bytes()
    written = memory_of.did(notes.remember, fact, section=section)
    after, new = memory_of.outline(), memory_of.note.read_bytes()
    if written is None or not written.changed:
        assert new == old
        return
    at = written.line - 1
    assert after.texts[at] == f"- {written.text}"
    first, last = inserted_lines(before, after, at)
    assert sum(bool(text.strip()) for text in after.texts[first:last]) <= 2  # the item, and its heading if that is new
    same_elsewhere(before, after, (0, first), (0, first))
    same_elsewhere(before, after, (first, len(before.texts)), (last, len(after.texts)))
    again = memory_of.did(notes.remember, fact, section=section)
    assert again is not None and not again.changed
    gone = memory_of.did(notes.forget, f"Memory.md:{written.line}: {written.text}")
    assert gone is not None and gone.line == written.line
    left = memory_of.outline()
    assert [text for text in left.texts if text.strip()] == [
        text for i, text in enumerate(after.texts) if text.strip() and i != at
    ]
    memory_of.note.write_bytes(new)


def inserted_lines(before: Outline, after: Outline, at: int) -> tuple[int, int]:
    """Which lines of the note are new, given one of them: those around it without which it is the note before."""
    count = len(after.lines) - len(before.lines)
    starts = range(max(0, at - count + 1), at + 1)
    fits = [s for s in starts if after.texts[:s] + after.texts[s + count :] == before.texts]
    assert count > 0 and fits, "lines were changed that nobody named"
    first = fits[-1]
    ends = [line.end for line in after.lines[:first]] + [line.end for line in after.lines[first + count :]]
    ends_before = [line.end for line in before.lines]
    assert ends[:-1] == ends_before[:-1] or first == len(before.lines)
    assert after.note.bom == before.note.bom and after.note.encoding == before.note.encoding
    assert after.lines[-1].end == before.lines[-1].end if before.lines else True
    return first, first + count


def same_elsewhere(before: Outline, after: Outline, old: tuple[int, int], new: tuple[int, int]) -> None:
    """The lines are what they were: heading, item, fence or text, private or not."""
    assert before.texts[slice(*old)] == after.texts[slice(*new)]
    assert before.kinds[slice(*old)] == after.kinds[slice(*new)]
    hidden = {at - old[0] for at in range(*old) if at + 1 in before.private and before.texts[at].strip()}
    assert hidden == {at - new[0] for at in range(*new) if at + 1 in after.private and after.texts[at].strip()}


def update_holds(memory_of: Folder, old: str, new: str) -> None:
    before = memory_of.outline()
    raw = memory_of.note.read_bytes()
    written = memory_of.did(notes.update, old, new)
    after = memory_of.outline()
    if written is None or not written.changed:
        assert memory_of.note.read_bytes() == raw
        return
    at, gone = written.line - 1, len(before.texts) - len(after.texts)
    assert after.texts[at].endswith(written.text) and gone >= 0
    same_elsewhere(before, after, (0, at), (0, at))
    same_elsewhere(before, after, (at + 1 + gone, len(before.texts)), (at + 1, len(after.texts)))
    assert (after.kinds[at] == before.kinds[at]) and (after.lines[-1].end == before.lines[-1].end)
    back = memory_of.did(notes.update, f"Memory.md:{written.line}: {written.text}", written.before)
    if back and not gone and notes.lead(before.texts[at]) + back.text == before.texts[at]:
        assert memory_of.note.read_bytes() == raw
    memory_of.note.write_bytes(after.note.encode(after.lines))


def forget_holds(memory_of: Folder, text: str) -> None:
    before = memory_of.outline()
    written = memory_of.did(notes.forget, text)
    if written is None:
        return
    after, at = memory_of.outline(), written.line - 1
    gone = len(before.texts) - len(after.texts)
    assert gone > 0
    kept = [*before.texts[:at], *before.texts[at + gone :]]
    assert after.texts == kept or (not before.lines[-1].end and [*after.texts, ""] == kept)
    ends = [line.end for line in [*before.lines[:at], *before.lines[at + gone :]]]
    assert [line.end for line in after.lines][:-1] == ends[: len(after.lines) - 1]


# ---- the note of a conversation

SAID = st.lists(FACTS, min_size=1, max_size=6)
PLACES = st.lists(
    st.one_of(st.sampled_from(["a.md:1", 'q"x.md:2', "\x7f.md:3", "\ud800.md:1"]), st.text(max_size=12)), max_size=3
)
CONVERSATIONS = st.tuples(SAID, PLACES, st.booleans())


def session_note_holds(given: tuple[list[str], list[str], bool]) -> None:
    """Whatever was said, the note has its own title and date, is private if it must be, and holds items only."""
    from tars.chat import Message

    said, sources, private = given
    lines = session_note.statements([Message("user", text) for text in said])
    lines += session_note.points("\n".join(said))
    kept = session_note.worth_keeping(lines, quoted="", forgotten=[])
    if not kept:
        return
    now = datetime(2026, 4, 6, 10, 30)
    text = session_note.note_text("20260406-103000", kept, sources, now, private=private)
    note = read_note(memory.decode(text.encode()))

    assert (note.title, note.date) == ("Conversation of 6 April 2026, 10:30", "2026-04-06")
    assert note.private or not private
    assert text.split("---\n\n", 1)[1].count("\n") == len(kept) + 2
    assert "/" not in session_note.name_of(kept, now).removeprefix("sessions/")
