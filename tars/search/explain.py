"""How a result came to its place, in a form a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tars.search.fusion import Fused
from tars.search.pipeline import Outcome, name_of
from tars.search.query import Query, RankedList, SearchResult, Step


def explain(result: SearchResult) -> str:
    """One line, and with a trace one more for each stage that did something to the result.

    >>> explain(SearchResult("", 0.5, "a.md", "", "note", 1, 1, 1, ranks={"words": (1, 9.0)}, confidence=0.25))
    'score 0.500, confidence 0.25; words: place 1 (9.00)'
    """
    places = [f"{name}: place {rank} ({score:.2f})" for name, (rank, score) in result.ranks.items()]
    first = "; ".join([f"score {result.score:.3f}, confidence {result.confidence:.2f}", *places])
    done = [step for step in result.trace if step.did]
    idle = [step.stage for step in result.trace if not step.did]
    lines = [first, *(f"{step.stage}: {', '.join(step.did)}" for step in done)]
    return "\n".join([*lines, f"unchanged by: {', '.join(idle)}"] if idle else lines)


def explain_query(outcome: Outcome) -> str:
    """What was done to the question itself, and how much each list counted."""
    return "\n".join(f"{step.stage}: {', '.join(step.did)}" for step in outcome.trace if step.did)


def steps_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The same as data: what is not known of a step is left out."""
    return [{key: value for key, value in step_fields(step).items() if value not in (None, ())} for step in steps]


def step_fields(step: Step) -> dict[str, Any]:
    return {field.name: getattr(step, field.name) for field in fields(step)}


class Trace:
    """A watcher that notes what every stage gave, and tells afterwards what that did to the passages that remain.

    Only then is anything compared: hundreds of passages come in, and a handful is asked about.
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        self.seen: list[tuple[object, object]] = []
        self.about_query: list[Step] = []
        self.lists: dict[str, dict[int, tuple[int, float]]] = {}
        self.results: dict[int, SearchResult] = {}
        self.places: dict[int, tuple[int, float]] = {}  # rowid -> place and score after the last stage
        self.steps: dict[int, list[Step]] = {}
        self.ranked: list[RankedList] = []

    def __call__(self, stage: object, gave: object) -> None:
        self.seen.append((stage, gave))

    def onto(self, outcome: Outcome) -> Outcome:
        """The outcome with the trace of each result on it."""
        self.steps = {result.chunk_rowid: [] for result in outcome.results}
        for stage, gave in self.seen:
            self._compare(stage, gave)
        results = [replace(r, trace=tuple(self.steps[r.chunk_rowid])) for r in outcome.results]
        return replace(outcome, results=results, trace=tuple(self.about_query))

    def _compare(self, stage: object, gave: object) -> None:
        name = name_of(stage)
        if isinstance(gave, Query):
            self._rewritten(name, gave)
        elif isinstance(gave, RankedList):
            self._retrieved(gave)
        elif isinstance(gave, list):
            self._ranked(stage, name, gave)

    def _rewritten(self, name: str, query: Query) -> None:
        changed = [
            f"{field.name} {shown(getattr(query, field.name))}"
            for field in fields(query)
            if field.name != "index" and getattr(query, field.name) != getattr(self.query, field.name)
        ]
        self.about_query.append(Step(name, did=tuple(changed)))
        self.query = query

    def _retrieved(self, found: RankedList) -> None:
        self.ranked.append(found)
        self.lists[found.name] = places_of(found)
        self.about_query.append(Step(found.name, did=(f"{len(found.hits)} passages",)))

    def _ranked(self, stage: object, name: str, gave: list[Any]) -> None:
        """A stage that weighs, fuses or refines; which one shows in what it gave."""
        if gave and isinstance(gave[0], RankedList):
            self._weighed(name, gave)
        elif gave and isinstance(gave[0], Fused):
            self._fused(stage, name, gave)
        elif gave and isinstance(gave[0], SearchResult):
            self._refined(name, gave)

    def _weighed(self, name: str, lists: Sequence[RankedList]) -> None:
        weights = {ranked.name: ranked.weight for ranked in self.ranked}
        changed = [
            f"{ranked.name} × {ranked.weight / weights.get(ranked.name, 1.0):.2f}"
            for ranked in lists
            if weights.get(ranked.name, 1.0) not in (ranked.weight, 0.0)
        ]
        self.about_query.append(Step(name, did=tuple(changed)))
        for ranked in lists:
            after, before = places_of(ranked), self.lists.get(ranked.name, {})
            for rowid in self.steps.keys() & after.keys():
                (place, score), was = after[rowid], before.get(rowid)
                if was is None or was[0] != place:
                    did = f"{ranked.name} place {arrow(was[0] if was else None, place)}"
                    self._note(rowid, Step(name, was and was[0], place, was and was[1], score, (did,)))
            self.lists[ranked.name] = after
        self.ranked = list(lists)

    def _fused(self, stage: object, name: str, fused: Sequence[Fused]) -> None:
        lists = [ranked for ranked in self.ranked if ranked.hits]
        applied = getattr(stage, "applied", None)
        weights = applied(lists, self.query) if applied else [ranked.weight for ranked in lists]
        counted = [f"{ranked.name} × {weight:.2f}" for ranked, weight in zip(lists, weights, strict=True)]
        self.about_query.append(Step(name, did=tuple(counted)))
        for place, hit in enumerate(fused, 1):
            if hit.rowid in self.steps:
                self.places[hit.rowid] = place, hit.score
                did = f"place {place}", f"score {hit.score:.3f}"
                self._note(hit.rowid, Step(name, None, place, None, hit.score, did))

    def _refined(self, name: str, results: Sequence[SearchResult]) -> None:
        wanted = {r.chunk_rowid: (place, r) for place, r in enumerate(results, 1) if r.chunk_rowid in self.steps}
        for rowid, (place, result) in wanted.items():
            was = self.places.get(rowid)
            did = self._differences(result, place, was)
            self._note(rowid, Step(name, was and was[0], place, was and was[1], result.score, tuple(did)))
        self.places = {rowid: (place, result.score) for rowid, (place, result) in wanted.items()}
        self.results = {rowid: result for rowid, (_, result) in wanted.items()}

    def _differences(self, result: SearchResult, place: int, was: tuple[int, float] | None) -> list[str]:
        if was is None:
            return [f"joined at place {place}", f"score {result.score:.3f}"]
        before = self.results.get(result.chunk_rowid)
        did = [f"place {arrow(was[0], place)}"] if was[0] != place else []
        if abs(was[1] - result.score) > 1e-9:
            did.append(f"score {was[1]:.3f} → {result.score:.3f}")
        if result.confidence != (before.confidence if before else 0.0):
            did.append(f"confidence {result.confidence:.2f}")
        if before and lines_of(before) != lines_of(result):
            did.append(f"lines {lines_of(before)} → {lines_of(result)}")
        return did

    def _note(self, rowid: int, step: Step) -> None:
        self.steps[rowid].append(step)


def places_of(ranked: RankedList) -> dict[int, tuple[int, float]]:
    return {rowid: (place, score) for place, (rowid, score) in enumerate(ranked.hits, 1)}


def lines_of(result: SearchResult) -> str:
    return f"{result.start_line}-{result.end_line}"


def arrow(before: int | None, after: int) -> str:
    return str(after) if before is None else f"{before} → {after}"


def shown(value: Any) -> str:
    """A value of the question as a person reads it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} × {each:g}" for key, each in value.items()) or "none"
    if isinstance(value, tuple):
        return "; ".join(str(getattr(each, "text", each)) for each in value) or "none"
    return repr(value) if isinstance(value, str) else str(value)
