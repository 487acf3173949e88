"""What a scheduler is told: which program, with which environment, how often. Knows no scheduler."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from tars.config import Config, in_plain_english, kept_environment, login_environment
from tars.errors import TarsError, UsageError
from tars.schedule.log import RunLog

# Minutes that divide the hour and hours that divide the day: what cron can say exactly.
EXACT = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440)
DAY = 1440
DAILY_HOUR = 12  # most machines of persons are on at noon
NAMED = {"hourly": 60, "daily": DAY}
UNITS = {"m": 1, "h": 60, "d": DAY}


@dataclass(frozen=True, slots=True)
class Every:
    """An interval, counted from midnight by the clock on the wall; daily means at noon."""

    minutes: int = 30

    def __str__(self) -> str:
        if self.minutes == DAY:
            return f"every day at {DAILY_HOUR}:00"
        count, unit = (self.minutes // 60, "hour") if self.minutes >= 60 else (self.minutes, "minute")
        return f"every {unit}" if count == 1 else f"every {count} {unit}s"

    def after(self, moment: datetime) -> datetime:
        """The next time it is due."""
        due = moment.replace(second=0, microsecond=0)
        while True:
            due = (due + timedelta(minutes=1)).astimezone()
            minute = due.hour * 60 + due.minute
            if minute == DAILY_HOUR * 60 if self.minutes == DAY else minute % self.minutes == 0:
                return due


def parse_every(text: str) -> Every:
    """How often, as a person writes it.

    >>> parse_every("2h")
    Every(minutes=120)
    """
    found = re.fullmatch(r"(\d{1,4}) ?(m|h|d)(?:in|ins|inutes?|ours?|ays?)?", text.strip().lower())
    minutes = NAMED.get(text.strip().lower()) or (int(found[1]) * UNITS[found[2]] if found else 0)
    if minutes not in EXACT:
        there_are = ", ".join([f"{m}m" for m in EXACT if m < 60] + [f"{m // 60}h" for m in EXACT if 60 <= m < DAY])
        raise UsageError(f"--every '{text}' is not among what a scheduler can do exactly: {there_are}, daily")
    return Every(minutes)


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory folder's line in the table of a scheduler."""

    id: str
    every: Every | None  # None: somebody wrote another schedule by hand
    program: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> str:
        return self._value_of("--memory")

    @property
    def log(self) -> RunLog:
        return RunLog(Path(self._value_of("--log") or os.devnull))

    def _value_of(self, flag: str) -> str:
        after = [value for name, value in zip(self.program, self.program[1:], strict=False) if name == flag]
        return after[0] if after else ""


def entry_for(config: Config, every: Every) -> Entry:
    """The entry that keeps this memory's index true, wherever it is started from."""
    if not sys.executable:
        raise TarsError("cannot tell which Python runs tars, so no scheduler can be told")
    # -P: the scheduler starts in the home folder, and a folder named tars there must not pass for the program.
    program = [sys.executable, "-P", "-m", "tars", "--memory", str(config.memory_dir)]
    if config.origins.get("embedding") in ("--embedding", "TARS_EMBEDDING"):
        program += ["--embedding", config.embedding]
    program += ["index", "--log", str(log_for(config).file)]
    return Entry(identifier(config), every, tuple(program), kept_environment(ollama=config.embedding != "builtin"))


def identifier(config: Config) -> str:
    """Readable, and another one for another folder or another home of tars."""
    readable = config.index_file.stem.rpartition("-")[0]
    return f"{readable}-{hashlib.sha256(bytes(config.index_file)).hexdigest()[:8]}"


def log_for(config: Config) -> RunLog:
    """What scheduled runs of this memory left behind."""
    return RunLog(config.places.state / "schedule" / f"{identifier(config)}.log")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text and where it goes."""

    where: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Fired:
    """What came of a start: the exit status and whatever was printed."""

    status: int
    output: str


class Scheduler(Protocol):
    """Something that starts programs at their time."""

    @property
    def name(self) -> str: ...

    def why_not(self) -> str:
        """Why it cannot be used on this machine; empty if it can."""
        ...

    def render(self, entry: Entry) -> list[Rendered]: ...

    def install(self, entry: Entry) -> None: ...

    def entries(self) -> list[Entry]: ...

    def remove(self, name: str) -> None: ...

    def fire(self, entry: Entry) -> Fired:
        """Start it now, as the scheduler would."""
        ...


def call(argv: Sequence[str], *, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A scheduler's own program, asked to speak English."""
    try:
        return subprocess.run(argv, input=stdin, capture_output=True, env=in_plain_english(), check=False)
    except OSError as error:
        raise TarsError(f"cannot run {argv[0]}: {error.strerror}") from None


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program said went wrong, on one line."""
    said = (done.stderr or done.stdout).decode(errors="replace")
    return " ".join(said.split()) or f"exit status {done.returncode}"


def put(file: Path, content: bytes | None) -> None:
    """Write a file that a scheduler reads, or (None) see that there is none."""
    try:
        if content is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    except OSError as error:
        raise TarsError(f"cannot write {file}: {error.strerror}") from None


def start(argv: Sequence[str], environment: Mapping[str, str]) -> Fired:
    """Run a program as a scheduler does: nobody's terminal, the home folder, hardly any environment."""
    environ = {**login_environment(), **environment}
    if not argv:
        return Fired(127, "the entry names no program; `tars schedule install` writes it anew")
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=environ["HOME"],
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        return Fired(127, f"{error.filename}: {error.strerror}")
    return Fired(done.returncode, done.stdout.decode(errors="replace").strip())
