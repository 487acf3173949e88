"""Figures as text: tables for a terminal or for markdown, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tars.bench.ablation import JUDGED_AT, Row, Worth
from tars.bench.calibration import Fit, Reliability
from tars.bench.figures import Difference, Figures, Judged, by_category, by_set, mean, of_set, summary
from tars.bench.judge import BUDGETS, CUTS

Cells = Sequence[str]

CURVE_BUDGETS = tuple(range(500, 12_001, 500))
WIDTH, HEIGHT = 60, 16
SYMBOLS = "ox+*#%@&"


def table(head: Cells, rows: Sequence[Cells], *, markdown: bool = False) -> str:
    """Words to the left, figures to the right."""
    right = [all(is_figure(row[at]) for row in rows) for at in range(len(head))]
    if markdown:
        lines = [head, ["---:" if each else "---" for each in right], *rows]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    widths = [max(len(line[at]) for line in [head, *rows]) for at in range(len(head))]

    def padded(at: int, cell: str) -> str:
        return cell.rjust(widths[at]) if right[at] else cell.ljust(widths[at])

    return "\n".join("  ".join(padded(at, cell) for at, cell in enumerate(line)).rstrip() for line in [head, *rows])


def is_figure(cell: str) -> bool:
    return not cell.strip("+-−") or cell.lstrip("+-[")[:1].isdigit()


# ---- quality and latency


def quality(runs: Mapping[str, Sequence[Judged]], *, categories: bool = False, markdown: bool = False) -> str:
    """A row per set, and per way to ask if there are several; under it its categories."""
    head = [
        "set",
        "n",
        *(kilo(budget) for budget in BUDGETS),
        *(f"R@{cut}" for cut in CUTS),
        "MRR",
        "p50 ms",
        "p95 ms",
        "AUC",
    ]
    rows = []
    for way, judged in runs.items():
        prefix = f"{way}: " if len(runs) > 1 else ""
        sets = {name: of_set(part) for name, part in by_set(judged).items()}
        for name, part in by_set(judged).items():
            rows.append(quality_row(prefix + name, sets[name]))
            groups = by_category(part) if categories else {}
            rows += [quality_row(f"  {group}", summary(each)) for group, each in groups.items()]
        if len(sets) > 1:
            rows.append(quality_row(f"{prefix}mean of sets", macro(sets)))
    return table(head, rows, markdown=markdown)


def macro(sets: Mapping[str, Figures]) -> Figures:
    parts = [part for part in sets.values() if part.questions]
    known = [part.auc for part in parts if part.auc is not None]
    return Figures(
        questions=sum(part.questions for part in parts),
        within={budget: mean(part.within[budget] for part in parts) for budget in BUDGETS},
        at={cut: mean(part.at[cut] for part in parts) for cut in CUTS},
        mrr=mean(part.mrr for part in parts),
        p50_ms=mean(part.p50_ms for part in parts),
        p95_ms=mean(part.p95_ms for part in parts),
        auc=mean(known) if known else None,
    )


def quality_row(name: str, part: Figures) -> list[str]:
    shares = [*(part.within[budget] for budget in BUDGETS), *(part.at[cut] for cut in CUTS), part.mrr]
    times = [f"{part.p50_ms:.1f}", f"{part.p95_ms:.1f}"]
    figures = [f"{value:.3f}" if part.questions else "-" for value in shares]
    return [name, str(part.questions), *figures, *times, "-" if part.auc is None else f"{part.auc:.3f}"]


def kilo(budget: int) -> str:
    return f"R<{budget // 1000}k"


# ---- what stages are worth


def ablation(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """A row per stage and set in a terminal; in markdown a row per stage and a column per set."""
    note = (
        f"With the stage minus without it. {kilo(JUDGED_AT)}: mean and 95 % interval of a paired bootstrap over the"
        " answerable questions; + clear gain, − clear loss."
    )
    shown = ablation_markdown(rows) if markdown else ablation_text(rows)
    failed = [f"{row.stage}: not measured, {row.failed}" for row in rows if row.failed]
    return "\n".join([shown, "", note, *failed])


def ablation_text(rows: Sequence[Row]) -> str:
    others = [budget for budget in BUDGETS if budget != JUDGED_AT]
    head = ["stage", "is", "set", kilo(JUDGED_AT), "95 % interval", "", *map(kilo, others), "p50 ms", "verdict"]
    lines = []
    for row in rows:
        for at, (name, worth) in enumerate(row.sets.items()):
            first = [row.stage, state(row)] if at == 0 else ["", ""]
            means = [f"{worth.means[budget]:+.3f}" for budget in others]
            change = worth.judged
            interval = f"[{change.low:+.3f}, {change.high:+.3f}]"
            verdict = row.verdict if at == 0 else ""
            lines.append(
                [*first, name, f"{change.mean:+.3f}", interval, mark(change), *means, f"{worth.p50_ms:+.1f}", verdict]
            )
    return table(head, lines)


def ablation_markdown(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.sets))
    head = ["stage", "is", *(f"{name} {kilo(JUDGED_AT)} (2k / 8k)" for name in names), "p50 ms", "verdict"]
    lines = []
    for row in rows:
        cells = [worth_cell(row.sets[name]) if name in row.sets else "-" for name in names]
        cost = f"{mean(worth.p50_ms for worth in row.sets.values()):+.1f}" if row.sets else "-"
        lines.append([f"`{row.stage}`", state(row), *cells, cost, row.verdict])
    return table(head, lines, markdown=True)


def worth_cell(worth: Worth) -> str:
    change = worth.judged
    around = " / ".join(f"{worth.means[budget]:+.3f}" for budget in BUDGETS if budget != JUDGED_AT)
    return f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]{mark(change)} ({around})"


def state(row: Row) -> str:
    return "on" if row.is_on else "off"


def mark(change: Difference) -> str:
    if not change.is_clear:
        return ""
    return "+" if change.mean > 0 else "−"


# ---- confidence


def calibration(tables: Mapping[str, Reliability], fits: Mapping[str, Fit], *, markdown: bool = False) -> str:
    head = ["set", "confidence", "passages", "predicted", "actual"]
    rows = []
    for name, found in tables.items():
        for at, each in enumerate(found.bins):
            label = name if at == 0 else ""
            span = f"{each.low:.1f} to {each.high:.1f}"
            rows.append([label, span, str(each.count), f"{each.predicted:.3f}", f"{each.actual:.3f}"])
        rows.append(["", "mean error", str(sum(each.count for each in found.bins)), "", f"{found.mean_error:.3f}"])
    parts = [table(head, rows, markdown=markdown), ""]
    if not fits:
        return "\n".join([*parts, "Two sets or more are needed to fit on the others and try on one."])
    names = list(next(iter(fits.values())).weights)
    lines = [
        [name, *(f"{fit.weights[key]:.2f}" for key in names), f"{fit.mean_error:.3f}"] for name, fit in fits.items()
    ]
    return "\n".join([*parts, table(["fitted without", *names, "mean error on it"], lines, markdown=markdown)])


# ---- curves


def curves_of(runs: Mapping[str, Sequence[Judged]]) -> dict[str, dict[int, float]]:
    """Recall by characters: a curve per set, or per way to ask (the mean of the sets) if there are several."""
    if len(runs) == 1:
        return {name: of_set(rows).within for rows in runs.values() for name, rows in by_set(rows).items()}
    curves = {}
    for way, rows in runs.items():
        sets = [of_set(part).within for part in by_set(rows).values()]
        curves[way] = {budget: mean(each[budget] for each in sets) for budget in sets[0]}
    return curves


def plot(curves: Mapping[str, Mapping[int, float]]) -> str:
    """Recall against characters; where curves meet, the later one is seen."""
    most = max(max(curve) for curve in curves.values())
    top = min(1.0, (int(max(max(curve.values()) for curve in curves.values()) * 10) + 1) / 10)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for symbol, curve in zip(SYMBOLS * len(curves), curves.values(), strict=False):
        for column in range(WIDTH):
            value = between(curve, most * (column + 1) / WIDTH)
            grid[round((1 - value / top) * (HEIGHT - 1))][column] = symbol
    lines = []
    for at, line in enumerate(grid):
        label = f"{top * (1 - at / (HEIGHT - 1)):.2f}" if at % 5 == 0 else ""
        lines.append(f"{label:>5} {'┤' if label else '│'}{''.join(line).rstrip()}")
    axis = "".join(f"{most * part // 4:>{WIDTH // 4},}" for part in range(1, 5))
    legend = "   ".join(f"{symbol} {name}" for symbol, name in zip(SYMBOLS * len(curves), curves, strict=False))
    return "\n".join([*lines, f"{'0':>5} └{'─' * WIDTH}", f"{'':7}{axis} characters", f"{'':7}{legend}"])


def between(curve: Mapping[int, float], at: float) -> float:
    """The curve's value at a number of characters, on a line from the origin through its points."""
    left, low = 0, 0.0
    for right, high in sorted(curve.items()):
        if at <= right:
            return low + (high - low) * (at - left) / (right - left)
        left, low = right, high
    return low
