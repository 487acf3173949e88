"""Entries of cron, systemd and launchd that keep an index true while nobody is looking."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tars.errors import TarsError
from tars.schedule.cron import Cron
from tars.schedule.entry import (
    DAILY_HOUR,
    DAY,
    Entry,
    Every,
    Fired,
    Rendered,
    Scheduler,
    entry_for,
    identifier,
    parse_every,
)
from tars.schedule.launchd import Launchd
from tars.schedule.log import Run, RunLog, describe
from tars.schedule.systemd import Systemd, needs_linger

__all__ = [
    "Entry",
    "Every",
    "Fired",
    "Installed",
    "Rendered",
    "Row",
    "Run",
    "RunLog",
    "Scheduler",
    "choose",
    "describe",
    "entry_for",
    "identifier",
    "install",
    "installed",
    "needs_linger",
    "parse_every",
    "schedulers",
    "step_back",
    "task_scheduler",
]

GRACE = timedelta(minutes=5)  # for a run that takes its time


def schedulers() -> tuple[Scheduler, ...]:
    """All there are, the better first: what was missed in sleep is lost with cron."""
    return (Launchd(), Systemd(), Cron())


def choose(wanted: str, entry: Entry, among: Sequence[Scheduler], *, windows: bool = os.name == "nt") -> Scheduler:
    """The scheduler that was asked for, else the first that works on this machine."""
    if windows:
        raise TarsError(f"on Windows the Task Scheduler does this; type: {task_scheduler(entry)}")
    reasons = {scheduler.name: scheduler.why_not() for scheduler in among if wanted in ("", scheduler.name)}
    for scheduler in among:
        if reasons.get(scheduler.name) == "":
            return scheduler
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    raise TarsError(f"cannot schedule here ({told}); `tars schedule install --print --cron` shows what to run")


def task_scheduler(entry: Entry) -> str:
    """The command that does the same on Windows, whose tasks have the user's own environment."""
    minutes = (entry.every or Every()).minutes
    often = ["/SC", "MINUTE", "/MO", str(minutes)]
    if minutes == DAY:
        often = ["/SC", "DAILY", "/ST", f"{DAILY_HOUR}:00"]
    elif minutes >= 60:
        often = ["/SC", "HOURLY", "/MO", str(minutes // 60)]
    program = subprocess.list2cmdline(entry.program)
    return subprocess.list2cmdline(["schtasks", "/Create", "/F", "/TN", f"tars-{entry.id}", *often, "/TR", program])


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as it is listed; times are ISO, None where there is none."""

    id: str
    scheduler: str
    schedule: str
    memory: str
    last_run: str | None
    last_result: str | None
    last_text: str | None
    next_run: str | None
    late: bool


@dataclass(frozen=True, slots=True)
class Installed:
    """An entry and the scheduler that has it."""

    scheduler: Scheduler
    entry: Entry

    def last_run(self) -> Run | None:
        return self.entry.log.last()

    def row(self, now: datetime) -> Row:
        every, last = self.entry.every, self.last_run()
        return Row(
            id=self.entry.id,
            scheduler=self.scheduler.name,
            schedule=str(every) if every else "as set by hand",
            memory=self.entry.memory,
            last_run=last.time.isoformat(timespec="seconds") if last else None,
            last_result=last.result if last else None,
            last_text=last.text if last else None,
            next_run=every.after(now).isoformat(timespec="minutes") if every else None,
            late=bool(last and every and is_late(last.time, every, now)),
        )


def is_late(last: datetime, every: Every, now: datetime) -> bool:
    """Whether two runs are missing: the machine slept, the scheduler is not running, or tars is gone."""
    return now > last + 2 * timedelta(minutes=every.minutes) + GRACE


def install(entry: Entry, scheduler: Scheduler, among: Sequence[Scheduler], say: Callable[[str], None]) -> None:
    """Put the entry in, and take an earlier one of the same memory from the other schedulers."""
    if not Path(entry.memory).is_dir():
        raise TarsError(
            f"the memory folder {entry.memory} does not exist; name another with --memory, or make it"
            " (`tars index` makes the default one)"
        )
    scheduler.install(entry)
    for other in list(installed(among, say)):
        if other.entry.id == entry.id and other.scheduler.name != scheduler.name:
            other.scheduler.remove(entry.id)


def installed(among: Sequence[Scheduler], say: Callable[[str], None]) -> Iterator[Installed]:
    """Every entry there is; a scheduler that cannot be asked does not hide those of the others."""
    for scheduler in among:
        try:
            entries = scheduler.entries()
        except TarsError as error:
            say(str(error))
            continue
        yield from (Installed(scheduler, entry) for entry in entries)


def step_back() -> None:
    """Let everybody else go first: cron itself starts programs at full priority."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, max(10, os.getpriority(os.PRIO_PROCESS, 0)))
