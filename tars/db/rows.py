"""What goes into the index and comes out of it: notes, passages, filters. No SQLite here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

HAS_VECTOR, PENDING, NO_VECTOR, WITHHELD = 0, 1, 2, 3  # the states of a passage's vector
# A daily note is an episode too, and a note of the person's is knowledge.
TYPE_GROUPS = {"episodic": ("episodic", "daily"), "semantic": ("semantic", "note")}


@dataclass(frozen=True, slots=True)
class Identity:
    """What an index was made with; where two differ, their contents must not mix."""

    folder: str
    schema: int
    chunker: str
    tokens: str
    embedding: str
    dimensions: int  # 0: not known yet, the backend has never answered


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A passage as the index keeps it; `hash` is of the text that was embedded."""

    content: str
    start_line: int
    end_line: int
    heading: str
    date: str | None
    private: bool
    hash: bytes
    tokens: bytes
    vector: bytes | None = None
    vector_state: int = PENDING


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A note as the index keeps it, with its passages."""

    path: str
    size: int
    mtime_ns: int
    modified: str
    hash: bytes | None = None
    memory_type: str = "note"
    date: str | None = None
    title: str = ""
    title_written: bool = False
    tags: tuple[str, ...] = ()
    keywords: str = ""
    description: str = ""
    aliases: str = ""
    called: tuple[str, ...] = ()  # what links may call it beside its path: the title and each alias
    author: str = ""
    links: tuple[tuple[str, str, str, bool, int], ...] = ()
    chunks: tuple[StoredChunk, ...] = ()
    skipped: str | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """What every passage of the note carries into the full text."""
        return self.title, " ".join(self.tags), self.keywords, self.description, self.aliases, self.author


class FileStamp(NamedTuple):
    """What is known of a file: enough to see whether it changed."""

    id: int
    size: int
    mtime_ns: int
    hash: bytes | None
    skipped: str | None


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk with what its note says about it, as search shows it."""

    rowid: int
    path: str
    title: str
    heading: str
    memory_type: str
    date: str | None
    modified: str
    start_line: int
    end_line: int
    position: int
    private: bool
    content: str


@dataclass(frozen=True, slots=True)
class Filters:
    """What a passage must satisfy to be looked at. Dates are ISO, both ends inclusive."""

    after: str | None = None
    before: str | None = None
    type: str | None = None
    path: str | None = None
    tag: str | None = None

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def each(self) -> Iterator[tuple[str, Filters]]:
        """Every filter that is set, alone."""
        for name, value in asdict(self).items():
            if value:
                yield name, replace(Filters(), **{name: value})

    def where(self) -> tuple[str, list[Any]]:
        """SQL over `chunks c JOIN files f`, and its values."""
        conditions: list[str] = []
        values: list[Any] = []

        def require(condition: str, *needed: Any) -> None:
            conditions.append(condition)
            # Half a character, which a command line can hold, is in no note; as "?" it would be a pattern.
            values.extend(str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace") for value in needed)

        if self.after:
            require("COALESCE(c.date, f.date) >= ?", self.after)
        if self.before:
            require("COALESCE(c.date, f.date) <= ?", self.before)
        if self.type:
            types = TYPE_GROUPS.get(self.type, (self.type,))
            require(f"f.memory_type IN ({', '.join('?' * len(types))})", *types)
        if self.path:
            path = self.path.removeprefix("./")
            require("(f.path GLOB ? OR f.path = ? OR (f.path >= ? AND f.path < ?))", path, path, *below(path))
        if self.tag:
            tag = self.tag.lstrip("#").lower()
            require("f.id IN (SELECT file_id FROM tags WHERE tag = ? OR (tag >= ? AND tag < ?))", tag, *below(tag))
        return " AND ".join(conditions), values


def below(path: str) -> tuple[str, str]:
    """The range of names that lie below a folder or a tag."""
    path = path.rstrip("/")
    return path + "/", path + chr(ord("/") + 1)


def link_name(target: str) -> str:
    """What a link's target and a note's names are compared by: no case, no `.md`, no way up."""
    name = unicodedata.normalize("NFC", target).casefold().replace("\\", "/").removesuffix(".md")
    return "/".join(part for part in name.split("/") if part.strip(" ."))


def names_of(path: str, called: Iterable[str]) -> dict[str, int]:
    """Everything a link may call a note, with its rank: the least rank has the name, as in Obsidian.

    The whole path comes first, then the end of the path, then titles and aliases; of two notes the one with the
    shorter path.
    """
    whole = link_name(path)
    parts = whole.split("/")
    length = min(len(path), 9_999)
    names = {whole: 0}
    for start in range(1, len(parts)):
        names.setdefault("/".join(parts[start:]), 10_000 + length)
    for name in called:
        names.setdefault(link_name(name), 20_000 + length)
    names.pop("", None)
    return names
