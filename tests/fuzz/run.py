"""Fuzz until nothing new is found: `python tests/fuzz/run.py [TARGET …] --quiet-minutes 10`.

Each target in turn gets a slice of time in a process of its own, guided by coverage (atheris, `pip install atheris`);
without atheris, hypothesis draws at random. A finding is shown with the value that broke it and stops the run: put
the value into tests/test_fuzz_cases.py, put right what is wrong, and run again. What was learnt about the paths
through the code is kept in --corpus, a folder outside of the tree.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

MAX_BYTES = 4_096  # of what hypothesis makes a value from
VALUE_SECONDS = 20  # for one value; then it counts as a hang


def main() -> int:
    options = parsed()
    if options.one:
        return fuzz_one(options.one, options.seconds, options.corpus)
    from fuzz.targets import BY_NAME

    names = options.targets or list(BY_NAME)
    done: Counter[str] = Counter()
    started = time.monotonic()
    while time.monotonic() - started < 60 * options.quiet_minutes:
        for name in names:
            tried = in_own_process(name, options.seconds, options.corpus)
            if tried is None:
                print(f"{name}: found something after {(time.monotonic() - started) / 60:.1f} quiet minutes")
                return 1
            done[name] += tried
            print(f"{name}: {done[name]:,} values, nothing found", flush=True)
    print(f"{(time.monotonic() - started) / 60:.1f} minutes without a finding: {dict(done)}")
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--quiet-minutes", type=float, default=10)
    parser.add_argument("--seconds", type=int, default=60, help="per target and turn")
    parser.add_argument("--corpus", type=Path, default=Path(tempfile.gettempdir()) / "tars-fuzz")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_own_process(name: str, seconds: int, corpus: Path) -> int | None:
    """How many values were tried; None if one of them broke something."""
    command = [sys.executable, __file__, "--one", name, "--seconds", str(seconds), "--corpus", str(corpus)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    counted = re.findall(r"Done (\d+) ", run.stderr)
    if run.returncode or not counted:
        print(run.stdout[-6_000:], run.stderr[-6_000:])
        return None
    return int(counted[-1])


def fuzz_one(name: str, seconds: int, corpus: Path) -> int:
    if importlib.util.find_spec("atheris"):
        guided(name, seconds, corpus / name)
    return at_random(name, seconds)


def guided(name: str, seconds: int, corpus: Path) -> None:
    """By coverage; the process ends here."""
    import atheris

    with atheris.instrument_imports(include=["tars"]):
        from fuzz.targets import BY_NAME
    from hypothesis import given, settings

    target = BY_NAME[name]

    @settings(deadline=None, database=None)
    @given(target.values)
    def test(value: object) -> None:
        try:
            target.holds(value)
        except BaseException:
            print(f"{name} does not hold for:\n{value!r}", flush=True)
            raise

    corpus.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", f"-timeout={VALUE_SECONDS}", "-rss_limit_mb=2000"]
    places = [f"-artifact_prefix={corpus.parent}/found-{name}-", str(corpus)]
    atheris.Setup([sys.argv[0], "-len_control=0", *limits, *places], test.hypothesis.fuzz_one_input)
    atheris.Fuzz()


def at_random(name: str, seconds: int) -> int:
    from fuzz.targets import BY_NAME
    from hypothesis import HealthCheck, given, settings

    target = BY_NAME[name]
    tried, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:

        @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(target.values)
        def test(value: object) -> None:
            target.holds(value)

        test()
        tried += 100
    print(f"Done {tried} values", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
