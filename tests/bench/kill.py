"""Kill -9 at any moment: what is left, and whether the next run puts it right.

    python tests/bench/kill.py [--kills 200] [--notes 300] [--seed 0]

A memory lives through edits, runs of the indexer, rebuilds, changes of a setting, facts remembered and forgotten, and
conversations, and each of these is killed: one half at a random moment of its life, the other half in the middle of a
random one of its writes, of which only a part reaches the file (that half needs a C compiler). After every kill: no note
has lost a byte, a note that was being written is the old or the new one, the rowids of the three tables agree, the next
run ends well and waits for nobody, every conversation can be read. After every tenth, search is compared with an
index made anew. The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from accidents import Disk, Place, differences, disk_library  # noqa: E402
from notes import questions, write_notes  # noqa: E402
from servers import Request, ScriptedAnthropic, Step, reply, tool_use  # noqa: E402

from tars import notes, sessions  # noqa: E402

EVERY = 10  # kills between two comparisons with a fresh build
QUESTIONS = 30
ASKED = "which of these did we talk about in March?"


@dataclass
class Life:
    """A memory, what its notes must say, and what went wrong with it so far."""

    place: Place
    rng: Random
    asked: list[str]
    expected: dict[str, bytes] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)  # what a killed conversation must still know
    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    lasted: dict[str, float] = field(default_factory=dict)  # seconds of a run that was not killed
    changed: dict[str, int] = field(default_factory=dict)  # its calls that change something
    facts: int = 0
    chars: int = 600  # of a passage
    aimed: float = 0.5  # share of the kills that are aimed at a write

    # ---- what is done and killed

    def index(self) -> list[str]:
        self.edit()
        return ["index"]

    def rebuild(self) -> list[str]:
        return ["index", "--full"]

    def setting(self) -> list[str]:
        """Another length of passages is another index."""
        self.chars = 1_100 - self.chars
        self.place.cut_at(self.chars)
        return ["index"]

    def remember(self) -> list[str]:
        self.facts += 1
        return ["remember", f"fact number {self.facts} is that jar {self.rng.randrange(10**9)} holds buttons"]

    def forget(self) -> list[str]:
        lines = self.expected["Memory.md"].decode().splitlines()
        return ["forget", self.rng.choice([line[2:] for line in lines if line.startswith("- fact")])]

    def quote(self) -> list[str]:
        return ["--model", "recall", self.rng.choice(self.asked)]

    def converse(self) -> list[str]:
        return ["--model", "claude:claude-sonnet-5-5", ASKED]

    def edit(self) -> None:
        """Some notes are changed, one is new, one goes, one is renamed."""
        paths = sorted(path for path in self.expected if path != "Memory.md")
        for path in self.rng.sample(paths, 12):
            self.write(path, self.expected[path] + f"\nSeen again: {self.rng.randrange(10**9)} buttons.\n".encode())
        gone, renamed = self.rng.sample(paths, 2)
        self.write(f"new-{self.rng.randrange(10**9)}.md", self.expected[gone] + b"\nAnd more of it.\n")
        (self.place.notes / gone).unlink()
        del self.expected[gone]
        other = f"renamed-{self.rng.randrange(10**9)}.md"
        (self.place.notes / renamed).rename(self.place.notes / other)
        self.expected[other] = self.expected.pop(renamed)

    def write(self, path: str, content: bytes) -> None:
        (self.place.notes / path).write_bytes(content)
        self.expected[path] = content

    # ---- killing

    def measure(self, name: str, arguments: list[str]) -> None:
        """One run that is left alone, to know how long it takes and how often it writes."""
        start = time.perf_counter()
        self.place.start(*arguments).communicate(timeout=120)
        self.lasted[name] = time.perf_counter() - start
        self.expected = self.place.contents()

    def kill(self, name: str, arguments: list[str]) -> bool:
        """Start it and kill it; False if it was over before."""
        if self.rng.random() < self.aimed:
            status = self.place.tars(*arguments, disk=Disk(at=self.rng.randint(1, self.changed[name]))).returncode
        else:
            process = self.place.start(*arguments)
            time.sleep(self.rng.uniform(0.2, 1.0) * self.lasted[name])
            process.kill()
            process.communicate(timeout=120)
            status = process.returncode
        killed = status == -signal.SIGKILL
        self.kills[name] += killed
        return killed

    # ---- looking at what is left

    def check(self, name: str, possible: dict[str, bytes]) -> None:
        self.check_notes(name, possible)
        self.expect(name, "rowids", self.place.problems())
        run = self.place.tars("index")
        self.expect(name, "next run", [] if run.returncode == 0 else [f"status {run.returncode}: {run.stderr[-500:]}"])
        self.expect(name, "lock", [run.stderr] if "another process" in run.stderr else [])
        self.expect(name, "rowids after the next run", self.place.problems())
        self.check_sessions(name)

    def check_notes(self, name: str, possible: dict[str, bytes]) -> None:
        """Every note is as it was, or as it was to become."""
        there = self.place.contents()
        for path in sorted(self.expected.keys() | there.keys()):
            if there.get(path) not in (self.expected.get(path), possible.get(path, self.expected.get(path))):
                self.expect(name, "notes", [f"{path} is neither the old nor the new one"])
        self.expected = there

    def check_sessions(self, name: str) -> None:
        try:
            known = sessions.list_sessions(self.place.sessions)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
            self.expect(name, "conversations", [repr(error)])
            return
        lost = self.said - {session.first for session in known}
        self.expect(name, "conversations", [f"'{text}' was said and is gone" for text in lost])

    def compare(self, name: str) -> None:
        """The whole of it: SQLite's checks, search against a fresh build, going on with a conversation."""
        self.expect(name, "index", self.place.problems(thorough=True))
        found = differences(self.place.answers(self.asked), self.place.fresh_answers(self.asked))
        self.expect(name, "search", found)
        if any(self.place.sessions.glob("*.jsonl")):
            listed = self.place.tars("sessions", "--json")
            going_on = self.place.tars("--continue", "--model", "recall", "and then?")
            for run in (listed, going_on):
                good = run.returncode in (0, 3) and "Traceback" not in run.stderr
                self.expect(name, "going on", [] if good else [f"status {run.returncode}: {run.stderr[-500:]}"])

    def expect(self, name: str, what: str, problems: list[str]) -> None:
        for problem in problems:
            self.wrong.append(f"kill {self.kills.total()} ({name}), {what}: {problem}")
            print(self.wrong[-1], file=sys.stderr, flush=True)


def after_writing(life: Life, arguments: list[str]) -> dict[str, bytes]:
    """What Memory.md becomes if the write is made."""
    with tempfile.TemporaryDirectory(prefix="tars-after-") as name:
        folder = Path(name)
        for path in ("Memory.md", "Procedural.md"):
            if path in life.expected:
                (folder / path).write_bytes(life.expected[path])
        write = notes.remember if arguments[0] == "remember" else notes.forget
        write(folder, arguments[1], lock=folder / "lock")
        return {"Memory.md": (folder / "Memory.md").read_bytes()}


@contextmanager
def talking(life: Life) -> Iterator[None]:
    """A model that takes its time, and remembers something in the middle of its answer."""
    fact = f"fact number {life.rng.randrange(10**6)} was told by a model"
    life.expected = life.place.contents()

    def first(request: Request) -> Step:
        life.said.add(ASKED)  # it has left for the model, so it must be in the transcript
        return tool_use("memory_remember", {"fact": fact}, "Let ", "me ", "note ", "that. ", delay=0.02)

    with ScriptedAnthropic([first, reply(*["It was March. "] * 20, delay=0.02)]) as server:
        life.place.settings.update({"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.url})  # type: ignore[attr-defined]
        yield


def live(life: Life, kills: int) -> None:
    ways: list[Callable[[], list[str]]] = [
        life.index, life.index, life.rebuild, life.setting, life.remember, life.forget, life.quote, life.converse,
    ]  # fmt: skip
    for way in dict.fromkeys(ways):
        if life.aimed < 1:
            with talking(life):
                life.measure(way.__name__, way())
        if life.aimed > 0:
            with talking(life):
                life.changed[way.__name__] = life.place.changes(*way())
        life.expected = life.place.contents()
    while life.kills.total() < kills:
        way = life.rng.choice(ways)
        with talking(life):
            arguments = way()
            writes = arguments[0] in ("remember", "forget")
            possible = after_writing(life, arguments) if writes else {}
            killed = life.kill(way.__name__, arguments)
            if way == life.converse:  # what the model writes is checked by its line
                possible = {"Memory.md": (life.place.notes / "Memory.md").read_bytes()}
                check_added(life, possible["Memory.md"])
            if killed:
                life.check(way.__name__, possible)
                if life.kills.total() % EVERY == 0 or life.kills.total() == kills:
                    life.compare(way.__name__)
            else:
                life.expected = life.place.contents()
    check_tidy(life)


def check_added(life: Life, content: bytes) -> None:
    """The model's fact is in the note, as one whole line more, or it is not."""
    before, after = life.expected["Memory.md"].splitlines(), content.splitlines()
    added = [line for line in after if line not in before]
    rest = [line for line in after if line in before]
    good = rest == before and all(line.startswith(b"- fact") and line.endswith(b"told by a model") for line in added)
    life.expect("converse", "notes", [] if good else ["Memory.md is neither the old nor the new one"])


def check_tidy(life: Life) -> None:
    """What killed writes left behind goes with a later one."""
    for path in life.place.leftovers():
        os.utime(path, (0, 0))
    life.place.tars("remember", "the end of it")
    life.expect("remember", "leftovers", [str(path) for path in life.place.leftovers()])


def begin(folder: Path, count: int, seed: int, *, aimed: float) -> Life:
    place = Place(folder, {})
    place.notes.mkdir(parents=True)
    write_notes(place.notes, count, seed)
    (place.notes / "Memory.md").write_text(
        "# Memory\n\n## Facts\n\n" + "".join(f"- fact {number} holds\n" for number in range(60))
    )
    life = Life(place, Random(f"kill:{seed}"), questions(QUESTIONS, seed), aimed=aimed)
    life.place.tars("index")
    life.expected = place.contents()
    return life


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill tars at random moments and look at what is left.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--notes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if disk_library() is None:
        print("no C compiler: every kill is at a random moment, none aimed at a write", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="tars-kill-"))
    try:
        life = begin(folder, args.notes, args.seed, aimed=0.5 if disk_library() else 0)
        live(life, args.kills)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{life.kills.total()} kills: " + ", ".join(f"{name} {count}" for name, count in life.kills.most_common()))
    print(f"wrong: {len(life.wrong)}")
    return 1 if life.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
