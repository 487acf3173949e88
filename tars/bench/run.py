"""Asking: every question of every case, of one index, in as many ways as are to be compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tars.app import App
from tars.bench.figures import Judged
from tars.bench.judge import BUDGETS, Judge, Marks
from tars.bench.questions import Case, Question
from tars.config import Config, Places
from tars.errors import TarsError
from tars.indexer import Report
from tars.search.pipeline import Pipeline
from tars.search.query import Query, SearchResult, clamp_limit, normalise

LIMIT = 20
WARM_UP = "warm up"

Progress = Callable[[int, int], None]
Open = Callable[[Case], App]
Observe = Callable[[str, Case, Question, Sequence[SearchResult]], None]


@dataclass(frozen=True, slots=True)
class Way:
    """A pipeline and a mode to ask it in."""

    pipeline: Pipeline
    mode: str = "hybrid"


@dataclass(frozen=True, slots=True)
class Run:
    """What came out: the judged questions of each way, and why a way could not be gone."""

    rows: dict[str, list[Judged]]
    failed: dict[str, str] = field(default_factory=dict)
    skipped: bool = False  # a note could not be read


def elsewhere(config: Config, memory: Path, home: Path) -> Config:
    """The person's settings for another folder of notes, with index and state in a home of their own."""
    places = Places(config.places.config_file, home / "data", home / "state")
    return replace(
        config, places=places, memory_dir=memory.resolve(), origins={**config.origins, "memory_dir": "given"}
    )


def run(
    cases: Sequence[Case],
    ways: Mapping[str, Way],
    open_app: Open,
    *,
    limit: int = LIMIT,
    clock: bool = False,
    budget: int = 0,
    budgets: Sequence[int] = BUDGETS,
    progress: Progress = lambda done, total: None,
    report: Callable[[Report], None] = lambda report: None,
    observe: Observe = lambda way, case, question, results: None,
) -> Run:
    """Ask every question in every way. The first way has to work; another that cannot is left out, with the reason."""
    out = Run({name: [] for name in ways})
    total, done, skipped = sum(len(case.questions) for case in cases), 0, False
    for case in cases:
        if not case.questions:
            continue
        with indexed(case, open_app, report) as app:
            skipped = skipped or bool(app.store.skipped())
            judge = Judge(case.memory, budgets)
            asker = Asker(app, limit, clock, budget)
            warm_up(asker, ways)
            for number, question in enumerate(case.questions):
                ask_every_way(asker, judge, case, question, turned(list(ways), number), ways, out, observe)
                done += 1
                progress(done, total)
    return replace(out, rows={name: rows for name, rows in out.rows.items() if name not in out.failed}, skipped=skipped)


@contextmanager
def indexed(case: Case, open_app: Open, report: Callable[[Report], None]) -> Iterator[App]:
    with open_app(case) as app:
        if made := app.refresh():
            report(made)
        yield app


def turned(names: list[str], number: int) -> list[str]:
    """In turn another goes first: whoever does finds the pages of the index cold."""
    at = number % len(names)
    return names[at:] + names[:at]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks an index past every cache: what is measured is the search."""

    app: App
    limit: int
    clock: bool
    budget: int

    def __call__(self, way: Way, text: str, question: Question | None = None) -> tuple[list[SearchResult], float]:
        """The results and the milliseconds they took."""
        app, settings = self.app, self.app.config.search
        today = question.as_of if question and self.clock else None
        # A model that answers by the question costs time and money: it is asked only if the command names it.
        with_model = app.config.origins.get("model") == "--model"
        start = time.perf_counter()
        outcome = way.pipeline(
            Query(
                text=normalise(text),
                index=app.index,
                limit=clamp_limit(self.limit, LIMIT),
                mode=way.mode,
                imagine=app.imagine if with_model else None,
                judge=app.judge if with_model else None,
                today=today or app.now().date(),
                min_score=settings.get("min_score", 0.0),
                min_confidence=settings.get("min_confidence", 0.0),
                budget=self.budget or settings.get("budget", 0),
            )
        )
        return outcome.results, (time.perf_counter() - start) * 1000


def warm_up(asker: Asker, ways: Mapping[str, Way]) -> None:
    """What a process does once (loading vectors and tables) is no part of an answer."""
    asker(next(iter(ways.values())), WARM_UP)


def ask_every_way(
    asker: Asker,
    judge: Judge,
    case: Case,
    question: Question,
    order: Sequence[str],
    ways: Mapping[str, Way],
    out: Run,
    observe: Observe,
) -> None:
    known: dict[tuple[tuple[int, int], ...], Marks] = {}  # most ways give most questions the same answer
    for name in order:
        if name in out.failed:
            continue
        try:
            results, ms = asker(ways[name], question.text, question)
        except TarsError as error:
            if name == next(iter(ways)):
                raise
            out.failed[name] = str(error)
            continue
        observe(name, case, question, results)
        out.rows[name].append(judged(judge, case, question, results, ms, known))


def judged(
    judge: Judge,
    case: Case,
    question: Question,
    results: list[SearchResult],
    ms: float,
    known: dict[tuple[tuple[int, int], ...], Marks],
) -> Judged:
    source = question.taken_from
    answers = [result for result in results if source is None or not source.overlaps(result)]
    marks = None
    if question.evidence:
        key = tuple((result.chunk_rowid, hash(result.content)) for result in answers)
        if key not in known:
            known[key] = judge(question, answers)
        marks = known[key]
    return Judged(
        set=case.set,
        case=case.name,
        id=question.id,
        category=question.category,
        adversarial=question.adversarial,
        ms=ms,
        confidence=round(answers[0].confidence, 4) if answers else None,  # as it is shown
        marks=marks,
    )
