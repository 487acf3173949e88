"""Whether `confidence` says the truth: of what it calls 0.3, three in ten should be relevant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tars.bench.questions import Case, Question
from tars.search.confidence import Confidence
from tars.search.pipeline import Pipeline
from tars.search.query import Query, SearchResult

if TYPE_CHECKING:
    import numpy as np

BINS = 10
WEIGHTS = ("bias", "late", "words")  # the settings of Confidence that a fit can find
STEPS, RIDGE = 50, 1e-6


@dataclass(frozen=True, slots=True)
class Sample:
    """A passage that was shown: what it was rated by, its rating, and whether it overlaps the evidence."""

    set: str
    features: tuple[float, ...]
    confidence: float
    relevant: bool


@dataclass(frozen=True, slots=True)
class Bin:
    low: float
    high: float
    count: int
    predicted: float
    actual: float


@dataclass(frozen=True, slots=True)
class Reliability:
    bins: tuple[Bin, ...]
    mean_error: float  # |predicted - actual| of a bin, each passage counting once


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights fitted to the other sets, and their mean error on this one."""

    weights: dict[str, float]
    mean_error: float


@dataclass(slots=True)
class Recorder:
    """Confidence, with a record of what it rates the passages of the last question by."""

    name: ClassVar[str] = "confidence"
    stage: Confidence
    last: dict[int, tuple[float, ...]]

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        nothing = dict.fromkeys(WEIGHTS, 0.0)
        columns = []
        for weight in WEIGHTS:
            # With one weight at 1 and the others at 0, the rating is that weight's feature on the logistic curve.
            alone = replace(self.stage, **{**nothing, weight: 1.0})
            columns.append([log_odds(result.confidence) for result in alone(results, query)])
        self.last = dict(zip([r.chunk_rowid for r in results], zip(*columns, strict=True), strict=True))
        return self.stage(results, query)


class Samples:
    """Collects what a run shows."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.recorder: Recorder | None = None
        self.found: list[Sample] = []
        self.pipeline = pipeline.changed(self._recorded)

    def _recorded(self, stage: Any) -> Any:
        if isinstance(stage, Confidence):
            self.recorder = Recorder(stage, {})
            return self.recorder
        return stage

    def observe(self, way: str, case: Case, question: Question, results: Sequence[SearchResult]) -> None:
        """Questions without an answer say nothing about which passage is one."""
        if self.recorder is None or question.adversarial or not question.evidence:
            return
        for result in results:
            source = question.taken_from
            features = self.recorder.last.get(result.chunk_rowid)
            if features is None or (source and source.overlaps(result)):
                continue
            relevant = any(span.overlaps(result) for span in question.evidence)
            self.found.append(Sample(case.set, features, result.confidence, relevant))


def reliability(samples: Sequence[Sample], predicted: Sequence[float] | None = None) -> Reliability:
    """Predicted against actual shares, in bins of equal width."""
    values = [sample.confidence for sample in samples] if predicted is None else predicted
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for value, sample in zip(values, samples, strict=True):
        groups[min(int(value * BINS), BINS - 1)].append((value, sample.relevant))
    bins = tuple(
        Bin(
            at / BINS,
            (at + 1) / BINS,
            len(group),
            sum(value for value, _ in group) / len(group),
            sum(relevant for _, relevant in group) / len(group),
        )
        for at, group in enumerate(groups)
        if group
    )
    total = sum(each.count for each in bins)
    error = sum(each.count * abs(each.predicted - each.actual) for each in bins)
    return Reliability(bins, error / total if total else 0.0)


def held_out(samples: Sequence[Sample]) -> dict[str, Fit]:
    """For each set: fitted to all others, tried on it. Nothing with fewer than two sets."""
    names = list(dict.fromkeys(sample.set for sample in samples))
    fits = {}
    for name in names if len(names) > 1 else ():
        held = [sample for sample in samples if sample.set == name]
        weights = fitted([sample for sample in samples if sample.set != name])
        ratings = chances(held, weights).tolist()
        fits[name] = Fit(dict(zip(WEIGHTS, weights.tolist(), strict=True)), reliability(held, ratings).mean_error)
    return fits


def fitted(samples: Sequence[Sample]) -> np.ndarray:
    """Logistic regression by Newton's method; a breath of ridge keeps separable samples finite."""
    import numpy as np

    features = np.array([sample.features for sample in samples])
    relevant = np.array([sample.relevant for sample in samples], dtype=float)
    weights = np.zeros(features.shape[1])
    for _ in range(STEPS):
        chance = logistic(features @ weights)
        gradient = features.T @ (relevant - chance) - RIDGE * len(samples) * weights
        curvature = (features.T * (chance * (1 - chance))) @ features + RIDGE * len(samples) * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def chances(samples: Sequence[Sample], weights: np.ndarray) -> np.ndarray:
    import numpy as np

    return logistic(np.array([sample.features for sample in samples]) @ weights)


def logistic(values: np.ndarray) -> np.ndarray:
    import numpy as np

    chance: np.ndarray = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return chance


def log_odds(chance: float) -> float:
    chance = min(max(chance, 1e-12), 1 - 1e-12)
    return math.log(chance / (1 - chance))
