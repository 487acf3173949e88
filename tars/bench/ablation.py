"""What each stage is worth: the same questions with it and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tars.bench.figures import Difference, Judged, bootstrap, by_set, mean, percentile
from tars.bench.judge import BUDGETS
from tars.bench.run import Run, Way
from tars.errors import UsageError
from tars.search.pipeline import name_of
from tars.search.settings import BY_NAME, NEEDED, configured

JUDGED_AT = 4_000  # characters
BASE = "as configured"


@dataclass(frozen=True, slots=True)
class Worth:
    """With a stage minus without it, on one set, whichever of the two is the setting."""

    judged: Difference
    means: dict[int, float]  # per budget
    p50_ms: float  # the median over questions: both were asked within the same moment, so what disturbs falls out


@dataclass(frozen=True, slots=True)
class Row:
    stage: str
    is_on: bool
    sets: dict[str, Worth]
    failed: str = ""

    @property
    def verdict(self) -> str:
        """By the rule for defaults: a clear gain on one set and a clear loss on none."""
        if self.failed:
            return "not measured"
        gains = any(worth.judged.low > 0 for worth in self.sets.values())
        losses = any(worth.judged.high < 0 for worth in self.sets.values())
        if gains:
            return "mixed" if losses else "pays"
        if losses:
            return "costs"
        same = all(
            worth.judged == Difference(0, 0, 0) and not any(worth.means.values()) for worth in self.sets.values()
        )
        return "no difference" if same else "not clear"


TOGETHER = "+"  # between the names of stages that mean something only with one another
INSEPARABLE = ("expand+expanded",)  # the second looks for what the first thinks of


def switchable(names: Sequence[str]) -> list[str]:
    """The stages to switch: those named (`a+b` for two at once), or all that a search can do without."""
    for name in TOGETHER.join(names).split(TOGETHER) if names else ():
        if name not in BY_NAME or name in NEEDED:
            known = ", ".join(stage for stage in BY_NAME if stage not in NEEDED)
            raise UsageError(f"no stage '{name}' to switch; there are: {known}")
    if names:
        return list(dict.fromkeys(names))
    group_of = {name: group for group in INSEPARABLE for name in group.split(TOGETHER)}
    return list(dict.fromkeys(group_of.get(name, name) for name in BY_NAME if name not in NEEDED))


def ways(table: Mapping[str, Any], stages: Sequence[str], mode: str) -> dict[str, Way]:
    """The pipeline of the settings first, then one for each stage, switched to what it is not."""
    return {
        BASE: Way(configured(table), mode),
        **{stage: Way(configured(switched(table, stage)), mode) for stage in stages},
    }


def switched(table: Mapping[str, Any], stages: str) -> dict[str, Any]:
    """The settings with these stages on if the first was off, and off if it was on."""
    names = stages.split(TOGETHER)
    on = [name for name in table.get("on", ()) if name not in names]
    off = [name for name in table.get("off", ()) if name not in names]
    (off if is_on(stages, table) else on).extend(names)
    return {**table, "on": on, "off": off}


def is_on(stages: str, table: Mapping[str, Any]) -> bool:
    return stages.split(TOGETHER)[0] in {name_of(stage) for stage in configured(table).stages()}


def worth_of_each(run: Run, table: Mapping[str, Any], stages: Sequence[str]) -> list[Row]:
    rows = []
    for stage in stages:
        on = is_on(stage, table)
        if stage in run.failed:
            rows.append(Row(stage, on, {}, run.failed[stage]))
            continue
        pair = run.rows[BASE], run.rows[stage]
        rows.append(Row(stage, on, compare(*(pair if on else pair[::-1]))))
    return rows


def compare(with_it: Sequence[Judged], without: Sequence[Judged]) -> dict[str, Worth]:
    """Per set, over the questions that can be answered."""
    others = by_set(without)
    return {name: worth(rows, others[name]) for name, rows in by_set(with_it).items()}


def worth(with_it: Sequence[Judged], without: Sequence[Judged]) -> Worth:
    other = {row.key: row for row in without}
    pairs = [(row, other[row.key]) for row in with_it if not row.adversarial]
    marks = [(a.marks.within, b.marks.within) for a, b in pairs if a.marks and b.marks]
    return Worth(
        judged=bootstrap([a[JUDGED_AT] - b[JUDGED_AT] for a, b in marks]),
        means={budget: mean(a[budget] - b[budget] for a, b in marks) for budget in BUDGETS},
        p50_ms=percentile([a.ms - b.ms for a, b in pairs], 0.5),
    )
