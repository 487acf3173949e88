"""One request to measure, from the folders named to the text or JSON that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tars.app import App
from tars.bench import ablation, show
from tars.bench.calibration import Samples, held_out, reliability
from tars.bench.figures import Judged, by_category, by_set, of_set, summary
from tars.bench.judge import BUDGETS
from tars.bench.own import own_questions
from tars.bench.questions import Case, find_cases, sample
from tars.bench.run import LIMIT, Open, Progress, Run, Way, elsewhere, run
from tars.config import Config
from tars.errors import UsageError
from tars.indexer import Report
from tars.search.settings import configured


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure and how to show it."""

    folders: tuple[Path, ...] = ()
    own: bool = False
    sample: int = 0
    seed: int = 0
    limit: int = LIMIT
    modes: tuple[str, ...] = ()
    clock: bool = False
    budget: int = 0
    categories: bool = False
    ablate: bool = False
    stages: tuple[str, ...] = ()
    calibration: bool = False
    plot: bool = False
    markdown: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    figures: dict[str, Any]
    questions: int
    skipped: bool  # some notes could not be read


@dataclass(frozen=True, slots=True)
class Bench:
    """Where to measure: the person's settings, a home for indexes, and whom to tell how far it is."""

    config: Config
    home: Path | None  # None leaves the index of the person's own memory where it is
    progress: Progress = lambda done, total: None
    report: Callable[[Report], None] = lambda report: None

    def __call__(self, request: Request) -> Answer:
        check(request)
        cases = self._cases(request)
        if request.ablate:
            return self._ablation(request, cases)
        if request.calibration:
            return self._calibration(request, cases)
        return self._quality(request, cases)

    def _cases(self, request: Request) -> list[Case]:
        if request.own:
            max_bytes = self.config.index.max_file_mb * 1_000_000
            cases = [own_questions(self.config.memory_dir, max_bytes=max_bytes)]
        else:
            cases = find_cases(request.folders)
        return sample(cases, request.sample, request.seed) if request.sample else cases

    def _run(self, request: Request, cases: Sequence[Case], ways: Mapping[str, Way], **more: Any) -> Run:
        return run(
            cases,
            ways,
            self._opener(),
            limit=request.limit,
            clock=request.clock,
            budget=request.budget,
            progress=self.progress,
            report=self.report,
            **more,
        )

    def _opener(self) -> Open:
        def open_case(case: Case) -> App:
            config = elsewhere(self.config, case.memory, self.home) if self.home else self.config
            return App(config, lives=True)

        return open_case

    def _mode(self, request: Request) -> str:
        return request.modes[0] if request.modes else str(self.config.search.get("mode", "hybrid"))

    def _quality(self, request: Request, cases: Sequence[Case]) -> Answer:
        pipeline = configured(self.config.search)
        ways = {mode: Way(pipeline, mode) for mode in request.modes or (self._mode(request),)}
        budgets = sorted({*BUDGETS, *(show.CURVE_BUDGETS if request.plot else ())})
        made = self._run(request, cases, ways, budgets=budgets)
        parts = [show.quality(made.rows, categories=request.categories, markdown=request.markdown)]
        if request.plot and any(row.marks for rows in made.rows.values() for row in rows):
            parts.append(show.plot(show.curves_of(made.rows)))
        figures = {"modes": {mode: figures_of(rows) for mode, rows in made.rows.items()}}
        return Answer("\n\n".join(parts), figures, counted(cases), made.skipped)

    def _ablation(self, request: Request, cases: Sequence[Case]) -> Answer:
        stages = ablation.switchable(request.stages)
        made = self._run(request, cases, ablation.ways(self.config.search, stages, self._mode(request)))
        rows = ablation.worth_of_each(made, self.config.search, stages)
        base = made.rows[ablation.BASE]
        parts = [
            show.quality({ablation.BASE: base}, markdown=request.markdown),
            show.ablation(rows, markdown=request.markdown),
        ]
        figures = {
            "as_configured": figures_of(base),
            "stages": [{**asdict(row), "verdict": row.verdict} for row in rows],
        }
        return Answer("\n\n".join(parts), figures, counted(cases), made.skipped)

    def _calibration(self, request: Request, cases: Sequence[Case]) -> Answer:
        samples = Samples(configured(self.config.search))
        if samples.recorder is None:
            raise UsageError("the stage 'confidence' is off, so there is nothing to check; take it out of [search] off")
        mode = self._mode(request)
        made = self._run(request, cases, {mode: Way(samples.pipeline, mode)}, observe=samples.observe)
        sets = dict.fromkeys(each.set for each in samples.found)
        tables = {name: reliability([s for s in samples.found if s.set == name]) for name in sets}
        fits = held_out(samples.found)
        figures = {
            "reliability": {name: asdict(table) for name, table in tables.items()},
            "held_out": {name: asdict(fit) for name, fit in fits.items()},
            "auc": {name: of_set(rows).auc for name, rows in by_set(made.rows[mode]).items()},
        }
        text = show.calibration(tables, fits, markdown=request.markdown)
        return Answer(text, figures, counted(cases), made.skipped)


def check(request: Request) -> None:
    """What cannot be asked together."""
    if request.own == bool(request.folders):
        raise UsageError("name the folders to measure, or ask for --self, which measures your own memory")
    if request.stages and not request.ablate:
        raise UsageError("--stages says what --ablate switches; add --ablate")
    if request.ablate and request.calibration:
        raise UsageError("--ablate and --calibration are two measurements; ask for one at a time")
    if request.plot and (request.ablate or request.calibration):
        raise UsageError("--plot draws recall, not what --ablate or --calibration find; leave it out")
    if len(request.modes) > 1 and (request.ablate or request.calibration):
        raise UsageError("one --mode at a time with --ablate and --calibration")
    if request.sample < 0:
        raise UsageError(f"--sample must be at least 1, not {request.sample}")


def counted(cases: Sequence[Case]) -> int:
    return sum(len(case.questions) for case in cases)


def figures_of(rows: Sequence[Judged]) -> dict[str, Any]:
    """Per set, its figures and those of its categories; and every question, to compare runs by."""
    return {
        "sets": {
            name: {
                **asdict(of_set(part)),
                "categories": {group: asdict(summary(each)) for group, each in by_category(part).items()},
            }
            for name, part in by_set(rows).items()
        },
        "questions": [asdict(row) for row in rows],
    }
