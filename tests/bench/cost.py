"""What tars costs: CPU seconds, latency, memory and disk, each beside the bar it has to stay under.

    python tests/bench/cost.py [--notes 10000] [--small 1000] [--baseline FILE] [--command tars] [--json OUT]

Every run has a TARS_HOME of its own and no other setting of tars. CPU seconds are user and system time of the
child process and its children. Questions go in turn to tars and to the baseline (FTS5 alone), in the same
minutes on the same machine: on a machine that others use too, only the ratio of the two says something. The
exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from notes import questions, write_notes

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "memory"
BASELINE = ROOT.parent / "shared" / "bench" / "baseline_fts.py"
WARM_UP = 20
REPEATED = 20  # questions that are asked again, several times
HEAVY = ("anthropic", "ollama", "prompt_toolkit")
LIMIT = "10"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `bar` is the most it may be, None if it is only for information."""

    name: str
    value: float | None
    unit: str = ""
    bar: float | None = None
    remark: str = ""

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.value is not None and self.value > self.bar


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of notes and the home that holds its index."""

    notes: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        own = ("TARS_", "ANTHROPIC_", "OLLAMA_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return kept | {"TARS_HOME": str(self.home), "TARS_MEMORY_DIR": str(self.notes)}


def place(folder: Path, notes: Path | None = None) -> Place:
    made = Place(notes=notes or folder / "notes", home=folder / "home")
    made.home.mkdir(parents=True, exist_ok=True)
    return made


def cpu_seconds(command: Sequence[str], where: Place) -> float:
    """Run to the end; a failure ends the whole measurement, with what the command said."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, env=where.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            last = said.read().decode(errors="replace")[-2_000:]
            raise SystemExit(f"{shlex.join(command)} ended with status {process.returncode}\n{last}")
    return usage.ru_utime + usage.ru_stime


def best(times: int, run: Callable[[], float]) -> float:
    """The least of several runs: the one that was disturbed least."""
    return min(run() for _ in range(times))


def cold_start(command: list[str], folder: Path) -> list[Figure]:
    where = place(folder, SAMPLE)
    # The first run builds the index and lets Python write its bytecode; neither belongs to a start.
    cpu_seconds([*command, "search", "boiler"], where)
    shown = best(5, lambda: cpu_seconds([*command, "--help"], where))
    searched = best(5, lambda: cpu_seconds([*command, "search", "boiler"], where))
    return [
        Figure("--help", shown, "CPU-s", 0.15),
        Figure("search boiler, sample memory", searched, "CPU-s", 0.4),
        *(heavy_imports(arguments, where) for arguments in (["--help"], ["search", "boiler"])),
    ]


def heavy_imports(arguments: list[str], where: Place) -> Figure:
    name = f"heavy imports of {' '.join(arguments)}"
    command = [sys.executable, "-X", "importtime", "-m", "tars", *arguments]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=where.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    if "tars" not in modules:
        return Figure(name, None, "modules", 0, "skipped: this Python has no tars")
    found = sorted(modules.intersection(HEAVY))
    return Figure(name, len(found), "modules", 0, ", ".join(found))


def indexing(command: list[str], folder: Path, counts: tuple[int, int]) -> tuple[list[Figure], Place]:
    """Full runs on a small and on the large folder, then runs where nothing or one note changed."""
    small, large = (place(folder / str(count)) for count in counts)
    size = 0
    for where, count in zip((small, large), counts, strict=True):
        say(f"writing {count} notes")
        size = write_notes(where.notes, count)
    say("indexing")
    first, second = (cpu_seconds([*command, "index"], where) for where in (small, large))
    figures = [
        Figure(f"index {counts[0]} notes", first, "CPU-s"),
        Figure(f"index {counts[1]} notes", second, "CPU-s", 30),
        Figure(f"index {counts[1]} over {counts[0]}", second / first, "×", 12),
        Figure("write-ahead log after index", wal_bytes(large.home), "bytes", 0),
        Figure("index size over notes size", folder_bytes(large.home) / size, "×", 6),
    ]
    say("indexing again")
    unchanged = best(3, lambda: cpu_seconds([*command, "index"], large))
    changed = best(3, lambda: change_and_index(command, large))
    figures += [
        Figure("index, nothing changed", unchanged, "CPU-s", 0.4),
        Figure("index, one note changed", changed, "CPU-s", 0.6),
    ]
    return figures, large


def change_and_index(command: list[str], where: Place) -> float:
    note = min(where.notes.rglob("*.md"))
    with note.open("a", encoding="utf-8") as file:
        file.write(f"\nThe boiler was looked at again, which makes {time.monotonic_ns()}.\n")
    return cpu_seconds([*command, "index"], where)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def wal_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*-wal"))


class Batch:
    """A `search -` process that stays: a question in, one line of JSON out."""

    def __init__(self, command: list[str], where: Place) -> None:
        self.command = [*command, "search", "-", "--json", "-n", LIMIT]
        self.process = subprocess.Popen(
            self.command, env=where.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.milliseconds: list[float] = []
        self.found = 0

    def ask(self, question: str) -> float:
        """The milliseconds that the process itself says it took; those until the answer was here are kept."""
        assert self.process.stdin and self.process.stdout
        started = time.perf_counter()
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.milliseconds.append((time.perf_counter() - started) * 1_000)
        if not line:
            raise SystemExit(f"{shlex.join(self.command)} ended at the question: {question}")
        answer = json.loads(line)
        self.found += bool(answer["results"])
        return float(answer.get("took_ms", 0.0))

    def percentile(self, share: float) -> float:
        return percentile(self.milliseconds[WARM_UP:], share)

    def anonymous_megabytes(self) -> float | None:
        """Memory of its own; pages of a mapped index are the system's to take back. None off Linux."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return None
        sizes = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon:")]
        return int(sizes[0]) / 1_024 if sizes else None

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def repeating(search: Batch, asked: Sequence[str]) -> list[Figure]:
    """The same questions again and again, as fast as the cache answers; the first round fills it."""
    rounds = [[search.ask(question) for question in asked] for _ in range(11)]
    took = [ms for each in rounds[1:] for ms in each]
    return [
        Figure("repeated query p50", percentile(took, 0.5), "ms", 1.0, "from the cache"),
        Figure("repeated query p95", percentile(took, 0.95), "ms"),
    ]


def querying(command: list[str], where: Place, baseline: Path, count: int) -> list[Figure]:
    searches = [Batch(command, where)]
    if baseline.is_file():
        floor = [sys.executable, str(baseline), "--chunk", "600"]
        apart = place(where.home.parent / "baseline", where.notes)
        say("indexing for the baseline")
        cpu_seconds([*floor, "index"], apart)
        searches.append(Batch(floor, apart))
    say(f"asking {count} questions")
    for number, question in enumerate(questions(count)):
        # Who is first finds colder caches, so they take turns at that too.
        for search in searches[:: -1 if number % 2 else 1]:
            search.ask(question)
    figures = latency(*searches) + repeating(searches[0], questions(count)[-REPEATED:])
    memory = searches[0].anonymous_megabytes()
    figures.append(Figure("batch search, RssAnon", memory, "MB", 200, "" if memory else "skipped: no /proc"))
    for search in searches:
        search.close()
    return figures


def latency(search: Batch, floor: Batch | None = None) -> list[Figure]:
    answered = f"{search.found} of {len(search.milliseconds)} questions found something"
    figures = [
        Figure("query p50", search.percentile(0.5), "ms", remark=answered),
        Figure("query p95", search.percentile(0.95), "ms"),
    ]
    for share, bar in ((0.5, 1.5), (0.95, 2.0)):
        name = f"query p{share * 100:.0f} over baseline"
        if floor is None:
            figures.append(Figure(name, None, "×", bar, "skipped: the baseline is not there"))
            continue
        least = floor.percentile(share)
        figures.append(Figure(name, search.percentile(share) / least, "×", bar, f"baseline {least:.1f} ms"))
    return figures


def table(figures: list[Figure]) -> str:
    rows = [("figure", "value", "bar", "", "")]
    for figure in figures:
        value = "-" if figure.value is None else f"{figure.value:.3g} {figure.unit}"
        bar = "" if figure.bar is None else f"≤ {figure.bar:g}"
        rows.append((figure.name, value, bar, verdict(figure), figure.remark))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def verdict(figure: Figure) -> str:
    if figure.bar is None or figure.value is None:
        return ""
    return "MISSED" if figure.missed else "ok"


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what tars costs and compare it with its bars.")
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--command", default="tars", help="how tars is started")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures there too")
    args = parser.parse_args()
    if args.questions <= WARM_UP:
        parser.error(f"--questions must be more than the {WARM_UP} that warm up")
    return args


def main() -> int:
    args = arguments()
    command = shlex.split(args.command)
    if not shutil.which(command[0]):
        raise SystemExit(f"no command {command[0]}; install tars, or say how to start it with --command")
    with tempfile.TemporaryDirectory(prefix="tars-cost-") as name:
        folder = Path(name)
        say("starting cold")
        figures = cold_start(command, folder / "sample")
        indexed, large = indexing(command, folder, (args.small, args.notes))
        figures += indexed + querying(command, large, args.baseline, args.questions)
    print(table(figures))
    if args.json:
        report = {"python": platform.python_version(), "machine": platform.machine(), "command": args.command}
        rows = [asdict(figure) | {"missed": figure.missed} for figure in figures]
        args.json.write_text(json.dumps(report | {"figures": rows}, indent=2) + "\n", encoding="utf-8")
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
