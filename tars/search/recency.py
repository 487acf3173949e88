"""Recency: what was written lately is more often asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import ClassVar

from tars.search.query import Query, SearchResult, best_first


@dataclass(frozen=True, slots=True)
class Recency:
    """Raises passages by their date, counted back from the query's clock; the first tier that fits counts.

    Evergreen notes are exempt: Memory.md and Procedural.md, which each new fact would make recent, and notes tagged
    `evergreen`. So is a question that names a time of its own.
    """

    name: ClassVar[str] = "recency"
    days: tuple[float, ...] = (7.0, 30.0)
    factors: tuple[float, ...] = (1.2, 1.1)
    evergreen_types: tuple[str, ...] = ("semantic", "procedural")
    evergreen_tag: str = "evergreen"

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        if query.windows:
            return list(results)
        factors = {result.chunk_rowid: self._factor_of(result, query.today) for result in results}
        if all(factor == 1.0 for factor in factors.values()):
            return list(results)
        recent = {result.file_path for result in results if factors[result.chunk_rowid] != 1.0}
        evergreen = query.index.store.tagged(recent, self.evergreen_tag.lower())
        return best_first(
            r if r.file_path in evergreen else replace(r, score=r.score * factors[r.chunk_rowid]) for r in results
        )

    def _factor_of(self, result: SearchResult, today: date) -> float:
        if result.memory_type in self.evergreen_types or not result.date:
            return 1.0
        try:
            return self.factor((today - date.fromisoformat(result.date)).days)
        except ValueError:  # a date as somebody wrote it
            return 1.0

    def factor(self, age_days: float) -> float:
        """What is dated ahead is a plan, not news."""
        if age_days < 0:
            return 1.0
        return next((f for most, f in zip(self.days, self.factors, strict=False) if age_days <= most), 1.0)
