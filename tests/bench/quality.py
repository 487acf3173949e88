"""Recall of every search mode and of plain FTS5 on folders of notes with questions, in one table.

    python tests/bench/quality.py [DIR…] [--kit ../shared/bench] [--sample N] [--modes hybrid fts vec]

The kit has `score.py` (the judge) and `baseline_fts.py` (the floor); DIR is its `dev` unless given. Ends with 1 if
hybrid search loses to one of its own lists, or to the floor, by more than a tie.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODES = ("hybrid", "fts", "vec")
BUDGETS = ("b2000", "b4000", "b8000")
TIE = 0.005
KIT = Path(__file__).resolve().parents[3] / "shared" / "bench"

Table = dict[str, dict[str, dict[str, float]]]  # program -> set -> figure


def main() -> int:
    if sys.argv[1:2] == ["--as"]:
        return run_as(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--kit", type=Path, default=KIT)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--modes", nargs="*", default=MODES)
    args = parser.parse_args()
    if not (args.kit / "score.py").exists():
        print(f"skipped: there is no measuring kit in {args.kit}")
        return 0
    folders = args.folders or [args.kit / "dev"]
    programs = {mode: f"{sys.executable} {Path(__file__).resolve()} --as {mode}" for mode in args.modes}
    programs["plain FTS5"] = f"{sys.executable} {args.kit / 'baseline_fts.py'} --chunk 600"
    table = {name: score(args.kit, folders, command, args.sample) for name, command in programs.items()}
    show(table)
    return verdict(table)


def run_as(mode: str, argv: list[str]) -> int:
    """tars with a search mode, in the place of a program that knows only one."""
    more = ["--mode", mode] if argv[:1] == ["search"] else []
    return subprocess.run([sys.executable, "-m", "tars", *argv, *more], check=False).returncode


def score(kit: Path, folders: list[Path], command: str, sample: int | None) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        line = [sys.executable, str(kit / "score.py"), *map(str, folders), "--command", command, "--json", str(out)]
        subprocess.run(
            line + (["--sample", str(sample)] if sample else []),
            check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        return {name: figures["overall"] for name, figures in json.loads(out.read_text())["sets"].items()}


def show(table: Table) -> None:
    print(f"{'':12} {'set':12} {'n':>5}  R<2k   R<4k   R<8k   p50 ms")
    for program, sets in table.items():
        for name, figures in sets.items():
            recalls = "  ".join(f"{figures[budget]:.3f}" for budget in BUDGETS)
            print(f"{program:12} {name:12} {figures['n']:>5}  {recalls}  {figures['p50_ms']:.1f}")


def verdict(table: Table) -> int:
    """Say where hybrid search loses to one list or to the floor."""
    lost = [
        f"{name}: hybrid {figures[budget]:.3f} < {other} {table[other][name][budget]:.3f} ({budget})"
        for name, figures in table.get("hybrid", {}).items()
        for other in table.keys() - {"hybrid"}
        for budget in BUDGETS
        if figures[budget] < table[other][name][budget] - TIE
    ]
    print("\n".join(lost) or "hybrid search loses nowhere")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
