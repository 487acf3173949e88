"""Every copy of a text: where it stands, what is to become of it, its removal, and the search that proves it.

Files are read as bytes here, also those of the index. Opening and closing a file drops the locks that this process
holds on it (POSIX), so `find` must not run while the index is open.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from tars import memory, notes, session_note, sessions
from tars.chunker import FENCE, ITEM, PRIVATE
from tars.errors import TarsError
from tars.frontmatter import read_frontmatter
from tars.outline import Line, NoteText, Outline, closes
from tars.owner import make_durable
from tars.sought import Sought

if TYPE_CHECKING:
    from tars.app import App
    from tars.config import Config

NOTE, CONVERSATION, TYPED, LOG, INDEX, USES, ASIDE = (
    "note", "conversation", "input history", "log", "index", "access statistics", "index that was set aside",
)  # fmt: skip
BLOCK_BYTES = 8_000_000  # read at once; even, for the sake of UTF-16
OVERLAP_BYTES = 64_000  # of two blocks: a copy may lie across
WAIT_SECONDS = 10.0  # for an indexer that is at work
TRIES = 3  # to replace a file that another process writes to
SHOWN_COPIES = 5  # of one file
AROUND = 40  # characters shown before and after a copy in a long line
DATABASE_FILES = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Copy:
    """A line that holds the text, or goes with one that does; counted from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is to lose the text. A note's new bytes are part of the plan; `stamp` is of those it has now."""

    kind: str
    file: Path
    copies: tuple[Copy, ...] = ()
    more: int = 0  # copies that are not shown
    path: str = ""  # of a note in its folder
    content: bytes = b""
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A file that holds the text and is not for tars to change, and why."""

    file: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    changes: tuple[Change, ...]
    left: tuple[Left, ...]
    files: int  # that were searched
    size: int  # of these, in bytes


# ---- finding


def find(config: Config, sought: Sought) -> Plan:
    """Every file of the memory folder and of tars' own places that holds the text, and what can be done about it."""
    known = {config.memory_dir / note.path: note.path for note in memory.list_notes(config.memory_dir)[0]}
    found: list[Change | Left] = []
    files = size = 0
    for file in files_in(config):
        kind = kind_of(file, config, known)
        try:
            files, size = files + 1, size + file.stat().st_size
            if holds(file, kind, sought):
                found.append(judged(file, kind, config, known, sought))
            elif file.name in sought:
                found.append(Left(file, "its name says it; rename it"))
        except FileNotFoundError:
            continue
        except OSError as error:
            found.append(Left(file, f"it cannot be read ({memory.reason_of(error)}), so it may hold it"))
    changes = tuple(one for one in found if isinstance(one, Change))
    return Plan(changes, tuple(one for one in found if isinstance(one, Left)), files, size)


def files_in(config: Config) -> Iterator[Path]:
    """Each file once, links not followed. What git keeps is compressed: it is named apart.

    The memory folder may lie in one of the others, there with links in its path.
    """
    places = config.places
    seen: set[Path] = set()
    for place in (config.memory_dir, places.state, places.data):
        for at, folders, files in os.walk(place):
            folders[:] = sorted(n for n in folders if n != ".git" and Path(at, n).resolve() != config.memory_dir)
            for file in (Path(at, name) for name in sorted(files)):
                if file not in seen and file.is_file() and not file.is_symlink():
                    seen.add(file)
                    yield file
    if places.config_file.is_file() and places.config_file not in seen:
        yield places.config_file


def kind_of(file: Path, config: Config, known: dict[Path, str]) -> str:
    """What a file is to tars; nothing, if it is not for tars to change."""
    state, index = config.places.state, config.index_file
    if file in known:
        return NOTE
    if file.is_relative_to(config.memory_dir):
        return ""
    if file.parent == index.parent:
        if file.name in {index.name + end for end in DATABASE_FILES}:
            return INDEX
        return ASIDE if file.name.startswith(index.stem) else ""
    if not file.is_relative_to(state):
        return ""
    if file.name in {"access.db" + end for end in DATABASE_FILES}:
        return USES
    if file.parent == state / "sessions" and file.suffix == ".jsonl":
        return CONVERSATION
    return TYPED if file == state / "history" else LOG


def holds(file: Path, kind: str, sought: Sought) -> bool:
    """Whether the text stands in the bytes of a file, in one encoding or another."""
    if kind == CONVERSATION and pieces_of(file) in sought:
        return True
    return any(text in sought for block in blocks(file) for text in readings(block, kind))


def pieces_of(transcript: Path) -> str:
    """What arrived in pieces, which lie in lines of their own."""
    rows = sessions.whole_partials(sessions.rows_of(transcript))
    return "\n".join(row["partial"] for row in rows if "partial" in row)


def blocks(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as stream:
        before = b""
        while block := stream.read(BLOCK_BYTES):
            yield before + block
            before = (before + block)[-OVERLAP_BYTES:]


def readings(block: bytes, kind: str) -> Iterator[str]:
    """The bytes as the texts that they may be."""
    yield block.decode("utf-8", errors="replace")
    if b"\0" in block and kind not in (INDEX, USES, ASIDE):
        yield block.decode("utf-16-le", errors="replace")
        yield block.decode("utf-16-be", errors="replace")


def judged(file: Path, kind: str, config: Config, known: dict[Path, str], sought: Sought) -> Change | Left:
    """What is to become of a file that holds the text."""
    if kind == NOTE:
        try:
            return note_change(file, known[file], config, sought)
        except TarsError as error:
            return Left(file, str(error))
    if kind in (INDEX, USES, ASIDE):
        return Change(kind, file)
    if not kind:
        return Left(file, why_not(file, config))
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        return Left(file, "it is no text; remove it by hand")
    copies = [Copy(at, excerpt(line, sought)) for at, line in enumerate(text.split("\n"), 1) if line in sought]
    return Change(kind, file, tuple(copies[:SHOWN_COPIES]), more=len(copies[SHOWN_COPIES:]))


def why_not(file: Path, config: Config) -> str:
    if file == config.places.config_file:
        return "these are your settings; change them by hand"
    if not file.is_relative_to(config.memory_dir):
        return "it belongs to another memory folder; name that with --memory"
    hidden = any(part.startswith(".") for part in file.relative_to(config.memory_dir).parts)
    return "it is hidden, so it is not for tars to change" if hidden else "it is no note, or .tarsignore names it"


def excerpt(line: str, sought: Sought) -> str:
    start, end = next(iter(sought.spans(line)), (0, AROUND))
    before = "…" if start > AROUND else ""
    after = "…" if end + AROUND < len(line) else ""
    return before + line[max(0, start - AROUND) : end + AROUND] + after


# ---- a note without the text


def note_change(file: Path, path: str, config: Config, sought: Sought) -> Change:
    """The note without the lines that hold the text; TarsError if that cannot be done without harm."""
    note = notes.read_note_text(config.memory_dir, path, max_bytes=config.index.max_file_mb * 1_000_000)
    copies: list[Copy] = []
    left = note
    while left.text in sought:
        before, (left, gone) = left, without(left, sought)
        if len(left.text) >= len(before.text):
            raise TarsError("it stands in the mark of a private passage or of a block of code; change it by hand")
        copies += gone
    return Change(
        NOTE, file, tuple(copies), path=path, content=left.bom + left.text.encode(left.encoding), stamp=note.stamp or ""
    )


def without(note: NoteText, sought: Sought) -> tuple[NoteText, list[Copy]]:
    """The note without the lines that hold the text and what would lose its meaning without them."""
    outline = Outline(note)
    spans = sorted({widened(outline, *span) for span in sought.lines(note.text)})
    gone = sorted(set(chain.from_iterable(range(first, last + 1) for first, last in spans)))
    stand_ins = {first: stand_in(outline, first, last) for first, last in joined(spans)}
    kept: list[int] = []  # for each line that is left, where it was
    lines: list[Line] = []
    for at, line in enumerate(outline.lines):
        texts = [line.text] if at not in gone else stand_ins.get(at, [])
        kept += [at] * len(texts)
        lines += (Line(text, line.end or note.newline) for text in texts)
    if lines and not outline.lines[-1].end:
        lines[-1] = lines[-1]._replace(end="")
    new = NoteText(note.path, "".join(line.text + line.end for line in lines), note.bom, note.encoding, note.stamp)
    check_harmless(outline, new, kept)
    return new, [Copy(at + 1, outline.texts[at]) for at in gone]


def widened(outline: Outline, first: int, last: int) -> tuple[int, int]:
    """A list item goes whole, with what is indented below it, as with `tars forget`; so does a heading."""
    for block in outline.blocks:
        if block.kind == ITEM and block.first <= last and first <= block.last:
            first, last = min(first, block.first), max(last, outline.extent(block.first))
    for block in outline.headings():
        if block.first <= last and first <= block.last:
            first, last = min(first, block.first), max(last, block.last)
    return first, last


def joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans, sorted, with those that meet as one."""
    out: list[tuple[int, int]] = []
    for first, last in spans:
        if out and first <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out


def stand_in(outline: Outline, first: int, last: int) -> list[str]:
    """What must stay of some lines: the edges of frontmatter and fences, and tags that hide what stands around."""
    body = read_frontmatter("\n".join(outline.texts))[1]
    kept = [outline.texts[at] for at in (0, body - 1) if body and first <= at <= last]
    for block in outline.blocks:
        if block.kind == FENCE and first <= block.first <= last < block.last:
            kept.append(fence_mark(outline.texts[block.first]))
        elif block.kind == FENCE and block.first < first <= block.last <= last:
            texts = outline.texts[block.first : block.last + 1]
            kept += [texts[-1]] if closes(texts[0], texts[1:]) else []
    tags = open_tags("\n".join(outline.texts[first : last + 1]))
    return [*kept, tags] if tags else kept


def fence_mark(line: str) -> str:
    bare = line.lstrip()
    return line[: len(line) - len(bare)] + bare[: len(bare) - len(bare.lstrip(bare[0]))]


def open_tags(text: str) -> str:
    """The tags of a text that hide or reveal what stands around it.

    >>> open_tags("a </private> b <private> c <private>d</private>")
    '</private><private>'
    """
    opened = closed = 0
    for tag in PRIVATE.finditer(text):
        if not tag[1]:
            opened += 1
        elif opened:
            opened -= 1
        else:
            closed += 1
    return "</private>" * closed + "<private>" * opened


def check_harmless(outline: Outline, new: NoteText, kept: Sequence[int]) -> None:
    """Nothing that was private may become public by what was taken away, nor frontmatter become text."""
    text = "\n".join(line.text for line in new.lines)
    private = memory.private_lines(text)
    revealed = (at for now, at in enumerate(kept, 1) if at + 1 in outline.private and now not in private)
    if any(outline.texts[at].strip() for at in revealed):
        raise TarsError("without it private lines would be public; change it by hand")
    if read_frontmatter("\n".join(outline.texts))[1] and not read_frontmatter(text)[1]:
        raise TarsError("its frontmatter could not be read without it; change it by hand")


# ---- removing


def carry_out(app: App, plan: Plan, sought: Sought) -> list[str]:
    """Do what the plan says, as far as it can be done; what could not be, with the reason."""
    problems: list[str] = []
    for change in plan.changes:
        try:
            REMOVE[change.kind](app, change, sought)
        except (TarsError, OSError) as error:
            reason = memory.reason_of(error) if isinstance(error, OSError) else str(error)
            problems.append(f"{change.file}: {reason}")
    changed = {change.path for change in plan.changes if change.kind == NOTE}
    try:
        problems += clean_index(app, sought, changed)
    except (TarsError, apsw.Error) as error:
        problems.append(f"{app.config.index_file}: {error}")
    return problems


def clean_index(app: App, sought: Sought, changed: set[str]) -> Iterator[str]:
    """Take in the notes as they are now, and have the bytes of what they were gone."""
    if not built(app) or not app.shred(wait_seconds=WAIT_SECONDS):
        yield f"{app.config.index_file}: another process works with the index; end it and do this again"
    hashes = {path: app.store.hashes_of(path) for path in changed}
    if not app.access.forget(lambda path, digest: path in sought or digest not in hashes.get(path, {digest})):
        yield f"{app.access.file}: it is in use, or damaged"


def built(app: App) -> bool:
    """Whether the index has the notes as they are now; an indexer that is at work is waited for."""
    until = time.monotonic() + WAIT_SECONDS
    while app.build() is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def write_note(app: App, change: Change, sought: Sought) -> None:
    app.rewrite(change.path, change.content, expected=change.stamp)


def rewrite_file(app: App, change: Change, sought: Sought) -> None:
    """Put the cleaned bytes in the place of a file of tars' own, which a living process may be writing to."""
    temporary = change.file.with_name(f".{change.file.name}.{os.getpid()}.tmp")
    for _ in range(TRIES):
        stamp, times = notes.current_stamp(change.file), change.file.stat()
        content = CLEAN[change.kind](change.file, sought)
        with suppress(FileNotFoundError):
            temporary.unlink()
        try:
            notes.write_through(temporary, content)
            os.utime(temporary, ns=(times.st_atime_ns, times.st_mtime_ns))
            if notes.current_stamp(change.file) == stamp:
                temporary.replace(change.file)
                make_durable(change.file.parent)
                return
        finally:
            temporary.unlink(missing_ok=True)
    raise TarsError("another process goes on writing to it; end that and do this again")


def clean_transcript(file: Path, sought: Sought) -> bytes:
    reword = partial(sought.sub, sessions.FORGOTTEN)
    rows = (sessions.reworded(row, reword) for row in sessions.whole_partials(sessions.rows_of(file)))
    lines = (json.dumps(row) for row in rows)
    # What is no text, such as a number or a name, takes its line with it.
    return "".join(f"{line}\n" for line in lines if line not in sought).encode()


def clean_history(file: Path, sought: Sought) -> bytes:
    lines = file.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if line.decode(errors="replace") not in sought)


def clean_text(file: Path, sought: Sought) -> bytes:
    with open(file, encoding="utf-8", newline="") as stream:
        return sought.sub(sessions.FORGOTTEN, stream.read()).encode()


def delete(app: App, change: Change, sought: Sought) -> None:
    change.file.unlink(missing_ok=True)


def by_the_index(app: App, change: Change, sought: Sought) -> None:
    """Databases are cleaned by asking them, after the notes."""


CLEAN: dict[str, Callable[[Path, Sought], bytes]] = {
    CONVERSATION: clean_transcript,
    TYPED: clean_history,
    LOG: clean_text,
}
REMOVE: dict[str, Callable[[App, Change, Sought], None]] = {
    NOTE: write_note,
    **dict.fromkeys(CLEAN, rewrite_file),
    ASIDE: delete,
    INDEX: by_the_index,
    USES: by_the_index,
}


# ---- what is out of reach


def out_of_reach(config: Config) -> list[str]:
    """What may hold the text and cannot be searched from here."""
    folders = (config.memory_dir, *config.memory_dir.parents)
    repository = next((folder for folder in folders if (folder / ".git").exists()), None)
    reach = [f"the commits of the git repository {repository} (git filter-repo rewrites them)"] if repository else []
    return [
        *reach,
        "backups, snapshots and the histories of sync tools, on this machine and others",
        "undo and swap files of editors elsewhere, the scrollback of terminals, the history of your shell",
        "a tars that is running now: what it has read is in its memory until it ends",
        "what was sent to a model on another machine",
        "blocks of the disk that are free now",
    ]


def words_in_names(plan: Plan) -> Iterator[Path]:
    """Notes of conversations that were named after lines that go."""
    for change in plan.changes:
        told = set(chain.from_iterable(session_note.words(copy.text) for copy in change.copies))
        named = Path(change.path).stem.lower().split("-")[3:]  # behind the date
        if change.path.startswith("sessions/") and told.intersection(named):
            yield change.file
