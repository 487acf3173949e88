"""Same day: what other notes say of the day on which something good was found is likely to be about the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tars.search.query import Query, SearchResult, by_score, scored


@dataclass(frozen=True, slots=True)
class SameDay:
    """Gives each passage a share of the best scores that other notes have on its day.

    A day that all notes share, such as the day on which undated ones were copied here, says nothing; so the share
    falls with the part of the notes found that are of that day.
    """

    name: ClassVar[str] = "same_day"
    share: float = 0.4
    notes: int = 3  # of the day whose mean it is; where there are fewer, the rest count as nothing

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        days = best_by_day(results)
        found = len({result.file_path for result in results})

        def raised(result: SearchResult) -> SearchResult:
            of_day = days.get(result.date, {})
            others = [score for path, score in of_day.items() if path != result.file_path]
            support = self.support(others) * (1 - len(of_day) / found)
            return scored(result, (result.score + self.share * support) / (1 + self.share))

        return sorted(map(raised, results), key=by_score)

    def support(self, scores: Sequence[float]) -> float:
        """The mean of the best, so that several notes which agree say more than one."""
        return sum(sorted(scores, reverse=True)[: self.notes]) / self.notes


def best_by_day(results: Sequence[SearchResult]) -> dict[str | None, dict[str, float]]:
    """For each day, the notes found of it with the score of their best passage."""
    days: dict[str | None, dict[str, float]] = {}
    for result in results:
        if result.date:
            notes = days.setdefault(result.date, {})
            notes[result.file_path] = max(notes.get(result.file_path, 0.0), result.score)
    return days
