"""Writing to notes: what is not changed on purpose stays as it is, to the byte. Nothing here knows the index."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from tars import facts, memory
from tars.chunker import ITEM, Block
from tars.errors import TarsError
from tars.locks import held
from tars.outline import Line, NoteLine, NoteText, Outline
from tars.owner import make_durable, make_folder, opener

MEMORY, PROCEDURAL = "Memory.md", "Procedural.md"
DEFAULT_SECTION = "Facts"
MAX_BYTES = 20_000_000
SHOWN_LINES = 5  # of those that were perhaps meant
SHOWN_CHARS = 100
LOCK_SECONDS = 10.0
MOST_TRIES = 10  # to change a note that others keep changing, before they are kept from it
LEFT_SECONDS = 3600  # after which a temporary file is nobody's

# The first that can be a path is it: the text behind it may name lines of other notes.
LOCATION = re.compile(
    r"(?P<path>\S.*?\.md):(?P<line>[0-9]{1,7})(?:(?::\s*|\s+)(?P<text>.*))?", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did. `line` is where the text stands, or stood if it was removed."""

    path: str
    line: int
    text: str
    before: str = ""
    changed: bool = True  # False: it was so already
    private: bool = False  # some of `text` or `before` must not leave the machine


class Changed(TarsError):
    """The note on disk is no longer the one that was read."""


class NoSingleLine(TarsError):
    """The text does not name exactly one line; `lines` are those that were perhaps meant."""

    def __init__(self, problem: str, lines: Sequence[NoteLine] = ()) -> None:
        self.problem, self.lines = problem, tuple(lines)
        shown = (f"{at.path}:{at.line}: {cut(facts.one_line(at.text))}" for at in lines)
        super().__init__("; ".join([problem, *shown]))


def cut(line: str) -> str:
    """So that nobody takes the beginning of a line for the whole."""
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"


# ---- whole notes


def read_note_text(folder: Path, path: str, *, max_bytes: int = MAX_BYTES) -> NoteText:
    """A note with everything that it takes to write it back; TarsError if there is none."""
    target = memory.inside(folder, path)
    name = target.relative_to(folder.resolve()).as_posix()
    try:
        content = memory.read_bytes(folder, name, max_bytes=max_bytes)
        return NoteText(name, *memory.decode_exactly(content), stamp=stamp_of(content))
    except FileNotFoundError:
        raise TarsError(f"there is no note '{path}'") from None
    except memory.Unreadable as error:
        raise TarsError(f"'{path}' cannot be read: {error}") from None


def public_text(text: str) -> str:
    """A note's text with its private lines left blank, so that the others keep their numbers."""
    if "private" not in text.lower():
        return text  # and spare the reading: every conversation begins with two of them
    hidden = memory.private_lines(text)
    return "\n".join("" if at in hidden else line for at, line in enumerate(text.split("\n"), 1))


def stamp_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_note(folder: Path, path: str, content: bytes, *, expected: str | None, lock: Path | None = None) -> None:
    """Put the bytes in the place of the note, whole or not at all.

    `expected` is the stamp of the note as it was read, None for a new one; a note that has changed is left alone.
    The lock is held for the last step only: nobody waits while the bytes go to the disk.
    """
    target = memory.inside(folder, path)
    if target.exists() and not os.access(target, os.W_OK):
        raise TarsError(f"'{path}' is write-protected")
    temporary = target.with_name(f".tars-{secrets.token_hex(8)}.tmp")
    try:
        make_folder(target.parent)
        remove_leftovers(target.parent)
        # What replaces a note is never readable by more people than that was, not even for a moment.
        write_through(temporary, content)
        with held(lock, wait_seconds=LOCK_SECONDS) if lock else nullcontext():
            # As late as can be: an editor that saves in between knows nothing of our lock.
            if current_stamp(target) != expected:
                raise Changed(f"'{path}' has changed since it was read; nothing was written, look again")
            if expected is not None:
                temporary.chmod(target.stat().st_mode & 0o7777)
            temporary.replace(target)
        make_durable(target.parent)
    except OSError as error:
        raise TarsError(f"cannot write '{path}': {memory.reason_of(error)}") from None
    finally:
        with suppress(OSError):  # it is where it belongs, or was never made
            temporary.unlink()


def remove_leftovers(folder: Path) -> None:
    """Take away what a write that was killed left beside the notes; not what one of this moment has just made."""
    with suppress(OSError):
        for path in folder.glob(".tars-*.tmp"):
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                path.unlink()


def write_through(path: Path, content: bytes) -> None:
    """A new file, its owner's only, whose bytes are on the disk."""
    with open(path, "xb", opener=opener) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# ---- lines


def current_stamp(path: Path) -> str | None:
    try:
        return stamp_of(path.read_bytes())
    except FileNotFoundError:
        return None


def removed(lines: Sequence[Line], first: int, last: int) -> list[Line]:
    """The lines without some; a note that ends without a newline goes on doing so."""
    left = [*lines[:first], *lines[last + 1 :]]
    if left and not lines[-1].end:
        left[-1] = left[-1]._replace(end="")
    return left


def inserted(lines: Sequence[Line], at: int, texts: Sequence[str], newline: str) -> list[Line]:
    """The lines with some more before line `at`; a note that ends without a newline goes on doing so."""
    new = [Line(text, newline) for text in texts]
    before = list(lines[:at])
    if before and not before[-1].end:
        before[-1], new[-1] = before[-1]._replace(end=newline), new[-1]._replace(end="")
    return [*before, *new, *lines[at:]]


# ---- remember, update, forget


def remember(folder: Path, fact: str, *, lock: Path, section: str | None = None, path: str = MEMORY) -> Written:
    """Add a fact as a list item under its section, unless the note says it already."""
    item = f"- {facts.as_fact(fact)}"

    def change(lock: Path | None) -> Written:
        outline = Outline(read_or_begin(folder, path))
        for first, last in matches(outline, {facts.bare(facts.without_mark(item))}):
            return written(outline, first, last, outline.said(first, last), changed=False)
        at, texts = placed(outline, item, section)
        save(folder, outline, inserted(outline.lines, at, texts, outline.note.newline), lock)
        return Written(outline.note.path, at + texts.index(item) + 1, facts.without_mark(item))

    return settled(change, lock)


def settled(change: Callable[[Path | None], Written], lock: Path) -> Written:
    """What came of a change, which is thought over again whenever somebody else changed the note meanwhile.

    Whoever is always too late holds the lock from the first step to the last.
    """
    for _ in range(MOST_TRIES):
        with suppress(Changed):
            return change(lock)
    with held(lock, wait_seconds=LOCK_SECONDS):
        return change(None)


def save(folder: Path, outline: Outline, lines: Sequence[Line], lock: Path | None) -> None:
    note = outline.note
    write_note(folder, note.path, note.encode(lines), expected=note.stamp, lock=lock)


def written(outline: Outline, first: int, last: int, text: str, *, before: str = "", changed: bool = True) -> Written:
    """What was done with some lines of the note as it was before."""
    private = not outline.private.isdisjoint(range(first + 1, last + 2))
    return Written(outline.note.path, first + 1, text, before, changed, private)


def read_or_begin(folder: Path, path: str) -> NoteText:
    target = memory.inside(folder, path)
    if target.exists():
        return read_note_text(folder, path)
    name = target.relative_to(folder.resolve()).as_posix()
    return NoteText(name, f"# {target.stem}\n", b"", "utf-8", stamp=None)


def placed(outline: Outline, item: str, section: str | None) -> tuple[int, list[str]]:
    """Where a new item goes, and the lines to put there: the item, apart from what is no list."""
    heading, name = chosen_section(outline, section)
    if heading is None:
        at, texts = len(outline.texts), [f"## {name}", "", item]
    else:
        at, texts = outline.place_below(heading), [item]
    outline.check_open_fence(at)
    above, below = outline.texts[at - 1 : at], outline.texts[at : at + 1]
    if "".join(above).strip() and (heading is None or not is_list(outline, at - 1)):
        texts = ["", *texts]
    return at, [*texts, ""] if "".join(below).strip() else texts


def is_list(outline: Outline, at: int) -> bool:
    return outline.kinds[at] == ITEM or outline.texts[at][:1].isspace()


def chosen_section(outline: Outline, section: str | None) -> tuple[Block | None, str]:
    """The heading that a fact goes under, None if it is to be made, and its name."""
    if name := facts.as_heading(section or ""):
        return outline.section(name), name
    sections = [block for block in outline.headings() if block.level == 2]
    only = sections[0] if len(sections) == 1 else None
    return outline.section(DEFAULT_SECTION) or only, DEFAULT_SECTION


def update(folder: Path, old: str, new: str, *, lock: Path, path: str | None = None) -> Written:
    """Put new words in the place of a line's, which is named by all of its text; bullet and checkbox stay."""
    new = facts.as_fact(new)

    def change(lock: Path | None) -> Written:
        outline, first, last = find_line(folder, old, path)
        check_balance(outline, first, last)
        before = outline.said(first, last)
        lines = removed(outline.lines, first + 1, last)
        lines[first] = lines[first]._replace(text=lead(outline.texts[first]) + new)
        if lines == outline.lines:
            return written(outline, first, last, new, before=before, changed=False)
        save(folder, outline, lines, lock)
        return written(outline, first, last, new, before=before)

    return settled(change, lock)


def lead(line: str) -> str:
    """What stands before the words of a line: indentation, bullet, checkbox."""
    mark = facts.MARK.match(line)
    return mark[0] if mark else line[: len(line) - len(line.lstrip())]


def forget(folder: Path, text: str, *, lock: Path, path: str | None = None) -> Written:
    """Remove the line that is named by all of its text, with what is indented below it if it is an item."""

    def change(lock: Path | None) -> Written:
        outline, first, last = find_line(folder, text, path)
        last = max(last, outline.extent(first))
        check_balance(outline, first, last)
        save(folder, outline, removed(outline.lines, first, last), lock)
        gone = [facts.without_mark(outline.texts[first]), *outline.texts[first + 1 : last + 1]]
        return written(outline, first, last, "\n".join(gone))

    return settled(change, lock)


def check_balance(outline: Outline, first: int, last: int) -> None:
    if not facts.is_balanced("\n".join(outline.texts[first : last + 1])):
        place = f"{outline.note.path}:{first + 1}"
        raise TarsError(f"{place} opens or closes a <private> passage; change that by hand")


# ---- which line is meant


def find_line(folder: Path, text: str, path: str | None) -> tuple[Outline, int, int]:
    """The one line, or wrapped item, whose whole text this is: its note, first and last line."""
    wanted = facts.readings(text)
    if not wanted:
        raise TarsError("there is no text in it; give the whole line as it stands in the note")
    outlines = [Outline(note) for note in searched(folder, path)]
    found = [(outline, *span) for outline in outlines for span in matches(outline, wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        lines = [outline.shown(at) for outline, at, _ in found]
        raise NoSingleLine("more than one line says that; name one as 'PATH:LINE: TEXT'", lines)
    if location := LOCATION.fullmatch(text.strip()):
        return at_location(folder, location, path)
    if not outlines:
        raise TarsError(f"there is no {MEMORY} yet; a line of another note is named as 'PATH:LINE: TEXT'")
    names = " or ".join(outline.note.path for outline in outlines)
    raise NoSingleLine(f"no line of {names} says exactly that; give the whole line", likely(outlines, text))


def searched(folder: Path, path: str | None) -> list[NoteText]:
    if path is not None:
        return [read_note_text(folder, path)]
    return [read_note_text(folder, name) for name in (MEMORY, PROCEDURAL) if (folder / name).exists()]


def matches(outline: Outline, wanted: set[str]) -> list[tuple[int, int]]:
    """First and last line of what says exactly that, as one line or as an item over several."""
    found = []
    for at in outline.facts():
        last = outline.wrapped(at)
        if facts.bare(outline.said(at, at)) in wanted:
            found.append((at, at))
        elif last > at and facts.bare(outline.said(at, last)) in wanted:
            found.append((at, last))
    return found


def at_location(folder: Path, location: re.Match[str], path: str | None) -> tuple[Outline, int, int]:
    """The line of that number, if it still says what the caller thinks it says."""
    outline = Outline(read_note_text(folder, location["path"]))
    if path is not None and memory.inside(folder, path) != memory.inside(folder, location["path"]):
        raise TarsError(f"'{path}' and '{location['path']}' are two notes; name one")
    at = int(location["line"]) - 1
    if at not in outline.facts():
        raise NoSingleLine(f"{outline.note.path}:{at + 1} is no line that can be changed", ())
    said = facts.readings(location["text"] or "")
    spans = [span for span in matches(outline, said) if span[0] == at]
    if not spans:
        problem = "a line's number may be out of date; name it with its text, as 'PATH:LINE: TEXT'"
        raise NoSingleLine(problem, [outline.shown(at)])
    return outline, *spans[0]


def likely(outlines: Sequence[Outline], text: str) -> list[NoteLine]:
    lines = [outline.shown(at) for outline in outlines for at in outline.facts()]
    return [lines[at] for at in facts.nearest(text, [line.text for line in lines], SHOWN_LINES)]
