"""Dedup: of passages that say the same, the best-ranked one stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from tars.search.query import Query, SearchResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SameText:
    """Drops a passage whose words are those of a better one, whatever the case and white space."""

    name: ClassVar[str] = "same_text"

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        first: dict[bytes, SearchResult] = {}
        for result in results:
            first.setdefault(text_hash(result.content), result)
        return list(first.values())


@dataclass(frozen=True, slots=True)
class NearText:
    """Drops a passage that shares most of its runs of characters with a better one (Jaccard of the sets)."""

    name: ClassVar[str] = "near_text"
    threshold: float = 0.7
    run: int = 3  # characters

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        near, far = shown_and_rest(results, query)
        runs = [runs_of(result.content, self.run) for result in near]
        kept = first_of_alike(runs, lambda one, other: alike(one, other, self.threshold))
        return [*(near[at] for at in kept), *far]


@dataclass(frozen=True, slots=True)
class NearMeaning:
    """Drops a passage whose vector is all but that of a better one."""

    name: ClassVar[str] = "near_meaning"
    threshold: float = 0.95  # cosine

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        near, far = shown_and_rest(results, query)
        vectors = vectors_of(near, query)
        kept = first_of_alike(vectors, lambda one, other: float(one @ other) >= self.threshold)
        return [*(near[at] for at in kept), *far]


def shown_and_rest(results: list[SearchResult], query: Query) -> tuple[list[SearchResult], list[SearchResult]]:
    """What may be shown, and what stands too far down for that: comparing each with each grows with the square."""
    return results[: 2 * query.limit], results[2 * query.limit :]


def text_hash(text: str) -> bytes:
    return hashlib.sha256(" ".join(text.lower().split()).encode()).digest()


def runs_of(text: str, length: int) -> frozenset[str]:
    """
    >>> sorted(runs_of("hello", 3))
    ['ell', 'hel', 'llo']
    """
    text = " ".join(text.lower().split())
    return frozenset(text[at : at + length] for at in range(max(len(text) - length + 1, 1)))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / ((len(one) + len(other) - shared) or 1)


def alike(one: frozenset[str], other: frozenset[str], threshold: float) -> bool:
    # Sets of very different sizes cannot be alike: that spares most of the comparisons.
    small, large = sorted((len(one), len(other)))
    return small >= threshold * large and jaccard(one, other) >= threshold


def first_of_alike(items: Sequence[T], same: Callable[[T, T], bool]) -> list[int]:
    """The places of the items that are like none before them."""
    kept: list[int] = []
    for at, item in enumerate(items):
        if not any(same(items[before], item) for before in kept):
            kept.append(at)
    return kept


def vectors_of(results: Sequence[SearchResult], query: Query) -> list[Any]:
    """The vector of each passage, as it is stored; of one that has none, zeros, which are like nothing."""
    import numpy as np

    blobs = query.index.store.vectors([result.chunk_rowid for result in results])
    found = {rowid: np.frombuffer(blob, dtype=np.float32) for rowid, blob in blobs.items()}
    none = np.zeros_like(next(iter(found.values()))) if found else np.zeros(1, dtype=np.float32)
    return [found.get(result.chunk_rowid, none) for result in results]
