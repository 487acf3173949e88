"""What runs without a person leave behind: one line each, in a file that stays small."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tars.errors import TarsError, redact
from tars.owner import make_folder

if TYPE_CHECKING:
    from tars.indexer import Report

MAX_BYTES = 256_000  # of the log, and of the one older log that is kept
MAX_CHARS = 500  # of what a line says


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its line tells of it: done, busy (another process was indexing) or failed."""

    time: datetime
    result: str
    text: str

    def __str__(self) -> str:
        return f"{self.time.isoformat(timespec='milliseconds')}\t{self.result}\t{self.text}"


@dataclass(frozen=True, slots=True)
class RunLog:
    """Lines of time, result and words, with a tab between them; for its owner only."""

    file: Path
    max_bytes: int = MAX_BYTES

    @property
    def older(self) -> Path:
        return self.file.with_name(f"{self.file.name}.1")

    def add(self, result: str, text: str) -> None:
        """One write of a whole line, so that two processes do not mix theirs."""
        text = "".join(c if c.isprintable() else " " for c in redact(text))[:MAX_CHARS]
        line = f"{Run(datetime.now().astimezone(), result, text)}\n".encode(errors="backslashreplace")
        try:
            make_folder(self.file.parent)
            if self.file.exists() and self.file.stat().st_size + len(line) > self.max_bytes:
                self.file.replace(self.older)
            handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)
        except OSError as error:
            raise TarsError(f"cannot write the log {self.file}: {error.strerror}; it would say: {text}") from None

    def last(self) -> Run | None:
        """The newest line that can be read; there is none before the first run."""
        for file in (self.file, self.older):
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
            except OSError:
                continue
            for line in reversed(lines):
                if run := parse(line):
                    return run
        return None


def describe(report: Report | None) -> tuple[str, str]:
    """Result and words for a run; counts only, since names of notes are nothing for a log."""
    if report is None:
        return "busy", "another process is indexing this memory; nothing to do"
    counts = f"{report.indexed} indexed, {report.removed} removed, {len(report.skipped)} skipped"
    warning = f"; {report.pending} passages wait for their vectors: {report.warning}" if report.warning else ""
    return "done", f"{counts} in {report.seconds:.1f} s{warning}"


def parse(line: str) -> Run | None:
    """A line of the log; None for one that was cut off or written by somebody else.

    >>> parse("2026-03-01T10:00:00+01:00\\tdone\\t1 indexed").result
    'done'
    """
    time, _, rest = line.partition("\t")
    result, _, text = rest.partition("\t")
    try:
        return Run(datetime.fromisoformat(time).astimezone(), result, text) if text else None
    except (ValueError, OverflowError):
        return None
