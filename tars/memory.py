"""The folder of notes: which files are notes, their text, and what of it is private. Nothing here knows the index."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from tars.chunker import read_note
from tars.errors import TarsError
from tars.owner import make_folder, opener

IGNORE_FILE = ".tarsignore"
# Copies that Syncthing, Dropbox, Nextcloud and others leave beside a note that two machines changed.
CONFLICT_COPY = re.compile(r"\.sync-conflict-|conflicted copy|\(conflict(ed)?[ )]|\.orig\.md$", re.IGNORECASE)
BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF8: "utf-8"}
LATEST_NS = 2**63 - 1  # as far as SQLite counts; a file's time can be set beyond
# What a drive or a network mount answers while it is away, and a machine that has too much open.
PASSING = {
    getattr(errno, name)
    for name in (
        *("EIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH", "EREMOTEIO", "ENODEV", "ENXIO"),
        *("EBUSY", "EAGAIN", "EMFILE", "ENFILE", "ENOMEM"),
    )
    if hasattr(errno, name)
}
DAILY_NAME = re.compile(r"\d{4}-\d{2}-\d{2}\.md")

STARTER_NOTES = {
    "Memory.md": "# Memory\n\nWhat tars should know about you, one fact per line.\n\n## About me\n\n",
    "Procedural.md": "# Procedural\n\nHow tars should behave, one rule per line.\n\n"
    "- Answer from the notes first, and name the note.\n",
}


class NoteFile(NamedTuple):  # there are tens of thousands, and a tuple is made four times faster
    """A note on disk as the folder lists it; the path is relative to the folder, with forward slashes."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that could not be taken in, and why."""

    path: str
    reason: str


class Unreadable(TarsError):
    """A note that is there but cannot be read as text; the message is the reason."""


class OutOfReach(Unreadable):
    """A note that cannot be read just now: a drive or a network that does not answer says nothing about the note."""


class Undecodable(Unreadable):
    """A note whose bytes are no text that tars knows, for as long as they stay the same."""


def ensure_folder(folder: Path) -> bool:
    """Make the default memory folder with its starter notes; True if it was not there."""
    if folder.is_dir():
        return False
    make_folder(folder)
    for name, text in STARTER_NOTES.items():
        with suppress(FileExistsError), open(folder / name, "x", encoding="utf-8", opener=opener) as file:
            file.write(text)
    return True


def is_bare(folder: Path) -> bool:
    """Whether there is nothing in a folder at all, as in the place of a drive that is away."""
    return next(folder.iterdir(), None) is None


def list_notes(folder: Path) -> tuple[list[NoteFile], list[Skipped]]:
    """Every note in the folder, by path, without opening any; and what could not even be listed."""
    skipped: list[Skipped] = []
    ignored = ignore_rule(folder)
    notes = list(walk(folder, ignored, skipped))
    notes.sort(key=lambda note: note.path)
    return notes, skipped


def walk(folder: Path, ignored: Callable[[str], bool], skipped: list[Skipped]) -> Iterator[NoteFile]:
    """The notes of a folder and of all below it, however deep: the folders still to be looked at are a list."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(folder / below) as listing:
                entries = list(listing)
        except OSError as error:
            if not below:
                raise TarsError(f"cannot read the memory folder {folder}: {error.strerror}") from None
            skipped.append(Skipped(below, reason_of(error)))
            continue
        for entry in entries:
            name, path = entry.name, below + entry.name
            # A link either leaves the folder, or names what is listed under its true path anyway.
            if name.startswith(".") or entry.is_symlink():
                continue
            if entry.is_dir():
                if not ignored(path + "/"):
                    waiting.append(path + "/")
            elif is_note(name) and not ignored(path) and (note := note_file(entry, path, skipped)):
                yield note


def note_file(entry: os.DirEntry[str], path: str, skipped: list[Skipped]) -> NoteFile | None:
    """A note as it is listed; None if it is gone, no plain file, or has to be skipped."""
    try:
        path.encode()
        status = entry.stat()
    except FileNotFoundError:  # it went away since the folder was listed
        return None
    except UnicodeEncodeError:
        shown = path.encode(errors="backslashreplace").decode()
        skipped.append(Skipped(shown, "its name is not valid UTF-8"))
        return None
    except OSError as error:
        skipped.append(Skipped(path, reason_of(error)))
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return NoteFile(path, status.st_size, min(status.st_mtime_ns, LATEST_NS))


def is_note(name: str) -> bool:
    return name.lower().endswith(".md") and not CONFLICT_COPY.search(name)


def ignore_rule(folder: Path) -> Callable[[str], bool]:
    """What `.tarsignore` names, in the patterns of `.gitignore`."""
    try:
        lines = (folder / IGNORE_FILE).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except FileNotFoundError:
        return lambda path: False
    except OSError as error:
        # What the person wants left out must not be taken in because it cannot be known.
        raise TarsError(f"cannot read {folder / IGNORE_FILE}: {reason_of(error)}") from None
    from pathspec import GitIgnoreSpec

    def is_wrong(line: str) -> bool:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            return True
        return False

    try:
        return GitIgnoreSpec.from_lines(lines).match_file
    except ValueError:
        # As above: without this line, notes might be taken in that it was to leave out.
        number, line = next((at, line) for at, line in enumerate(lines, 1) if is_wrong(line))
        problem = f"{IGNORE_FILE}:{number}: '{line}' is not a pattern; correct the line or delete it"
        raise TarsError(f"{problem}, nothing is indexed until then") from None


def read_bytes(folder: Path, path: str, *, max_bytes: int) -> bytes:
    """The bytes of a note. FileNotFoundError if it is gone, Unreadable if it cannot be had."""
    try:
        with open(folder / path, "rb") as file:
            large = os.fstat(file.fileno()).st_size > max_bytes
            content = b"" if large else file.read(max_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise (OutOfReach if error.errno in PASSING else Unreadable)(reason_of(error)) from None
    if large or len(content) > max_bytes:
        raise Unreadable(f"larger than {max_bytes // 1_000_000} MB (setting index.max_file_mb)")
    return content


def decode(content: bytes) -> str:
    """Text with "\\n" line ends, or Unreadable."""
    text = decode_exactly(content)[0]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def decode_exactly(content: bytes) -> tuple[str, bytes, str]:
    """Text as it stands, the byte order mark before it, and the encoding that turns it back into the same bytes."""
    bom = next((mark for mark in BOMS if content.startswith(mark)), b"")
    encoding = BOMS.get(bom, "utf-8")
    if encoding == "utf-8" and b"\0" in content:
        raise Undecodable("binary, not text")
    try:
        return content[len(bom) :].decode(encoding), bom, encoding
    except UnicodeDecodeError as error:
        place = len(bom) + error.start
        raise Undecodable(f"not UTF-8 (byte {place}); convert it, for example with iconv") from None


def inside(folder: Path, path: str) -> Path:
    """Where a note of the folder is, links followed; a TarsError for every path that is not one, there or not."""
    parts = PurePath(path)
    if parts.drive or parts.root or ".." in parts.parts:
        raise TarsError(f"'{path}' is outside the memory folder; paths are relative to it, such as Memory.md")
    try:
        folder = folder.resolve()
        target = (folder / parts).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links; NUL, or what cannot be encoded
        raise TarsError(f"{path!r} cannot be a path") from None
    if not target.is_relative_to(folder):
        raise TarsError(f"'{path}' is a link that leaves the memory folder")
    below = target.relative_to(folder)
    if not is_note(below.name) or any(part.startswith(".") for part in below.parts) or is_ignored(folder, below):
        raise TarsError(f"'{path}' is not a note of the memory folder; notes end in .md and are not hidden or ignored")
    try:
        other = target.exists() and not target.is_file()
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise TarsError(f"'{path}' cannot be a note: {reason_of(error)}") from None
    if other:
        raise TarsError(f"'{path}' is not a file")
    return target


def is_ignored(folder: Path, path: PurePath) -> bool:
    ignored = ignore_rule(folder)
    above = [f"{parent.as_posix()}/" for parent in path.parents[:-1]]
    return any(map(ignored, [path.as_posix(), *above]))


def private_lines(text: str) -> frozenset[int]:
    """The numbers (from 1) of the lines that must not leave the machine; all of them if the note is private."""
    note = read_note(text)
    if note.private:
        return frozenset(range(1, text.count("\n") + 2))
    hidden = (chunk for chunk in note.chunks if chunk.private)
    return frozenset(line for chunk in hidden for line in range(chunk.start_line, chunk.end_line + 1))


def memory_type(path: str) -> str:
    """semantic, procedural, daily, episodic or note, by where the note is."""
    if path == "Memory.md":
        return "semantic"
    if path == "Procedural.md":
        return "procedural"
    if path.startswith("sessions/"):
        return "episodic"
    if path.startswith("daily/") or DAILY_NAME.fullmatch(path):
        return "daily"
    return "note"


def reason_of(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
