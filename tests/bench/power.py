"""The power goes: what was not yet on the disk is gone or in pieces. What is left, and whether the next run puts it right.

    python tests/bench/power.py [--cuts 300] [--seed 0]

A memory is indexed, edited, indexed again, made anew, and facts and conversations are written, while a layer below the
program and below SQLite keeps a diary of every write, truncation, sync, creation, renaming and removal. From that diary
the disk is put together as it could be found after a cut behind any of them, by the rules of POSIX and no kinder:

- what a file had when it was last synced is there; of what was written since, nothing (`nothing`), or a random choice
  of its sectors of 512 or 4,096 bytes, in any order (`pieces`), or everything (`everything`, what a killed process leaves);
- what was created, renamed or removed in a folder since that was synced has happened up to a random point.

Then, with plain SQLite: the index is whole or not there, the rowids agree, whatever was in the index when its last run
ended is still in it, the next run ends well and is searched like an index made anew. A note is the old or the new one,
and the new one if the command that wrote it had ended; a message that was answered is in its transcript. What is not
shown but taken from the documentation of SQLite: that its own syncs (WAL, synchronous = NORMAL: the log before it is
copied, the database before the log is used again) reach the disk, which no program can know. Needs a C compiler. The
exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import apsw  # noqa: E402
from accidents import Disk, Place, differences, disk_library  # noqa: E402
from notes import questions, write_notes  # noqa: E402

from tars import sessions  # noqa: E402

NOTES = 40
FACT = "the spare key lies under the third flower pot"
OLD = "the boiler was serviced by Anna in March"
QUESTION = "what colour is the car?"
ASKED = [*questions(3), "spare key", "boiler"]
KINDS = ("nothing", "pieces", "everything")


@dataclass(frozen=True)
class Entry:
    """One call of the diary."""

    what: str
    path: str
    other: str
    offset: int
    data: bytes


def read_diary(file: Path) -> list[Entry]:
    content = file.read_bytes()
    entries, at = [], 0
    while at < len(content):
        end = content.index(b"\n", at)
        what, path, other, offset, size = content[at:end].decode().split("\t")
        at = end + 1
        data = content[at : at + int(size)] if what == "write" else b""
        at += int(size) + 1 if what == "write" else 0
        entries.append(Entry(what, path, other, int(offset), data))
    return entries


@dataclass
class File:
    """What of a file is on the disk for certain, and what was done to it since."""

    synced: bytes = b""
    since: list[Entry] = field(default_factory=list)

    def after(self, kind: str, rng: Random) -> bytes:
        content = bytearray(self.synced)
        if kind == "nothing":
            return bytes(content)
        for entry in self.since if kind == "everything" else rng.sample(self.since, len(self.since)):
            apply(content, entry, None if kind == "everything" else rng)
        return bytes(content)


def apply(content: bytearray, entry: Entry, rng: Random | None) -> None:
    """Do to the content what the entry says; with a generator, only to some of its sectors."""
    if entry.what == "truncate":
        if rng is None or rng.random() < 0.5:
            content[entry.offset :] = (
                b"\0" * max(entry.offset - len(content), 0) if entry.offset > len(content) else b""
            )
        return
    sector = rng.choice((512, 4096)) if rng else len(entry.data) or 1
    start = entry.offset
    while start < entry.offset + len(entry.data):
        end = min((start // sector + 1) * sector if rng else start + sector, entry.offset + len(entry.data))
        if rng is None or rng.random() < 0.5:
            if len(content) < start:
                content.extend(b"\0" * (start - len(content)))
            content[start:end] = entry.data[start - entry.offset : end - entry.offset]
        start = end


@dataclass
class Model:
    """A disk to which the entries of a diary happen, one after the other."""

    files: dict[int, File] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # as the running system sees them
    synced: dict[str, int] = field(default_factory=dict)  # as they are on the disk for certain
    since: list[tuple[str, Callable[[dict[str, int]], None]]] = field(default_factory=list)  # folder, change
    folders: set[str] = field(default_factory=set)

    def take(self, entry: Entry) -> None:
        if entry.what == "create":
            number = len(self.files)
            self.files[number] = File()
            self.change(entry.path, lambda names: names.__setitem__(entry.path, number))
        elif entry.what == "open" and entry.offset == 0:
            self.file(entry.path).since.append(Entry("truncate", entry.path, "", 0, b""))
        elif entry.what in ("write", "truncate"):
            self.file(entry.path).since.append(entry)
        elif entry.what == "rename":
            self.change(entry.other, lambda names: names.__setitem__(entry.other, names.pop(entry.path)))
        elif entry.what == "unlink":
            self.change(entry.path, lambda names: names.pop(entry.path))
        elif entry.what == "mkdir":
            self.folders.add(entry.path)
        elif entry.what == "sync" and entry.path in self.folders:
            self.settle(entry.path)
        elif entry.what == "sync":
            file = self.file(entry.path)
            file.synced, file.since = file.after("everything", Random()), []

    def file(self, path: str) -> File:
        return self.files[self.names[path]]

    def change(self, path: str, what: Callable[[dict[str, int]], None]) -> None:
        what(self.names)
        self.since.append((str(Path(path).parent), what))

    def settle(self, folder: str) -> None:
        """What happened in the folder is on the disk."""
        for _, change in [item for item in self.since if item[0] == folder]:
            change(self.synced)
        self.since = [item for item in self.since if item[0] != folder]

    def after(self, kind: str, rng: Random) -> dict[str, bytes]:
        """Every file as it could be found after a cut."""
        names = dict(self.synced)
        for folder in sorted({folder for folder, _ in self.since}):
            changes = [change for other, change in self.since if other == folder]
            kept = {"nothing": 0, "everything": len(changes)}.get(kind, rng.randint(0, len(changes)))
            for change in changes[:kept]:
                change(names)
        return {path: self.files[number].after(kind, rng) for path, number in names.items()}


@dataclass
class Cuts:
    """A recorded life, and cuts in it."""

    place: Place
    before: dict[str, bytes]  # every file at the beginning, all on the disk
    diary: list[Entry]
    notes: int
    ends: dict[str, int]  # behind how many entries each command had ended
    memory: dict[str, bytes]  # Memory.md after each command
    rng: Random
    wrong: list[str] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)

    def model(self) -> Model:
        model = Model()
        for path, content in self.before.items():
            number = len(model.files)
            model.files[number] = File(content)
            model.names[path] = model.synced[path] = number
        made = [self.place.sessions, self.place.index_file.parent, self.place.notes]
        model.folders = {str(folder) for path in made for folder in (path, *path.parents)}
        model.folders |= {str(parent) for path in self.before for parent in Path(path).parents}
        return model

    def run(self, cuts: int) -> None:
        wanted = Counter(self.rng.choices(range(len(self.diary) + 1), k=cuts))
        model = self.model()
        for at in range(len(self.diary) + 1):
            for _ in range(wanted[at]):
                self.cut(at, model)
            if at < len(self.diary):
                model.take(self.diary[at])

    def cut(self, at: int, model: Model) -> None:
        kind = self.rng.choice(KINDS)
        self.made[kind] += 1
        self.restore(model.after(kind, self.rng))
        for problem in self.problems(at):
            self.wrong.append(f"cut behind {at} of {len(self.diary)}, {kind}: {problem}")
            print(self.wrong[-1], file=sys.stderr, flush=True)

    def restore(self, files: dict[str, bytes]) -> None:
        shutil.rmtree(self.place.folder)
        for folder in (self.place.notes, self.place.sessions, self.place.index_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            if not path.endswith("-shm"):  # in memory only: SQLite makes it anew after a start
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_bytes(content)

    def problems(self, at: int) -> Iterator[str]:
        yield from self.index_problems(at)
        yield from self.note_problems(at)
        yield from self.session_problems(at)
        run = self.place.tars("index")
        if run.returncode != 0:
            yield f"the next run ended with {run.returncode}: {run.stderr[-500:]}"
            return
        yield from self.place.problems(thorough=True)
        yield from differences(self.place.answers(ASKED), self.place.fresh_answers(ASKED))

    def index_problems(self, at: int) -> Iterator[str]:
        """With plain SQLite, before tars has touched it."""
        yield from self.place.problems(thorough=True)
        copy = self.place.folder / "copy.db"
        for suffix in ("", "-wal"):
            if Path(f"{self.place.index_file}{suffix}").exists():
                shutil.copy(f"{self.place.index_file}{suffix}", f"{copy}{suffix}")
        if not copy.exists():
            yield from ["the index is gone"] if at >= self.ends["first index"] else []
            return
        try:
            found, count = looked_at(copy)
        except apsw.Error as error:
            found, count = [str(error)], 0
        yield from found
        if at >= self.ends["first index"] and count < self.notes:
            yield f"the index had {self.notes} notes and has {count}"

    def note_problems(self, at: int) -> Iterator[str]:
        memory = (self.place.notes / "Memory.md").read_bytes()
        done = [name for name, end in self.ends.items() if end <= at]
        newest = self.memory[done[-1]] if done else self.memory["start"]
        later = [self.memory[name] for name, end in self.ends.items() if end > at][:1]
        if memory not in (newest, *later):
            yield f"Memory.md is neither the old nor the new one: {memory!r}"
        for path, content in self.place.contents().items():
            if path != "Memory.md" and content != self.before[str(self.place.notes / path)]:
                yield f"{path} has changed"

    def session_problems(self, at: int) -> Iterator[str]:
        said = {session.first for session in sessions.list_sessions(self.place.sessions)}
        if at >= self.ends["one-shot"] and QUESTION not in said:
            yield "a conversation is gone"


def looked_at(index: Path) -> tuple[list[str], int]:
    """What plain SQLite finds wrong with a database, and how many notes it holds."""
    conn = apsw.Connection(str(index))
    try:
        found = [str(row[0]) for row in conn.execute("PRAGMA integrity_check") if row[0] != "ok"]
        there = list(conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'files'"))
        return found, next(iter(conn.execute("SELECT count(*) FROM files")))[0] if there else 0
    finally:
        conn.close()


def record(folder: Path, seed: int, *, count: int = NOTES) -> Cuts:
    """Let tars do everything once, with a diary."""
    place = Place(folder / "place")
    place.notes.mkdir(parents=True)
    place.index_file.parent.mkdir(parents=True)
    place.sessions.mkdir(parents=True)
    write_notes(place.notes, count, seed)
    memory = place.notes / "Memory.md"
    memory.write_text(f"# Memory\n\n## Facts\n\n- {OLD}\n- the car is red\n")
    before = {str(path): path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    diary = folder / "diary"
    ends: dict[str, int] = {}
    told = {"start": memory.read_bytes()}
    commands = {
        "first index": ("index",),
        "remember": ("remember", FACT),
        "forget": ("forget", OLD),
        "index": ("index",),
        "rebuild": ("index", "--full"),
        "one-shot": ("--model", "recall", QUESTION),
        "remember more": ("remember", f"{FACT}, and another in the shed"),
    }
    for name, arguments in commands.items():
        run = place.tars(*arguments, disk=Disk(log=diary, bytes=True))
        assert run.returncode == 0, run.stderr
        ends[name] = len(read_diary(diary))
        told[name] = memory.read_bytes()
    return Cuts(place, before, read_diary(diary), count, ends, told, Random(f"power:{seed}"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Cut the power at any moment and look at what is left.")
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if disk_library() is None:
        print("this needs Linux and a C compiler", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="tars-power-") as name:
        cuts = record(Path(name), args.seed)
        cuts.run(args.cuts)
    kinds = ", ".join(f"{count} with {kind} of the rest" for kind, count in cuts.made.most_common())
    print(f"{cuts.made.total()} cuts in {len(cuts.diary)} calls ({kinds})")
    print(f"wrong: {len(cuts.wrong)}")
    return 1 if cuts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
