"""Variance weights: a list whose scores are all alike does not know what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import Query, RankedList


@dataclass(frozen=True, slots=True)
class Variance:
    """Takes weight from lists whose scores, brought to 0…1, vary little; the sum of the weights stays."""

    name: ClassVar[str] = "variance"
    threshold: float = 0.1
    minimum: float = 0.5

    def __call__(self, lists: Sequence[RankedList], query: Query) -> list[RankedList]:
        weights = [ranked.weight * self.factor([score for _, score in ranked.hits]) for ranked in lists]
        if not sum(weights):
            return list(lists)
        scale = sum(ranked.weight for ranked in lists) / sum(weights)
        return [replace(ranked, weight=weight * scale) for ranked, weight in zip(lists, weights, strict=True)]

    def factor(self, scores: Sequence[float]) -> float:
        """max(minimum, variance / threshold), at most 1; a single hit is no reason for doubt."""
        if len(scores) < 2:
            return 1.0
        return min(1.0, max(self.minimum, variance(normalised(scores)) / self.threshold))


def normalised(scores: Sequence[float]) -> list[float]:
    least, most = min(scores), max(scores)
    return [(score - least) / (most - least) if most > least else 0.0 for score in scores]


def variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)
