"""Eight processes on one memory that changes all the time: what they cost each other, and whether anything is lost.

    python tests/bench/crowd.py [--seconds 60] [--rounds 6] [--notes 1500] [--json OUT]

Two index (`tars index` again and again, and a process that stays), four search (two as `tars search -`, two as the
agent's tool, which looks at the folder first), two write through tars; a ninth edits, adds, renames and deletes notes
as an editor would. Their rounds take turns with rounds in which the same four search beside four processes that only
burn CPU: on a machine that others use too, only the ratio of the two says something. A wait for a lock is what SQLite's
busy handler is called for, from its first call to the last; every lock of tars is one of SQLite's. The exit status is 1
if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import apsw
from cost import Figure, say, table
from notes import note, questions, write_notes

from tars.app import App
from tars.cli import main as tars
from tars.config import load, use_one_thread

IDLE, BURNING, CROWD, OVER = range(4)
UNSETTLED = 0.5  # seconds at the start of a round that do not count: the round before may not have come to its end
WAIT_BAR_MS, RATIO_BAR = 100, 1.5
DELAYS = (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100)  # milliseconds
QUESTIONS = 1_000
WRITE_EVERY, EDIT_EVERY = 0.1, 0.05  # seconds


@dataclass
class Diary:
    """What one process did, in milliseconds, and what went wrong."""

    role: str
    spent: dict[int, list[float]] = field(default_factory=lambda: {BURNING: [], CROWD: []})
    cpu: dict[int, list[float]] = field(default_factory=lambda: {BURNING: [], CROWD: []})
    waits: list[tuple[str, float]] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Turns:
    """Which round it is, for every process."""

    def __init__(self, parties: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.phase, self.since = context.Value("i", IDLE), context.Value("d", 0.0)
        self.all_there = context.Barrier(parties)

    def begin(self, phase: int) -> None:
        self.phase.value, self.since.value = phase, time.monotonic()

    def each(self, *phases: int) -> Iterator[int]:
        """The phase, again and again while it is one of these; waits through the others, ends with the last."""
        while (now := self.phase.value) != OVER:
            if now in phases:
                yield now
            else:
                time.sleep(0.01)

    def counts(self, phase: int) -> bool:
        """Whether what began in this phase also ended in it, some time after its start."""
        return bool(self.phase.value == phase and time.monotonic() - self.since.value > UNSETTLED)


class Listening(apsw.Connection):
    """A connection that tells how long it waited for each lock."""

    waits: ClassVar[list[tuple[str, float]]] = []

    def set_busy_handler(self, handler: Callable[[int], bool] | None) -> None:
        super().set_busy_handler(self._timed(handler) if handler else None)

    def set_busy_timeout(self, milliseconds: int) -> None:
        self.set_busy_handler(as_sqlite_does(milliseconds) if milliseconds else None)

    def _timed(self, handler: Callable[[int], bool]) -> Callable[[int], bool]:
        def timed(before: int) -> bool:
            if not before:
                self._began = time.perf_counter()
                Listening.waits.append((Path(self.filename).suffix, 0.0))
            again = handler(before)
            Listening.waits[-1] = Listening.waits[-1][0], (time.perf_counter() - self._began) * 1000
            return again

        return timed


def as_sqlite_does(milliseconds: int) -> Callable[[int], bool]:
    """Its own handler, which cannot be listened to: longer and longer naps until their sum is the timeout."""

    def nap(before: int) -> bool:
        slept = sum(DELAYS[:before]) + max(before - len(DELAYS), 0) * DELAYS[-1]
        delay = min(DELAYS[min(before, len(DELAYS) - 1)], milliseconds - slept)
        time.sleep(max(delay, 0) / 1000)
        return delay > 0

    return nap


@dataclass(frozen=True)
class Place:
    """A folder of notes, the home of its index, what is asked and what editors write into the notes."""

    notes: Path
    home: Path
    questions: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def app(self, *, lives: bool = False) -> App:
        return App(load({}, environ={"TARS_HOME": str(self.home), "TARS_MEMORY_DIR": str(self.notes)}), lives=lives)


@contextmanager
def timed(diary: Diary, turns: Turns, phase: int) -> Iterator[None]:
    start, worked = time.perf_counter(), time.process_time()
    yield
    if turns.counts(phase):
        diary.cpu[phase].append((time.process_time() - worked) * 1000)
        diary.spent[phase].append((time.perf_counter() - start) * 1000)


# ---- the roles


def burn(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    turns.all_there.wait()
    for _ in turns.each(BURNING):
        sum(range(20_000))


def search(number: int, place: Place, turns: Turns, diary: Diary, *, look: bool) -> None:
    """Ask so many questions that none is still in the cache when its turn comes again."""
    asked = cycle(place.questions[number * 101 % len(place.questions) :] + place.questions)
    with place.app(lives=True) as app:
        app.search("warm up")
        turns.all_there.wait()
        for phase in turns.each(BURNING, CROWD):
            question = next(asked)
            with timed(diary, turns, phase):
                if look:
                    app.refresh()
                outcome = app.search(question)
            if not outcome.results and not outcome.empty_reason:
                diary.errors.append(f"no reason for nothing: {question}")


def search_as_batch(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    search(number, place, turns, diary, look=False)


def search_as_tool(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    search(number, place, turns, diary, look=True)


def index_as_cron(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    os.environ |= {"TARS_HOME": str(place.home), "TARS_MEMORY_DIR": str(place.notes)}
    turns.all_there.wait()
    for phase in turns.each(CROWD):
        with timed(diary, turns, phase):
            status = tars(["index", "--quiet"])
        if status:
            diary.errors.append(f"tars index ended with {status}")


def index_and_stay(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    with place.app() as app:
        turns.all_there.wait()
        for phase in turns.each(CROWD):
            with timed(diary, turns, phase):
                app.build()


def write(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    """Remember facts in Memory.md, which both writers share, and edit a note."""
    own = f"work/writer-{number}.md"
    with place.app() as app:
        app.write_new(own, f"# Writer {number}\n\n- version 0 of {number}\n")
        turns.all_there.wait()
        for count, phase in enumerate(turns.each(CROWD)):
            fact = f"Fact {count} of writer {number}: the {word(count)} is number {count * 7 + number}"
            with timed(diary, turns, phase):
                app.remember(fact)
            diary.facts.append(fact)
            with timed(diary, turns, phase):
                app.update(f"version {count} of {number}", f"version {count + 1} of {number}", own)
            time.sleep(WRITE_EVERY)


def word(count: int) -> str:
    """A made-up word that no note holds: what is found by it was found for it."""
    return "zq" + "".join("bdfgklmnprst"[count // 12**place % 12] + "aeiou"[place % 5] for place in range(4))


def edit(number: int, place: Place, turns: Turns, diary: Diary) -> None:
    """Do to notes what people and sync tools do; tars is not asked, and Memory.md is not touched."""
    rng = Random(number)
    turns.all_there.wait()
    for count, _ in enumerate(turns.each(CROWD)):
        there = sorted(p for p in place.notes.rglob("*.md") if not p.name.startswith(("Memory", "writer", ".")))
        chosen = rng.choice(there)
        text = f"{rng.choice(place.texts)}\nVersion {count} of this.\n"
        action = rng.choice(("edit", "edit", "save", "add", "delete", "rename"))
        if action == "edit":
            with chosen.open("a", encoding="utf-8") as file:
                file.write(f"\n{text[-200:]}\n")
        elif action == "save":
            beside = chosen.with_name(f".{chosen.name}.tmp")
            beside.write_text(text, encoding="utf-8")
            beside.replace(chosen)
        elif action == "add":
            chosen.with_name(f"added-{count}.md").write_text(text, encoding="utf-8")
        elif action == "delete":
            chosen.unlink()
        else:
            chosen.rename(chosen.with_name(f"renamed-{count}.md"))
        time.sleep(EDIT_EVERY)


Role = Callable[[int, Place, Turns, Diary], None]
CAST: tuple[Role, ...] = (
    search_as_batch, search_as_batch, search_as_tool, search_as_tool,
    index_as_cron, index_and_stay, write, write, edit,
    burn, burn, burn, burn,
)  # fmt: skip


def play(role: Role, number: int, place: Place, turns: Turns, said: Any) -> None:
    """One process: its role until the end, then what it has to tell."""
    use_one_thread()
    apsw.Connection = Listening
    diary = Diary(role.__name__, waits=Listening.waits)
    try:
        role(number, place, turns, diary)
    except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
        turns.all_there.abort()
        diary.errors.append(traceback.format_exc())
    said.put(diary)


def perform(place: Place, cast: Sequence[Role], *, seconds: float, rounds: int) -> tuple[list[Diary], float]:
    """Rounds of both kinds in turn, each for so many seconds; what all have to tell, and the largest log (MB)."""
    context = multiprocessing.get_context("spawn")
    turns, said, log = Turns(len(cast) + 1), context.Queue(), 0.0
    processes = [context.Process(target=play, args=(role, n, place, turns, said)) for n, role in enumerate(cast)]
    for process in processes:
        process.start()
    turns.all_there.wait(timeout=300)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
        # Who is first is so half of the time.
        for phase in (BURNING, CROWD) if number % 2 else (CROWD, BURNING):
            turns.begin(phase)
            end = time.monotonic() + seconds / rounds
            while time.monotonic() < end:
                time.sleep(0.5)
                log = max(log, sum(file.stat().st_size for file in place.home.rglob("*.db-wal")) / 1e6)
    turns.begin(OVER)
    diaries = [said.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return diaries, log


# ---- what came of it


def percentile(values: list[float], share: float) -> float:
    values = sorted(values)
    if not values:
        raise SystemExit("too short to say anything: nothing was begun and ended within a round; use more --seconds")
    return values[min(int(share * len(values)), len(values) - 1)]


def slowdown(diaries: list[Diary], name: str, roles: tuple[str, ...], bar: float | None) -> list[Figure]:
    beside = {
        phase: [ms for diary in diaries if diary.role in roles for ms in diary.spent[phase]]
        for phase in (BURNING, CROWD)
    }
    cpu = [
        percentile([ms for diary in diaries if diary.role in roles for ms in diary.cpu[phase]], 0.95)
        for phase in (CROWD, BURNING)
    ]
    counts = f"{len(beside[CROWD])} and {len(beside[BURNING])} searches"
    p95 = {phase: percentile(values, 0.95) for phase, values in beside.items()}
    return [
        Figure(f"{name}: p50 in the crowd", percentile(beside[CROWD], 0.5), "ms"),
        Figure(f"{name}: p50 beside burners", percentile(beside[BURNING], 0.5), "ms"),
        Figure(f"{name}: p95 in the crowd", p95[CROWD], "ms"),
        Figure(f"{name}: p95 beside burners", p95[BURNING], "ms", remark=counts),
        Figure(f"{name}: p95 over p95", p95[CROWD] / p95[BURNING], "×", bar),
        Figure(f"{name}: p95 of CPU over p95", cpu[0] / cpu[1], "×", remark=f"{cpu[0]:.1f} and {cpu[1]:.1f} ms"),
    ]


def waiting(diaries: list[Diary]) -> list[Figure]:
    figures = []
    for name, roles in (("searchers", ("search_",)), ("indexers", ("index_",)), ("writers", ("write",))):
        waits = [wait for diary in diaries if diary.role.startswith(roles) for wait in diary.waits]
        files = ", ".join(f"{count} for *{suffix}" for suffix, count in Counter(s for s, _ in waits).items())
        longest = max((ms for _, ms in waits), default=0.0)
        figures.append(Figure(f"longest wait for a lock, {name}", longest, "ms", WAIT_BAR_MS, files or "none at all"))
    return figures


def working(diaries: list[Diary]) -> list[Figure]:
    figures = []
    for role in ("index_as_cron", "index_and_stay", "write"):
        spent = [ms for diary in diaries if diary.role == role for ms in diary.spent[CROWD]]
        figures += [
            Figure(f"{role}: p50", percentile(spent, 0.5), "ms", remark=f"{len(spent)} times"),
            Figure(f"{role}: p95", percentile(spent, 0.95), "ms"),
        ]
    return figures


def losses(place: Place, facts: list[str]) -> list[Figure]:
    """What should be there and is not, or more than once, in the notes and in the index."""
    lines = Counter((place.notes / "Memory.md").read_text(encoding="utf-8").splitlines())
    with place.app() as app:
        indexed = "\n".join(content for path, *_, content in passages(app) if path == "Memory.md")
        late = sum(fact not in indexed for fact in facts)
        app.build()
        unfound = sum(not found(app, fact) for fact in facts)
        sets, vectorless = app.store.rowid_sets(), app.store.vectorless()
        disagree = sets["chunks"] ^ sets["chunks_fts"] | (sets["chunks"] - vectorless) ^ sets["vec_chunks"]
        damage, known = app.store.damage(), passages(app)
    with replace(place, home=place.home.with_name("fresh")).app() as app:
        app.build()
        anew = passages(app)
    return [
        Figure("facts written", len(facts), ""),
        Figure("facts not in Memory.md exactly once", sum(lines[f"- {fact}"] != 1 for fact in facts), "", 0),
        Figure("facts not in the index when the crowd has gone", late, "", 0),
        Figure("facts not found by a search after one run", unfound, "", 0),
        Figure("rowids in which the three tables differ", len(disagree), "", 0),
        Figure("passages in which a fresh build differs", (known - anew).total() + (anew - known).total(), "", 0),
        Figure("complaints of SQLite about the index", len(damage), "", 0, "; ".join(damage)),
    ]


def found(app: App, fact: str) -> bool:
    return any(fact in result.content for result in app.search(fact, mode="fts", limit=3).results)


def passages(app: App) -> Counter[tuple[Any, ...]]:
    rows = app.store.conn.execute(
        """SELECT f.path, c.start_line, c.end_line, c.position, c.heading, c.private, f.title, f.tags, c.content
           FROM chunks c JOIN files f ON f.id = c.file_id"""
    )
    return Counter(rows)


def measure(folder: Path, *, notes: int, seconds: float, rounds: int) -> tuple[list[Figure], list[str]]:
    place = Place(
        folder / "notes", folder / "home", tuple(questions(QUESTIONS)), tuple(note(1, n, notes) for n in range(100))
    )
    place.notes.mkdir()
    write_notes(place.notes, notes)
    (place.notes / "Memory.md").write_text("# Memory\n\n## Facts\n\n- The first of all\n", encoding="utf-8")
    say("indexing")
    with place.app() as app:
        app.build()
    diaries, log = perform(place, CAST, seconds=seconds, rounds=rounds)
    errors = [f"{diary.role}: {error}" for diary in diaries for error in diary.errors]
    both = ("search_as_batch", "search_as_tool")
    return [
        *slowdown(diaries, "search", both, RATIO_BAR),
        *slowdown(diaries, "as batch", both[:1], None),
        *slowdown(diaries, "as tool", both[1:], None),
        *waiting(diaries),
        *working(diaries),
        Figure("errors", len(errors), "", 0),
        *losses(place, [fact for diary in diaries for fact in diary.facts]),
        Figure("largest write-ahead log", log, "MB"),
    ], errors


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what processes on one memory cost each other.")
    parser.add_argument("--notes", type=int, default=1_500)
    parser.add_argument("--seconds", type=float, default=60, help="of the crowd, and as many beside burners")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures there too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tars-crowd-") as name:
        figures, errors = measure(Path(name), notes=args.notes, seconds=args.seconds, rounds=args.rounds)
    print(table(figures))
    print(*errors, sep="\n", file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps([asdict(f) | {"missed": f.missed} for f in figures], indent=2) + "\n")
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
