"""A disk that is full, fails or forbids, at every write in turn: what tars says, what is left, whether the next run heals.

    python tests/bench/faults.py [--every 1] [--only index,remember] [--tmpfs]

Each operation is first run once to count its calls that change something: open for writing, write, sync, truncate, rename,
unlink, mkdir, those of SQLite included. Then it is run again from the same beginning for each of them, and that call
fails: with ENOSPC (and so does every later one, as on a full disk), with EIO and with EACCES (once each). Afterwards no
note may have lost a byte, there must be no traceback, a run that failed says so in a line and ends with 1, one that
did not has done what it was asked, and the next run ends well and is searched like an index made anew. `--tmpfs` does
the same on a small file system that is really full (as root). Needs a C compiler. The exit status is 1 if anything was
wrong.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from accidents import Answers, Disk, Place, differences, disk_library  # noqa: E402
from notes import questions, write_notes  # noqa: E402
from servers import ScriptedAnthropic, reply, tool_use  # noqa: E402

from tars import sessions  # noqa: E402

NOTES = 12
FACT = "the spare key lies under the third flower pot"
OLD = "the boiler was serviced by Anna in March"
ASKED = [*questions(1), "spare key", "boiler"]
FAULTS = ((errno.ENOSPC, True), (errno.EIO, False), (errno.EACCES, False))
FULL_SIZE = 4_000_000  # bytes of the small file system

Prepare = Callable[[Place], None]


def changed_notes(place: Place) -> None:
    for path in sorted(place.notes.rglob("*.md"))[:3]:
        path.write_bytes(path.read_bytes() + b"\nThe spare boiler is in the shed.\n")
    sorted(place.notes.rglob("*.md"))[-1].unlink()


def other_setting(place: Place) -> None:
    place.cut_at(500)


def nothing(place: Place) -> None:
    """The operation brings its own change."""


def no_home(place: Place) -> None:
    shutil.rmtree(place.home)


@dataclass(frozen=True)
class Operation:
    name: str
    arguments: tuple[str, ...]
    prepare: Prepare = nothing
    has: bytes = b""  # what Memory.md has in it if it was done
    lacks: bytes = b""  # and what not
    asks_model: bool = False  # one that searches and remembers

    def may_become(self, memory: bytes) -> bool:
        """Whether Memory.md may say this afterwards, if it does not say what it said."""
        return FACT.encode() in memory if self.asks_model else self.is_done(memory)

    def is_done(self, memory: bytes) -> bool:
        return self.has in memory and not (self.lacks and self.lacks in memory)


OPERATIONS = (
    Operation("first index", ("index",), no_home),
    Operation("index", ("index",), changed_notes),
    Operation("index --full", ("index", "--full")),
    Operation("another setting", ("index",), other_setting),
    Operation("remember", ("remember", FACT), has=FACT.encode()),
    Operation("forget", ("forget", OLD), lacks=OLD.encode()),
    Operation("one-shot", ("--model", "recall", "when was the boiler serviced?")),
    Operation("search", ("search", "boiler"), changed_notes),
    Operation("going on", ("--continue", "--model", "recall", "and by whom?")),
    Operation(
        "conversation", ("--model", "claude:claude-sonnet-5-5", "when was the boiler serviced?"), asks_model=True
    ),
)


@dataclass
class Tally:
    calls: int = 0
    injected: int = 0
    failed: int = 0
    wrong: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)


@dataclass
class Trial:
    """One operation from one beginning, again and again."""

    place: Place
    start: Path  # a copy of the place as it was at the beginning
    operation: Operation
    tally: Tally = field(default_factory=Tally)
    known: dict[tuple[tuple[str, bytes], ...], Answers] = field(default_factory=dict)

    def again(self) -> Place:
        """The place as it was at the beginning: an index belongs to the path of its notes, so at the same path."""
        shutil.rmtree(self.place.folder)
        shutil.copytree(self.start, self.place.folder)
        self.operation.prepare(self.place)
        return self.place

    def run(self, every: int, *, one_each: bool = False) -> Tally:
        """Every call or every so many; each fails in all ways, or in one way after the other."""
        self.tally.calls = self.count()
        first = 1 + len(self.operation.name) % every
        for at in range(first, self.tally.calls + 1, every):
            ways = [FAULTS[self.tally.injected % len(FAULTS)]] if one_each else FAULTS
            for number, lasts in ways:
                self.inject(at, number, lasts)
        return self.tally

    def count(self) -> int:
        """How many calls of a run change something."""
        with tempfile.NamedTemporaryFile(prefix="tars-diary-") as diary:
            self.operate(self.again(), Disk(log=Path(diary.name)))
            return len(Path(diary.name).read_bytes().splitlines())

    def operate(self, place: Place, disk: Disk | None = None) -> subprocess.CompletedProcess[str]:
        if not self.operation.asks_model:
            return place.tars(*self.operation.arguments, disk=disk)
        script = [
            tool_use("memory_search", {"query": "boiler"}),
            tool_use("memory_remember", {"fact": FACT}),
            reply("In March, by Anna (Memory.md:5)."),
        ]
        with ScriptedAnthropic(script) as server:
            model = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.url}
            return replace(place, settings=model).tars(*self.operation.arguments, disk=disk)

    def inject(self, at: int, number: int, lasts: bool) -> None:
        place = self.again()
        before = place.contents()
        run = self.operate(place, Disk(at=at, errno=number, lasts=lasts))
        self.tally.injected += 1
        self.tally.failed += run.returncode == 1
        what = f"{self.operation.name}, call {at}, {errno.errorcode[number]}"
        self.expect(what, self.judged(run, place, before))
        self.expect(what, self.healed(place))

    def judged(self, run: subprocess.CompletedProcess[str], place: Place, before: dict[str, bytes]) -> Iterator[str]:
        """What is wrong with how it ended."""
        there = place.contents()
        changed = {path for path in before.keys() | there.keys() if before.get(path) != there.get(path)}
        memory = there.get("Memory.md", b"")
        if changed - {"Memory.md"} or (changed and not self.operation.may_become(memory)):
            yield f"notes have changed: {sorted(changed)}"
        if "Traceback" in run.stderr or "Error" in run.stderr.split("tars: ")[0]:
            yield f"a traceback: {run.stderr[-1500:]}"
        elif run.returncode == 1:
            last = run.stderr.strip().splitlines()[-1:]
            self.tally.said.update(last)
            if not last or not last[0].startswith("tars: ") or "not an error" in last[0]:
                yield f"failed without saying why: {run.stderr[-300:]!r}"
        elif run.returncode not in (0, 3):
            yield f"ended with {run.returncode}: {run.stderr[-300:]}"
        elif not self.operation.is_done(memory):
            yield "ended well, but nothing was done"

    def healed(self, place: Place) -> Iterator[str]:
        """What is wrong after a run on a good disk."""
        run = place.tars("index")
        if run.returncode != 0:
            yield f"the next run ended with {run.returncode}: {run.stderr[-500:]}"
            return
        yield from place.problems()
        key = tuple(place.contents().items())
        if key not in self.known:
            self.known[key] = place.fresh_answers(ASKED)
        yield from differences(place.answers(ASKED), self.known[key])
        if not sessions.list_sessions(place.sessions) and self.operation.prepare is not no_home:
            yield "a conversation is gone"

    def expect(self, what: str, problems: Iterator[str]) -> None:
        for problem in problems:
            self.tally.wrong.append(f"{what}: {problem}")
            print(self.tally.wrong[-1], file=sys.stderr, flush=True)


def beginning(folder: Path) -> Place:
    """A small memory that has been indexed and talked to."""
    place = Place(folder)
    place.notes.mkdir(parents=True)
    write_notes(place.notes, NOTES)
    (place.notes / "Memory.md").write_text(f"# Memory\n\n## Facts\n\n- {OLD}\n- the car is red\n")
    for path in place.notes.rglob("*.md"):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # a file of this very moment would be read twice
    place.tars("index")
    place.tars("--model", "recall", "what colour is the car?")
    return place


def copied(place: Place, to: Path) -> Path:
    shutil.copytree(place.folder, to)
    return to


# ---- a disk that is really full


def full_disk(work: Path, fill: int) -> list[str]:
    """Everything on a small file system with so many bytes left; what is wrong afterwards."""
    mount = work / "small"
    mount.mkdir()
    options = ["-o", f"size={FULL_SIZE}", "tars-small", str(mount)]
    subprocess.run(["mount", "-t", "tmpfs", *options], check=True, capture_output=True)
    try:
        place = beginning(mount / "place")
        return [problem for operation in OPERATIONS[1:] for problem in squeezed(place, operation, mount, fill)]
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def squeezed(place: Place, operation: Operation, mount: Path, left: int) -> Iterator[str]:
    operation.prepare(place)
    before = place.contents()
    ballast = mount / "ballast"
    status = os.statvfs(mount)
    ballast.write_bytes(b"\0" * max(status.f_bavail * status.f_frsize - left, 0))
    trial = Trial(place, mount, operation)
    run = trial.operate(place)
    yield from (f"{operation.name}, {left} bytes left: {problem}" for problem in trial.judged(run, place, before))
    ballast.unlink()
    yield from (f"{operation.name}, after {left} bytes: {problem}" for problem in trial.healed(place))


def main() -> int:
    parser = argparse.ArgumentParser(description="Let every write of tars fail in turn.")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth call")
    parser.add_argument("--only", default="", metavar="NAMES", help="only these operations, separated by commas")
    parser.add_argument("--tmpfs", action="store_true", help="also on a small file system that is full (as root)")
    args = parser.parse_args()
    if disk_library() is None:
        print("this needs Linux and a C compiler", file=sys.stderr)
        return 1
    wanted = [op for op in OPERATIONS if not args.only or op.name in args.only.split(",")]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tars-faults-") as name:
        place = beginning(Path(name) / "place")
        start = copied(place, Path(name) / "start")
        for operation in wanted:
            tally = Trial(place, start, operation).run(args.every)
            wrong += len(tally.wrong)
            print(f"{operation.name}: {tally.calls} calls, {tally.injected} faults, {tally.failed} ended with an error,"
                  f" {len(tally.wrong)} wrong", flush=True)  # fmt: skip
            for line, count in tally.said.most_common():
                print(f"    {count} × {line}")
        if args.tmpfs:
            found = [
                problem
                for left in (0, 20_000, 200_000)
                for problem in full_disk(Path(tempfile.mkdtemp(dir=name)), left)
            ]
            print("\n".join(found))
            print(f"full file system: {len(found)} wrong")
            wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
