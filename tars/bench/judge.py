"""Judging an answer: how much of the evidence it holds, and within how many characters."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tars.bench.questions import Question, Span
from tars.errors import TarsError
from tars.search.query import SearchResult

BUDGETS = (2_000, 4_000, 8_000)
CUTS = (5, 10)
PIECE_CHARS = 60  # evidence is looked for in pieces, since a passage may begin or end inside it
ENOUGH_CHARS = 300  # of a longer evidence this much counts as all of it
MOST = 0.9  # a little may be missing: a border cuts words

MARKS = re.compile(r"[*_`#>\[\]]+|^\s*[-+]\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Marks:
    """What an answer is worth."""

    within: dict[int, float]  # characters -> share of the evidence whose text they hold
    at: dict[int, float]  # results -> share of the evidence that they overlap
    reciprocal_rank: float


def plain(text: str) -> str:
    """Without marks of markdown, case and breaks, so that what was written and what was shown compare."""
    return " ".join(MARKS.sub("", text).split()).lower()


class Judge:
    """Judges answers about one folder of notes."""

    def __init__(self, folder: Path, budgets: Sequence[int] = BUDGETS) -> None:
        self.folder, self.budgets = folder, budgets
        self._lines: dict[str, list[str]] = {}
        self._pieces: dict[Span, list[str]] = {}

    def __call__(self, question: Question, results: Sequence[SearchResult]) -> Marks:
        evidence = question.evidence
        places = [[at for at, result in enumerate(results) if span.overlaps(result)] for span in evidence]
        first = min((found[0] for found in places if found), default=None)
        texts = Texts([result.content for result in results])
        within = {
            budget: share(
                self._is_there(span, found, texts, budget, question.any_part)
                for span, found in zip(evidence, places, strict=True)
            )
            for budget in self.budgets
        }
        at = {cut: share(bool(found) and found[0] < cut for found in places) for cut in CUTS}
        return Marks(within, at, 0.0 if first is None else 1 / (first + 1))

    def _is_there(self, span: Span, found: Sequence[int], texts: Texts, budget: int, any_part: bool) -> bool:
        shown = [(texts.within(at, budget), texts.plain(at)) for at in found]
        shown = [(text, whole) for text, whole in shown if text]
        if not shown:
            return False
        if any_part:
            return any(len(text) >= MOST * min(ENOUGH_CHARS, len(whole)) for text, whole in shown)
        pieces = self._pieces_of(span)
        there = sum(len(piece) for piece in pieces if any(piece in text for text, _ in shown))
        return there >= MOST * min(ENOUGH_CHARS, sum(map(len, pieces)))

    def _pieces_of(self, span: Span) -> list[str]:
        if span not in self._pieces:
            text = plain("\n".join(self._lines_of(span.path)[span.start_line - 1 : span.end_line]))
            pieces = textwrap.wrap(text, PIECE_CHARS, break_long_words=False, break_on_hyphens=False)
            self._pieces[span] = pieces
        return self._pieces[span]

    def _lines_of(self, path: str) -> list[str]:
        if path not in self._lines:
            try:
                text = (self.folder / path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                raise TarsError(f"the questions speak of {path}, which cannot be read in {self.folder}") from None
            self._lines[path] = text.split("\n")
        return self._lines[path]


class Texts:
    """The passages of an answer, one after the other, as far as a number of characters goes."""

    def __init__(self, contents: Sequence[str]) -> None:
        self.contents = contents
        self.starts = [sum(map(len, contents[:at])) for at in range(len(contents))]
        self._plain: dict[int, str] = {}

    def plain(self, at: int) -> str:
        if at not in self._plain:
            self._plain[at] = plain(self.contents[at])
        return self._plain[at]

    def within(self, at: int, budget: int) -> str:
        """The passage, cut if it stands across the border; empty beyond."""
        room = budget - self.starts[at]
        if room >= len(self.contents[at]):
            return self.plain(at)
        return plain(self.contents[at][:room]) if room > 0 else ""


def share(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 0.0
