"""A launch agent of macOS: one property list, and launchd told of it."""

from __future__ import annotations

import os
import plistlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tars.errors import TarsError
from tars.schedule.entry import DAILY_HOUR, DAY, EXACT, Entry, Every, Fired, Rendered, call, complaint, put, start


def launch_agents() -> Path:
    return Path("~/Library/LaunchAgents").expanduser()


@dataclass(frozen=True, slots=True)
class Launchd:
    folder: Path = field(default_factory=launch_agents)
    program: str = "launchctl"
    name: str = "launchd"

    def why_not(self) -> str:
        return "" if shutil.which(self.program) else "there is no launchctl program"

    def render(self, entry: Entry) -> list[Rendered]:
        return [Rendered(str(self._file(entry.id)), plist(entry))]

    def install(self, entry: Entry) -> None:
        content = plist(entry)
        self._unload(entry.id)
        put(self._file(entry.id), content)
        done = call([self.program, "bootstrap", domain(), str(self._file(entry.id))])
        if done.returncode:
            raise TarsError(f"launchd does not take {self._file(entry.id)}: {complaint(done)}")

    def entries(self) -> list[Entry]:
        return [entry for file in sorted(self.folder.glob("tars.*.plist")) if (entry := read(file))]

    def remove(self, name: str) -> None:
        if self._file(name).exists():
            self._unload(name)
            put(self._file(name), None)

    def fire(self, entry: Entry) -> Fired:
        """The program with its environment; `launchctl kickstart` would not wait for the end."""
        return start(entry.program, entry.environment)

    def _unload(self, name: str) -> None:
        """One that was never loaded is as good as unloaded."""
        if not self.why_not():
            call([self.program, "bootout", f"{domain()}/{label(name)}"])

    def _file(self, name: str) -> Path:
        return self.folder / f"{label(name)}.plist"


def domain() -> str:
    return f"gui/{os.getuid()}"


def label(name: str) -> str:
    return f"tars.{name}"


# ---- the property list


def plist(entry: Entry) -> bytes:
    table = {
        "Label": label(entry.id),
        "ProgramArguments": list(entry.program),
        "EnvironmentVariables": dict(entry.environment),
        "StartCalendarInterval": calendar(entry.every or Every()),
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": 10,
    }
    try:
        content = plistlib.dumps(table, sort_keys=False)
        same = plistlib.loads(content) == table
    except (ValueError, plistlib.InvalidFileException):  # control characters, or bytes that are not UTF-8
        same = False
    if not same:
        raise TarsError("a property list cannot hold the control characters in these paths; rename the folder")
    return content


def calendar(every: Every) -> list[dict[str, int]]:
    """When, as launchd says it: what was missed in sleep is made up for, which an interval is not."""
    if every.minutes == DAY:
        return [{"Hour": DAILY_HOUR, "Minute": 0}]
    if every.minutes == 60:
        return [{"Minute": 0}]
    if every.minutes > 60:
        return [{"Hour": hour, "Minute": 0} for hour in range(0, 24, every.minutes // 60)]
    return [{"Minute": minute} for minute in range(0, 60, every.minutes)]


def read(file: Path) -> Entry | None:
    """What a property list of ours says; None for one that is not."""
    try:
        table: dict[str, Any] = plistlib.loads(file.read_bytes())
        program = tuple(map(str, table["ProgramArguments"]))
    except (OSError, ValueError, KeyError, TypeError, plistlib.InvalidFileException):
        return None
    known = [Every(minutes) for minutes in EXACT if calendar(Every(minutes)) == table.get("StartCalendarInterval")]
    name = file.stem.removeprefix("tars.")
    settings = table.get("EnvironmentVariables", {})
    return Entry(name, known[0] if known else None, program, settings) if "--log" in program else None
