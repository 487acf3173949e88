"""Parents: retrieve small, return what the passage stands in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from tars.db import Passage
from tars.search.query import Query, SearchResult

Note = Mapping[int, Passage]  # the passages of a note by position


@dataclass(frozen=True, slots=True)
class Sections:
    """Returns the section of each passage, or as much of it around the passage as fits.

    A passage that stands in a section already returned is not returned again, and no section reaches into another.
    """

    name: ClassVar[str] = "sections"
    max_chars: int = 2_000

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        notes = notes_of(results, query)
        taken: dict[str, set[int]] = {}
        grown: list[SearchResult] = []
        for result in results:
            covered = taken.setdefault(result.file_path, set())
            if result.position in covered:
                continue
            note = notes.get(result.file_path, {})
            part = grow(result.position, same_section(note, result.position, covered), note, self.max_chars)
            covered.update(part)
            grown.append(spread(result, [note[at] for at in part if at in note]))
        return grown


@dataclass(frozen=True, slots=True)
class Windows:
    """Returns each passage with its neighbours in the note; windows that meet become one, at the better's place."""

    name: ClassVar[str] = "windows"
    before: int = 1
    after: int = 1

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        notes = notes_of(results, query)
        windows: list[tuple[SearchResult, range]] = []
        for result in results:
            note = notes.get(result.file_path, {})
            allowed = like_it(note, result.position)
            first, last = result.position, result.position
            while first - 1 in allowed and first > result.position - self.before:
                first -= 1
            while last + 1 in allowed and last < result.position + self.after:
                last += 1
            windows = merged(windows, result, range(first, last + 1), note)
        return [
            spread(result, [note[at] for at in part if at in (note := notes.get(result.file_path, {}))])
            for result, part in windows
        ]


def merged(
    windows: Sequence[tuple[SearchResult, range]], result: SearchResult, new: range, note: Note
) -> list[tuple[SearchResult, range]]:
    """The windows with one more: those of the same note that it meets are one with it, where the best of them was."""
    meets = [
        at
        for at, (other, part) in enumerate(windows)
        if other.file_path == result.file_path
        and part.start <= new.stop
        and new.start <= part.stop
        and (not note or note[part.start].private == note[new.start].private)
    ]
    if not meets:
        return [*windows, (result, new)]
    parts = [new, *(windows[at][1] for at in meets)]
    whole = range(min(part.start for part in parts), max(part.stop for part in parts))
    return [
        (other, whole if at == meets[0] else part) for at, (other, part) in enumerate(windows) if at not in meets[1:]
    ]


def notes_of(results: Sequence[SearchResult], query: Query) -> dict[str, dict[int, Passage]]:
    """The passages of the notes that were found, as far as the filters allow."""
    notes: dict[str, dict[int, Passage]] = {}
    for passage in query.index.store.siblings([result.chunk_rowid for result in results], query.filters):
        notes.setdefault(passage.path, {})[passage.position] = passage
    return notes


def like_it(note: Note, position: int) -> set[int]:
    """Positions that may stand together with this one: what is private must not come along with what is not."""
    return {at for at, passage in note.items() if passage.private == note[position].private}


def same_section(note: Note, position: int, covered: Iterable[int]) -> set[int]:
    if position not in note:
        return set()
    heading = note[position].heading
    return {at for at in like_it(note, position) if note[at].heading == heading}.difference(covered)


def grow(position: int, allowed: set[int], note: Note, max_chars: int) -> range:
    """The run of positions around one that is allowed and fits, taking in turn what follows and what precedes."""
    first = last = position
    steps: list[Callable[[], int]] = [lambda: last + 1, lambda: first - 1]
    while steps:
        for step in list(steps):
            at = step()
            low, high = min(first, at), max(last, at)
            if at not in allowed or length(note, low, high) > max_chars:
                steps.remove(step)
            else:
                first, last = low, high
    return range(first, last + 1)


def length(note: Note, first: int, last: int) -> int:
    return len(joined([note[at] for at in range(first, last + 1)]))


def spread(result: SearchResult, passages: Sequence[Passage]) -> SearchResult:
    """A result over all of these passages, which follow each other in its note."""
    if len(passages) < 2:
        return result
    return replace(result, content=joined(passages), start_line=passages[0].start_line, end_line=passages[-1].end_line)


def joined(passages: Sequence[Passage]) -> str:
    """The lines of the note from the first passage to the last: between two there are blank lines only.

    Two pieces of one long line are joined by the space at which it was cut.
    """
    parts = [passages[0].content]
    for before, passage in pairwise(passages):
        lines = passage.start_line - before.end_line
        parts.append("\n" * lines if lines else " ")
        parts.append(passage.content)
    return "".join(parts)
