"""Fusion: several ranked lists become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tars.errors import UsageError
from tars.search.query import Query, RankedList


@dataclass(frozen=True, slots=True)
class Fused:
    rowid: int
    score: float
    ranks: dict[str, tuple[int, float]]


def reciprocal_rank_fusion(
    *ranked_lists: Sequence[int],
    k: float = 60,
    weights: Sequence[float] | None = None,
    bonus: Sequence[float] = (),
    trust: Sequence[float] | None = None,
) -> list[tuple[int, float]]:
    """(rowid, score) best first; Σ weight / (k + rank), ranks from 1, over the most that could be had.

    `bonus` is added for the first ranks of every list, whatever its weight, times its `trust`.
    """
    weights, trust = weights or [1.0] * len(ranked_lists), trust or [1.0] * len(ranked_lists)
    scores: dict[int, float] = {}
    for ranked, weight, share in zip(ranked_lists, weights, trust, strict=True):
        for rank, rowid in enumerate(dict.fromkeys(ranked), 1):
            extra = share * bonus[rank - 1] if rank <= len(bonus) else 0.0
            scores[rowid] = scores.get(rowid, 0.0) + weight / (k + rank) + extra
    most = sum(weights) / (k + 1) + sum(trust) * max(bonus, default=0.0)
    if most <= 0:
        return []
    # Equal scores stay in the order of the lists: rowids are others after a rebuild.
    return sorted(((rowid, score / most) for rowid, score in scores.items()), key=lambda hit: -hit[1])


@dataclass(frozen=True, slots=True)
class ReciprocalRank:
    """Weighted RRF. The fewer words the question has, the more the lists that know meanings count.

    A long question names what it wants, and there vectors blur what the words have sharp; a short one says it
    in words that the note may not use. The bonus does not fall with the words: what a list has at its very top is
    worth a look even then.
    """

    name: ClassVar[str] = "fusion"
    k: float = 10.0
    words: float = 1.0
    vectors: float = 2.0
    late: float = 2.0
    enough_words: float = 6.0  # content words from which on a question speaks for itself
    first_two: float = 1.0  # a factor to the weight of the first two lists
    bonus: tuple[float, ...] = (0.05, 0.02, 0.02)  # for the first ranks of each list

    def __post_init__(self) -> None:
        if not self.k > 0:
            raise UsageError(f"setting 'search.fusion.k' must be greater than 0, not {self.k}")

    def __call__(self, lists: Sequence[RankedList], query: Query) -> list[Fused]:
        lists = [ranked for ranked in lists if ranked.hits]
        if not lists:
            return []
        fused = reciprocal_rank_fusion(
            *([rowid for rowid, _ in ranked.hits] for ranked in lists),
            k=self.k, weights=self.applied(lists, query), bonus=self.bonus, trust=trust_of(lists, query),
        )  # fmt: skip
        ranks: dict[int, dict[str, tuple[int, float]]] = {}
        for ranked in lists:
            for rank, (rowid, score) in enumerate(ranked.hits, 1):
                ranks.setdefault(rowid, {})[ranked.name] = (rank, score)
        return [Fused(rowid, score, ranks[rowid]) for rowid, score in query.index.store.in_order(fused)]

    def applied(self, lists: Sequence[RankedList], query: Query) -> list[float]:
        """The weight with which each list counts for this question."""
        base = self.weights([ranked.name for ranked in lists], len(query.terms))
        return [
            weight * trust * (self.first_two if at < 2 else 1.0)
            for at, (weight, trust) in enumerate(zip(base, trust_of(lists, query), strict=True))
        ]

    def weights(self, names: Sequence[str], words: int) -> list[float]:
        """The weight of each list for a question of this many content words."""
        meaning = 1 / (1 + (words / self.enough_words) ** 6)
        base = {"words": self.words, "vectors": self.vectors * meaning, "late": self.late * meaning}
        return [base.get(name, 1.0) for name in names]


def trust_of(lists: Sequence[RankedList], query: Query) -> list[float]:
    """How much more or less than usual each list counts, by its own account and by the question's."""
    return [ranked.weight * query.weights.get(ranked.name, 1.0) for ranked in lists]
