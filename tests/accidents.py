"""A memory to which accidents happen, and what must be true of it afterwards.

    place = Place.make(folder, notes={"boiler.md": "…"})
    place.tars("index", disk=Disk(at=17))     # killed in the middle of its 17th write
    place.tars("index")                       # and run again
    assert not place.problems() and place.answers() == place.fresh_answers()

Programs are started by forking one that has its imports behind it, which takes a tenth of the time. `disk.c` stands between the program and its files: it counts every call that changes something, keeps a diary of them,
and makes one of them fail or be the last.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

import apsw

from tars.app import App
from tars.config import load
from tars.db import Store
from tars.errors import TarsError

HERE = Path(__file__).resolve().parent
CLOCK = "2026-11-01"
MODES = ("hybrid", "fts", "vec")
IMPORTED = ("anthropic", "tars.chat.claude", "tars.chat.recall", "tars.cli", "tars.conversation", "tars.search.late")
Answers = dict[tuple[str, str], list[tuple[object, ...]]]


@cache
def disk_library() -> Path | None:
    """The layer, made with the compiler that is there; None without one, or where it cannot be put in between."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    folder = tempfile.mkdtemp(prefix="tars-disk-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = Path(folder) / "disk.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "disk.c"), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return library if made.returncode == 0 else None


class Runner:
    """A process that has imported tars and forks for every run of it."""

    def __init__(self) -> None:
        library = disk_library()
        preload = {"LD_PRELOAD": str(library)} if library else {}
        command = [sys.executable, str(HERE / "accidents.py")]
        self.process = subprocess.Popen(
            command, env=os.environ | preload, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.process.kill)

    def run(self, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        assert self.process.stdin and self.process.stdout
        request = {"arguments": arguments, "environ": dict(environ), "cwd": str(cwd)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return subprocess.CompletedProcess(arguments, *json.loads(self.process.stdout.readline()))


@cache
def runner() -> Runner:
    return Runner()


def serve() -> None:
    """One run of tars per line of stdin; status, stdout and stderr as JSON for each."""
    import ctypes
    import gc

    for name in IMPORTED:
        importlib.import_module(name)
    from tars.config import use_one_thread

    use_one_thread()
    import numpy  # noqa: F401

    gc.freeze()  # what is never looked at need not be copied into every child
    begin = getattr(ctypes.CDLL(None), "disk_begin", lambda: None)
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                for source, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out.fileno(), 1), (err.fileno(), 2)):
                    os.dup2(source, number)
                os.environ.clear()
                os.environ.update(request["environ"])
                os.chdir(request["cwd"])
                begin()
                run_and_leave(request["arguments"])
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = [whole(stream).decode(errors="replace") for stream in (out, err)]
        print(json.dumps([status, *texts]), flush=True)


def run_and_leave(arguments: Sequence[str]) -> NoReturn:
    """Taking the interpreter down takes longer than the run, and does nothing for the files."""
    from tars.cli import main

    status = 1
    try:
        status = main(arguments)
    except BaseException:  # noqa: BLE001 - shown as Python shows it, to be found by the test
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def whole(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()


@dataclass(frozen=True)
class Disk:
    """What is to happen to the calls of one run that change something below the folders of a memory."""

    at: int = 0  # the call at which it happens; 0: never
    errno: int = 0  # how it fails; 0: the process is killed there
    lasts: bool = False  # every later call fails too
    log: Path | None = None
    bytes: bool = False  # the diary holds what was written

    def environment(self, folders: Sequence[Path]) -> dict[str, str]:
        wanted = {
            "DISK_UNDER": ":".join(map(str, folders)),
            "DISK_AT": str(self.at) if self.at else "",
            "DISK_ERRNO": str(self.errno) if self.errno else "",
            "DISK_LASTS": "1" if self.lasts else "",
            "DISK_LOG": str(self.log) if self.log else "",
            "DISK_BYTES": "1" if self.bytes else "",
        }
        return {name: value for name, value in wanted.items() if value}


@dataclass(frozen=True)
class Place:
    """A folder of notes and a home of its own beside it."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)  # more of the environment

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def config_file(self) -> Path:
        return self.home / "config.toml"

    def cut_at(self, chunk_chars: int) -> None:
        """Have passages of this length: that is another index."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(f"[index]\nchunk_chars = {chunk_chars}\n")
        assert load({}, environ=self.environment).index.chunk_chars == chunk_chars

    @property
    def sessions(self) -> Path:
        return self.home / "state" / "sessions"

    @property
    def environment(self) -> dict[str, str]:
        own = ("TARS_", "ANTHROPIC_", "OLLAMA_", "DISK_", "LD_PRELOAD")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        places = {"TARS_HOME": str(self.home), "TARS_MEMORY_DIR": str(self.notes), "TARS_NOW": CLOCK}
        return {**kept, **places, "OLLAMA_HOST": "http://127.0.0.1:9", **self.settings}

    # ---- running tars

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A process of its own, still running."""
        return subprocess.Popen(
            [sys.executable, "-m", "tars", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tars(self, *arguments: str, disk: Disk | None = None) -> subprocess.CompletedProcess[str]:
        more = disk.environment([self.home, self.notes]) if disk else {}
        return runner().run(arguments, self.environment | more, self.folder)

    def changes(self, *arguments: str) -> int:
        """How many calls of a run change something; the run is made."""
        with tempfile.NamedTemporaryFile(prefix="tars-diary-") as diary:
            self.tars(*arguments, disk=Disk(log=Path(diary.name)))
            return len(Path(diary.name).read_bytes().splitlines())

    # ---- what must be true afterwards

    def contents(self) -> dict[str, bytes]:
        """Every note, to the byte; what is no note is not in it."""
        return {
            path.relative_to(self.notes).as_posix(): path.read_bytes()
            for path in sorted(self.notes.rglob("*.md"))
            if not path.name.startswith(".")
        }

    def leftovers(self) -> list[Path]:
        """What a write that was cut off left in the folder of notes."""
        return sorted(path for path in self.notes.rglob("*") if path.is_file() and path.name.startswith(".tars-"))

    @property
    def index_file(self) -> Path:
        return load({}, environ=self.environment).index_file

    def problems(self, *, thorough: bool = False) -> list[str]:
        """What is wrong with the index: rowids that do not agree, and what SQLite's own checks find.

        A copy is looked at: whoever opens an index repairs it, and that is for tars to do.
        """
        with tempfile.TemporaryDirectory(prefix="tars-copy-") as name:
            for suffix in ("", "-wal"):
                file = Path(f"{self.index_file}{suffix}")
                if file.exists():
                    shutil.copy(file, Path(name) / f"index.db{suffix}")
            return problems_of(Path(name) / "index.db", thorough=thorough)

    def answers(self, questions: Sequence[str]) -> Answers:
        """What search gives: passages with their scores, but for their rowids."""
        with App(load({}, environ=self.environment)) as app:
            return {
                (mode, question): [
                    (r.file_path, r.start_line, r.end_line, r.content, round(r.score, 9), round(r.confidence, 9))
                    for r in app.search(question, mode=mode).results
                ]
                for mode in MODES
                for question in questions
            }

    def fresh_answers(self, questions: Sequence[str]) -> Answers:
        """What search gives if the index is made anew from the same notes with the same settings."""
        with tempfile.TemporaryDirectory(prefix="tars-fresh-") as name:
            fresh = Place(Path(name), {**self.settings, "TARS_MEMORY_DIR": str(self.notes)})
            if self.config_file.exists():
                fresh.home.mkdir(parents=True)
                shutil.copy(self.config_file, fresh.config_file)
            with App(load({}, environ=fresh.environment)) as app:
                app.build()
            return fresh.answers(questions)


def problems_of(index: Path, *, thorough: bool) -> list[str]:
    if not index.exists():
        return []
    try:
        store = Store.open(index)
        try:
            if store.identity is None:
                return []
            return (store.damage() if thorough else []) + disagreements(store)
        finally:
            store.close()
    except (apsw.Error, TarsError) as error:
        return [f"the index cannot be read: {error}"]


def disagreements(store: Store) -> list[str]:
    """Where the three tables do not have the same passages; those without a vector are counted."""
    sets, vectorless = store.rowid_sets(), store.vectorless()
    found = []
    if sets["chunks"] != sets["chunks_fts"]:
        found.append(f"{len(sets['chunks'] ^ sets['chunks_fts'])} rowids differ between chunks and chunks_fts")
    if sets["chunks"] - vectorless != sets["vec_chunks"]:
        found.append(f"{len((sets['chunks'] - vectorless) ^ sets['vec_chunks'])} rowids differ from vec_chunks")
    return found


def differences(got: Answers, wanted: Answers) -> list[str]:
    """The questions that are answered otherwise, with what differs."""
    found = []
    for (mode, question), rows in wanted.items():
        if got[mode, question] != rows:
            at = next(
                (i for i, pair in enumerate(zip(got[mode, question], rows, strict=False)) if pair[0] != pair[1]), -1
            )
            mine = got[mode, question][at] if at >= 0 else len(got[mode, question])
            other = rows[at] if at >= 0 else len(rows)
            found.append(f"{mode} '{question}' place {at + 1}: {mine!r} instead of {other!r}")
    return found


if __name__ == "__main__":
    serve()
