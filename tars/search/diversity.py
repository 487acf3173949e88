"""Diversity: results that say something new, or not too many from one note."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.dedup import vectors_of
from tars.search.query import Query, SearchResult


@dataclass(frozen=True, slots=True)
class Diverse:
    """Maximal marginal relevance: λ · score + (1 − λ) · (1 − cosine to the nearest that was taken before).

    The seeds subtract (1 − λ) · cosine; adding its complement gives the same order and stays between 0 and 1.
    What was taken only grows, so the values that are taken only fall.
    """

    name: ClassVar[str] = "diverse"
    relevance: float = 0.7  # λ

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        import numpy as np

        if not results:
            return []
        vectors = np.stack(vectors_of(results, query))
        scores = np.array([result.score for result in results])
        nearest = np.zeros(len(results))  # cosine to what was taken
        left = np.ones(len(results), dtype=bool)
        taken: list[SearchResult] = []
        for _ in results:
            values = self.relevance * scores + (1 - self.relevance) * (1 - nearest)
            best = int(np.argmax(np.where(left, values, -1.0)))
            left[best] = False
            taken.append(replace(results[best], score=min(float(values[best]), 1.0)))
            nearest = np.maximum(nearest, (vectors @ vectors[best]).clip(0.0, 1.0))
        return taken


@dataclass(frozen=True, slots=True)
class PerNote:
    """No more than so many passages of one note."""

    name: ClassVar[str] = "per_note"
    most: int = 3

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        seen: Counter[str] = Counter()
        kept: list[SearchResult] = []
        for result in results:
            seen[result.file_path] += 1
            if seen[result.file_path] <= self.most:
                kept.append(result)
        return kept
