"""A timer of systemd's user manager: two unit files, and the manager told of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tars.config import login_environment, user_units
from tars.errors import TarsError
from tars.schedule.entry import DAILY_HOUR, DAY, EXACT, Entry, Every, Fired, Rendered, call, complaint, put, start

WRITTEN_BY = "written by `tars schedule install`"
LINGER = Path("/var/lib/systemd/linger")


@dataclass(frozen=True, slots=True)
class Systemd:
    folder: Path = field(default_factory=user_units)
    program: str = "systemctl"
    name: str = "systemd"

    def why_not(self) -> str:
        """Many machines have the program and no manager that answers: containers, cron, another user's session."""
        if not shutil.which(self.program):
            return "there is no systemctl program"
        done = call([self.program, "--user", "show", "--property=Version"])
        return "" if done.returncode == 0 else f"no user manager answers ({complaint(done)})"

    def render(self, entry: Entry) -> list[Rendered]:
        units = {"service": service(entry), "timer": timer(entry)}
        return [Rendered(str(self._file(entry.id, kind)), text.encode()) for kind, text in units.items()]

    def install(self, entry: Entry) -> None:
        for unit in self.render(entry):
            put(Path(unit.where), unit.content)
        self._tell("daemon-reload")
        self._tell("enable", f"{unit_name(entry.id)}.timer")
        self._tell("restart", f"{unit_name(entry.id)}.timer")

    def entries(self) -> list[Entry]:
        found = sorted(self.folder.glob("tars-*.timer"))
        return [entry for file in found if (entry := self._read(file.stem.removeprefix("tars-")))]

    def remove(self, name: str) -> None:
        if not self._file(name, "timer").exists():
            return
        reachable = not self.why_not()
        if reachable:
            self._tell("disable", "--now", f"{unit_name(name)}.timer")
        wanted = self.folder / "timers.target.wants" / f"{unit_name(name)}.timer"
        for file in (wanted, self._file(name, "timer"), self._file(name, "service")):
            put(file, None)
        if reachable:
            self._tell("daemon-reload")

    def fire(self, entry: Entry) -> Fired:
        """By the manager if it answers, else the unit's own command and environment."""
        if self.why_not():
            return start(entry.program, entry.environment)
        unit = f"{unit_name(entry.id)}.service"
        done = call([self.program, "--user", "start", unit])
        shown = call([self.program, "--user", "show", "--property=ExecMainStatus", "--value", unit])
        status = int(shown.stdout) if shown.stdout.strip().isdigit() else done.returncode
        return Fired(status or done.returncode, complaint(done) if done.returncode else "")

    def _read(self, name: str) -> Entry | None:
        try:
            timer_text = self._file(name, "timer").read_text(encoding="utf-8")
            service_text = self._file(name, "service").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        if WRITTEN_BY not in timer_text:
            return None
        when = values(timer_text, "OnCalendar")
        settings = [word for row in values(service_text, "Environment") for word in words(row)]
        program = [w.replace("$$", "$") for row in values(service_text, "ExecStart") for w in words(row)]
        return Entry(
            name,
            KNOWN.get(when[-1]) if len(when) == 1 else None,
            tuple(program),
            dict(setting.split("=", 1) for setting in settings if "=" in setting),
        )

    def _file(self, name: str, kind: str) -> Path:
        return self.folder / f"{unit_name(name)}.{kind}"

    def _tell(self, *words: str) -> None:
        done = call([self.program, "--user", *words])
        if done.returncode:
            raise TarsError(f"systemctl --user {' '.join(words)} failed: {complaint(done)}")


def needs_linger(folder: Path = LINGER) -> bool:
    """Whether timers of this user stop when the user logs out."""
    return not (folder / login_environment()["LOGNAME"]).exists()


# ---- the units


def unit_name(name: str) -> str:
    return f"tars-{name}"


def service(entry: Entry) -> str:
    settings = "".join(f"Environment={escaped(f'{name}={value}')}\n" for name, value in entry.environment.items())
    return f"""\
# {unit_name(entry.id)}.service, {WRITTEN_BY}
[Unit]
Description=tars: keep the index of a memory folder true ({entry.id})

[Service]
Type=oneshot
{settings}ExecStart={command(entry.program)}
SuccessExitStatus=4
Nice=10
IOSchedulingClass=idle
"""


def timer(entry: Entry) -> str:
    return f"""\
# {unit_name(entry.id)}.timer, {WRITTEN_BY}
[Unit]
Description=tars: when to do so ({entry.id})

[Timer]
OnCalendar={calendar(entry.every or Every())}
Persistent=true

[Install]
WantedBy=timers.target
"""


def calendar(every: Every) -> str:
    """When, as systemd says it."""
    if every.minutes == DAY:
        return f"{DAILY_HOUR}:00"
    return f"0/{every.minutes // 60}:00" if every.minutes >= 60 else f"*:0/{every.minutes}"


KNOWN = {calendar(Every(minutes)): Every(minutes) for minutes in EXACT}


def command(program: Iterable[str]) -> str:
    """Through env, since systemd starts no program that has a quote in its name but hands one on."""
    first, *rest = program
    if "=" in first:
        raise TarsError(f"a systemd unit cannot start {first}, which has = in its name; try --cron")
    return " ".join(["/usr/bin/env", *(escaped(word).replace("$", "$$") for word in (first, *rest))])


def escaped(word: str) -> str:
    """A word in a unit file, where % is special even in quotes.

    >>> print(escaped('50% of "it"'))
    "50%% of \\"it\\""
    """
    try:
        word.encode()
    except UnicodeEncodeError:
        raise TarsError(f"a systemd unit cannot hold {word!r}, which is not UTF-8; try --cron") from None
    inner = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return '"' + "".join(c if ord(c) >= 32 and c != "\x7f" else f"\\x{ord(c):02x}" for c in inner) + '"'


def values(unit: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit, flags=re.M)


def words(row: str) -> list[str]:
    """The quoted words of a line, as they were before `escaped`."""
    return [unescaped(word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', row)]


def unescaped(word: str) -> str:
    plain = re.sub(r"\\(?:x([0-9a-f]{2})|(.))", lambda m: chr(int(m[1], 16)) if m[1] else m[2], word)
    return plain.replace("%%", "%")
