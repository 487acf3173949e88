"""Beside: a passage next to another good one is likely to be about the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tars.search.query import Query, SearchResult, by_score, scored


@dataclass(frozen=True, slots=True)
class Beside:
    """Gives each passage a share of the score of its better neighbour in the note, if that was found too."""

    name: ClassVar[str] = "beside"
    share: float = 0.1

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        scores = {(result.file_path, result.position): result.score for result in results}

        def raised(result: SearchResult) -> SearchResult:
            near = (scores.get((result.file_path, result.position + step), 0.0) for step in (-1, 1))
            return scored(result, (result.score + self.share * max(near)) / (1 + self.share))

        return sorted(map(raised, results), key=by_score)
