"""Confidence: the chance that a passage is relevant, comparable across queries."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tars.search.query import Query, SearchResult


@dataclass(frozen=True, slots=True)
class Confidence:
    """A logistic curve over how much of the query a passage answers to, by words and by meaning."""

    bias: float = -3.0
    late: float = 4.0
    vectors: float = 1.0

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        return [replace(result, confidence=self.chance(result)) for result in results]

    def chance(self, result: SearchResult) -> float:
        late = result.ranks.get("late", (0, 0.0))[1]
        cosine = result.ranks.get("vectors", (0, 0.0))[1]
        return 1 / (1 + math.exp(-(self.bias + self.late * late + self.vectors * cosine)))
