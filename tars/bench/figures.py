"""Figures over judged questions, pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tars.bench.judge import BUDGETS, CUTS, Marks

ROUNDS = 2_000  # of resampling


@dataclass(frozen=True, slots=True)
class Judged:
    """One question, asked and judged; without evidence there are no marks."""

    set: str
    case: str
    id: str
    category: str
    adversarial: bool
    ms: float
    confidence: float | None  # of the first result
    marks: Marks | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.set, self.case, self.id


@dataclass(frozen=True, slots=True)
class Figures:
    questions: int
    within: dict[int, float]
    at: dict[int, float]
    mrr: float
    p50_ms: float
    p95_ms: float
    auc: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference and the interval that holds 95 of 100 resampled ones."""

    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        return self.low > 0 or self.high < 0


def summary(rows: Sequence[Judged]) -> Figures:
    """Of the questions with evidence; the times are of all."""
    marks = [row.marks for row in rows if row.marks]
    times = [row.ms for row in rows]
    budgets = list(marks[0].within) if marks else list(BUDGETS)
    return Figures(
        questions=len(marks),
        within={budget: mean(m.within[budget] for m in marks) for budget in budgets},
        at={cut: mean(m.at[cut] for m in marks) for cut in CUTS},
        mrr=mean(m.reciprocal_rank for m in marks),
        p50_ms=percentile(times, 0.5),
        p95_ms=percentile(times, 0.95),
    )


def of_set(rows: Sequence[Judged]) -> Figures:
    """Of the questions that can be answered, and how well confidence tells them from the others."""
    return replace(summary([row for row in rows if not row.adversarial]), auc=confidence_auc(rows))


def confidence_auc(rows: Iterable[Judged]) -> float | None:
    sides: tuple[list[float], list[float]] = [], []
    for row in rows:
        sides[row.adversarial].append(float("-inf") if row.confidence is None else row.confidence)
    return auc(*sides)


def auc(higher: Sequence[float], lower: Sequence[float]) -> float | None:
    """The chance that one of the first stands above one of the second; a tie is half."""
    if not higher or not lower:
        return None
    ordered = sorted(lower)
    wins = sum((bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 for value in higher)
    return wins / (len(higher) * len(lower))


def bootstrap(differences: Sequence[float], *, seed: int = 0) -> Difference:
    """Paired: the same question with and without; questions are drawn anew, with replacement."""
    import numpy as np

    values = np.asarray(differences, dtype=float)
    if not values.any():
        return Difference(0.0, 0.0, 0.0)
    rng = np.random.default_rng(seed)
    # A round at a time: all at once would take a gigabyte for a large set.
    means = [float(values[rng.integers(len(values), size=len(values))].mean()) for _ in range(ROUNDS)]
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return Difference(float(values.mean()), low, high)


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def by_set(rows: Iterable[Judged]) -> dict[str, list[Judged]]:
    return grouped((row.set, row) for row in rows)


def by_category(rows: Iterable[Judged]) -> dict[str, list[Judged]]:
    return dict(sorted(grouped((row.category or "-", row) for row in rows).items()))


def grouped(pairs: Iterable[tuple[str, Judged]]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for name, row in pairs:
        groups.setdefault(name, []).append(row)
    return groups
