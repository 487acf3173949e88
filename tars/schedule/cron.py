"""A line in the person's crontab, marked as ours; every other line stays as it is, to the byte."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass

from tars.errors import TarsError
from tars.schedule.entry import DAILY_HOUR, DAY, EXACT, Entry, Every, Fired, Rendered, call, complaint, start

OURS = re.compile(rb"^(?!\s*#)\s*(@\w+|(?:\S+\s+){4}\S+)\s+(.*\S)\s+# tars-index ([\w-]+)\s*$", re.S)
ASSIGNMENT = re.compile(r"""^\s*(["']?)(\w+)\1\s*=\s*(.*?)\s*$""")
NO_TABLE = re.compile(rb"no crontab|can't open '[^']*': No such file")  # Debian, Fedora and macOS; busybox
MAX_COMMAND_BYTES = 998  # Debian's cron takes no longer command


@dataclass(frozen=True, slots=True)
class Cron:
    program: str = "crontab"
    name: str = "cron"

    def why_not(self) -> str:
        return "" if shutil.which(self.program) else "there is no crontab program"

    def render(self, entry: Entry) -> list[Rendered]:
        return [Rendered("the crontab (crontab -e)", line(entry) + b"\n")]

    def install(self, entry: Entry) -> None:
        """Replace our line where it stands, else add it at the end."""
        table = self.read()
        new = with_line(table, entry.id, line(entry))
        if new != table:
            self.write(new)

    def entries(self) -> list[Entry]:
        if self.why_not():
            return []
        return [parse(found) for found in map(OURS.match, self.read().split(b"\n")) if found]

    def remove(self, name: str) -> None:
        table = self.read()
        new = with_line(table, name, None)
        if new != table:
            self.write(new)

    def fire(self, entry: Entry) -> Fired:
        """The command as it stands in the table, through the shell that cron would use."""
        set_above: dict[str, str] = {}
        for row in self.read().split(b"\n"):
            if (found := OURS.match(row)) and found[3].decode() == entry.id:
                shell = set_above.get("SHELL", "/bin/sh")
                return start([shell, "-c", os.fsdecode(found[2]).replace("\\%", "%")], set_above)
            if setting := ASSIGNMENT.match(os.fsdecode(row)):
                set_above[setting[2]] = unquoted(setting[3])
        raise TarsError(f"{entry.id} is no longer in the crontab")

    def read(self) -> bytes:
        """The person's crontab, empty if there is none; anything else that goes wrong must not look like none."""
        done = call([self.program, "-l"])
        if done.returncode == 0:
            return done.stdout
        if NO_TABLE.search(done.stderr) and not done.stdout:
            return b""
        raise TarsError(f"cannot read the crontab, so it is left alone: {complaint(done)}")

    def write(self, table: bytes) -> None:
        done = call([self.program, "-"], stdin=table) if table else call([self.program, "-r"])
        if done.returncode:
            raise TarsError(f"cannot write the crontab: {complaint(done)}")


# ---- the line


def line(entry: Entry) -> bytes:
    """The entry as one line; a comment of the shell marks it as ours."""
    settings = [f"{name}={quoted(value)}" for name, value in entry.environment.items()]
    command = os.fsencode(" ".join([*settings, *map(quoted, entry.program), f"# tars-index {entry.id}"]))
    if b"\n" in command:
        raise TarsError("a crontab cannot hold a path with a line break in it; give the folder another name")
    if len(command) > MAX_COMMAND_BYTES:
        raise TarsError(f"the paths are too long for cron ({len(command)} bytes, it takes {MAX_COMMAND_BYTES})")
    return fields(entry.every or Every()).encode() + b" " + command


def quoted(word: str) -> str:
    """A word for the shell by way of cron, which turns \\% into % and, on some systems, \\\\ into \\.

    So % stands outside the quotes with its backslash, right whether or not cron takes that away, and no two
    backslashes stand side by side.

    >>> print(quoted("50% off"))
    '50'\\%' off'
    """
    if re.fullmatch(r"[A-Za-z0-9_@:,./+-]+", word):
        return word
    inner = word.replace("'", "'\"'\"'").replace("\\", "\\''").replace("%", "'\\%'")
    return f"'{inner}'"


def fields(every: Every) -> str:
    """When, as cron says it."""
    if every.minutes == DAY:
        return f"0 {DAILY_HOUR} * * *"
    if every.minutes >= 60:
        return f"0 {star(every.minutes // 60)} * * *"
    return f"{star(every.minutes)} * * * *"


def star(step: int) -> str:
    return "*" if step == 1 else f"*/{step}"


KNOWN = {fields(Every(minutes)): Every(minutes) for minutes in EXACT}


def parse(found: re.Match[bytes]) -> Entry:
    """What a line of ours says, also after a person changed it."""
    try:
        words = shlex.split(os.fsdecode(found[2]))
    except ValueError:
        words = []
    settings: dict[str, str] = {}
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        name, _, settings[name] = words.pop(0).partition("=")
    return Entry(found[3].decode(), KNOWN.get(" ".join(found[1].decode().split())), tuple(words), settings)


def unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


# ---- the table


def with_line(table: bytes, name: str, new: bytes | None) -> bytes:
    """The table with our line replaced where it stands, added at the end, or (None) taken out."""
    rows = table.split(b"\n")
    ours = [at for at, row in enumerate(rows) if (found := OURS.match(row)) and found[3].decode() == name]
    if new is not None and not ours:
        return table + (b"" if not table or table.endswith(b"\n") else b"\n") + new + b"\n"
    if new is not None:
        rows[ours.pop(0)] = new
    return b"\n".join(row for at, row in enumerate(rows) if at not in ours)
