"""Limbic re-ranking: what was used before, often and lately, comes to mind first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import ClassVar

from tars.access import Statistics, Use, Used
from tars.search.query import Query, SearchResult, best_first

FULL_DEGREE = 15  # links from which on a note is not more important for having more
FULL_DAYS = 7  # days of use after which a passage is wholly consolidated
NEVER = Use(0, 0, "")


@dataclass(frozen=True, slots=True)
class Limbic:
    """base × (1 + salience · importance) × temporal × (1 + together · uses together with other results).

    importance = log₂(1 + uses) / log₂(1 + most uses) × (1 + degree · min(links, 15) / 15) × (1 + consolidation · c),
    where c is the share of seven days on which it was used: what is used again another day has been learnt.
    temporal = max(least, e^(-decay · hours)) since the last use, or since its date if it was never used.
    base is the score, and by `cosine` the seed's: the cosine, or 0.2 + 0.6 · norm for what only words found.
    """

    name: ClassVar[str] = "limbic"
    salience: float = 0.5
    degree: float = 0.15
    consolidation: float = 0.2
    together: float = 0.01
    decay: float = 0.0001  # per hour
    least: float = 0.1
    cosine: float = 0.0

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        access = query.index.access
        if not results or access is None:
            return list(results)
        hashes = query.index.store.hashes(r.chunk_rowid for r in results)
        keys = [(r.file_path, hashes.get(r.chunk_rowid, b"")) for r in results]
        known = access.statistics(keys)
        if not known.uses:
            return list(results)  # without any history there is nothing to come to mind
        links = degrees(results, query)
        return best_first(
            replace(r, score=base * self.factor(r, key, known, links.get(r.file_path, 0), query.today))
            for r, key, base in zip(results, keys, self.bases(results), strict=True)
        )

    def factor(self, result: SearchResult, key: Used, known: Statistics, links: int, today: date) -> float:
        use = known.uses.get(key, NEVER)
        important = self.importance(use.count, known.most, links, use.days)
        hours = 24 * days_between(use.last or result.date, today)
        return (1 + self.salience * important) * self.temporal(hours) * (1 + self.together * known.together.get(key, 0))

    def importance(self, uses: int, most: int, links: int, days: int) -> float:
        if not uses or not most:
            return 0.0
        known = math.log2(1 + uses) / math.log2(1 + most)
        linked = 1 + self.degree * min(links, FULL_DEGREE) / FULL_DEGREE
        return known * linked * (1 + self.consolidation * min(days, FULL_DAYS) / FULL_DAYS)

    def temporal(self, hours: float) -> float:
        return max(self.least, math.exp(-self.decay * max(hours, 0.0)))

    def bases(self, results: Sequence[SearchResult]) -> list[float]:
        """How relevant each is in itself, before anything is remembered of it."""
        if not self.cosine:
            return [result.score for result in results]
        rest = [r.score for r in results if "vectors" not in r.ranks]
        least, span = min(rest, default=0.0), max(rest, default=0.0) - min(rest, default=0.0)

        def seeds(result: SearchResult) -> float:
            if "vectors" in result.ranks:
                return max(0.0, result.ranks["vectors"][1])
            return 0.2 + 0.6 * ((result.score - least) / span if span else 1.0)

        return [(1 - self.cosine) * r.score + self.cosine * seeds(r) for r in results]


def degrees(results: Sequence[SearchResult], query: Query) -> dict[str, int]:
    """How many notes each note is linked with, either way."""
    store = query.index.store
    if not store.has_links():
        return {}
    ids = store.file_ids({r.file_path for r in results})
    neighbours: dict[int, set[int]] = {}
    for note, neighbour, _ in store.linked(ids.values()):
        neighbours.setdefault(note, set()).add(neighbour)
    return {path: len(neighbours.get(file_id, ())) for path, file_id in ids.items()}


def days_between(day: str | None, today: date) -> int:
    try:
        return (today - date.fromisoformat(day)).days if day else 0
    except ValueError:  # a date as somebody wrote it
        return 0
