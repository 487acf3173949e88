"""Short circuit: if the words alone leave no doubt, nothing else is looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tars.search.query import Query, RankedList


@dataclass(frozen=True, slots=True)
class ShortCircuit:
    """Says that it is enough when the best BM25 is high and far ahead of the next; adds no hits of its own."""

    name: ClassVar[str] = "short_circuit"
    score: float = 0.85
    lead: float = 0.15

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        words = next((ranked.hits for ranked in found if ranked.name == "words"), ())
        return RankedList("short_circuit", [], enough=not query.hypothesis and self.is_clear(words))

    def is_clear(self, hits: Sequence[tuple[int, float]]) -> bool:
        """A single hit leads by any measure."""
        if not hits:
            return False
        best, second = (normalised(hits[at][1]) if at < len(hits) else 0.0 for at in (0, 1))
        return best >= self.score and best - second >= self.lead


def normalised(bm25: float) -> float:
    """From 0 up to but not including 1.

    >>> normalised(9.0), normalised(-9.0), normalised(0.0)
    (0.9, 0.9, 0.0)
    """
    return abs(bm25) / (1 + abs(bm25))
