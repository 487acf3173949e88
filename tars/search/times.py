"""Time in the query: passages dated when the question says it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import ClassVar

from tars.search.query import Query, RankedList
from tars.search.when import Window, find_windows


@dataclass(frozen=True, slots=True)
class Times:
    """Finds the times that the question names, reckoned from its clock."""

    name: ClassVar[str] = "times"

    def __call__(self, query: Query) -> Query:
        return replace(query, windows=find_windows(query.text, query.today))


@dataclass(frozen=True, slots=True)
class InTime:
    """Raises the score of what is dated inside a window, and less so right beside it.

    Never a filter: people write about a day on the day after, and about a journey weeks before it.
    """

    name: ClassVar[str] = "in_time"
    words: float = 2.0
    others: float = 1.5
    fade_days: int = 3

    def __call__(self, lists: Sequence[RankedList], query: Query) -> list[RankedList]:
        if not query.windows:
            return list(lists)
        dates = query.index.store.dates(list({rowid for ranked in lists for rowid, _ in ranked.hits}))
        nearness = {rowid: self.nearness(day, query.windows) for rowid, day in dates.items()}
        return [self._raised(ranked, nearness) for ranked in lists]

    def _raised(self, ranked: RankedList, nearness: dict[int, float]) -> RankedList:
        """In the order of the raised scores; the scores stay what they are, since confidence is reckoned from them."""
        boost = (self.words if ranked.name == "words" else self.others) - 1

        def raised(hit: tuple[int, float]) -> float:
            return hit[1] * (1 + boost * nearness.get(hit[0], 0.0))

        return replace(ranked, hits=sorted(ranked.hits, key=lambda hit: -raised(hit)))

    def nearness(self, day: str | None, windows: Sequence[Window]) -> float:
        """1 inside a window, falling to nothing over the days beside it."""
        try:
            away = min(window.days_from(date.fromisoformat(day)) for window in windows) if day else None
        except ValueError:
            return 0.0
        if away is None or away > self.fade_days:
            return 0.0
        return 1.0 if away == 0 else 0.7 * (1 - away / (self.fade_days + 1))
