"""An index that follows its folder for as long as the process lives.

That something stirs decides when to look at the folder, never what is found there: so an event that is lost, doubled or
of a file that is no note can do no harm, and what changed during a run is seen by the look after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from tars import memory
from tars.db import DAMAGE, UNUSABLE
from tars.errors import TarsError
from tars.indexer import FRESH_NS

if TYPE_CHECKING:
    from tars.app import App
    from tars.indexer import Changes, Report

STEP_MS, GROUP_MS = 50, 400  # a burst ends when nothing happened for a step, and is not waited for any longer than that
TICK_SECONDS = 0.5  # between two looks at whether the folder is still the same
SETTLE_SECONDS = FRESH_NS / 1e9 + 0.2  # until the times of notes just taken in can be trusted
BUSY_SECONDS = 0.5  # between two tries while another process indexes
RETRY_SECONDS = 5.0  # after a failure
IDLE_SECONDS = 60.0  # between two looks without a reason: not every file system tells, and backends come back
POLL_SECONDS, POLL_SHARE = 1.0, 50  # between two looks if nothing tells; a large folder is looked at less often
EMPTY_SECONDS = 10.0  # that a folder has to be empty before every note is taken for gone

NO_EVENTS = "cannot be told of changes ({reason}), so the folder is looked at every second or so"


class Follower:
    """Keeps the index of one app true to its folder."""

    def __init__(self, app: App, *, tell: Callable[[Report], None]) -> None:
        self.app, self.tell, self.folder = app, tell, app.config.memory_dir
        self.polling = False
        self.device = 0  # that the notes were on when they were last seen
        self._empty_since: float | None = None
        self._retry_at = 0.0
        self._said = ""

    def run(self, *, full: bool = False) -> None:
        """Take in what changed before, then whatever changes; ends by an exception only."""
        due = time.monotonic() + self._begin(full)
        for stirred in self._stirrings():
            if stirred or time.monotonic() >= due:
                due = time.monotonic() + self._look()

    def _begin(self, full: bool) -> float:
        """The first run. What fails now is told at once: the person is there to put it right."""
        while (report := self.app.build(full=full)) is None:
            self._say_once("another process is indexing; waiting for it")
            time.sleep(BUSY_SECONDS)
        return self._rest(report)

    # ---- when to look

    def _stirrings(self) -> Iterator[bool]:
        """Whether something stirred in the folder, at least every tick, whatever becomes of the folder."""
        gone = False
        while True:
            before = place_of(self.folder)
            if before is None:
                self._say_once(f"the memory folder {self.folder} is gone; waiting for it")
                gone = True
                time.sleep(TICK_SECONDS)
                yield False
                continue
            if gone:
                self.app.say(f"the memory folder {self.folder} is there again")
                gone, self._said = False, ""
            try:
                for stirred in watched(self.folder):
                    self.polling = False
                    yield stirred
                    if place_of(self.folder) != before:
                        break
            except FileNotFoundError:  # of the folder, or of one in it that came and went
                time.sleep(TICK_SECONDS)
                yield True
            except (OSError, RuntimeError) as error:  # what watchfiles raises for the limits of the system
                if not self.polling:
                    self.app.say(NO_EVENTS.format(reason=error))
                yield from self._polled()

    def _polled(self) -> Iterator[bool]:
        """A first look, then ticks without news, until it is time to try again to be told."""
        self.polling = True
        yield True
        end = time.monotonic() + IDLE_SECONDS
        while time.monotonic() < end and self.folder.is_dir():
            time.sleep(TICK_SECONDS)
            yield False

    # ---- looking

    def _look(self) -> float:
        """Take in what changed, if anything did; the seconds until the next look."""
        if place_of(self.folder) is None:
            return IDLE_SECONDS
        start = time.monotonic()
        try:
            changes = self.app.changes()
            waiting = self.app.store.has_pending() and start >= self._retry_at
        except DAMAGE:
            return self._take_in()  # which sets it aside and makes it anew
        except (TarsError, apsw.BusyError, *UNUSABLE) as error:
            return self._failed(error)
        if changes is not None and self._is_doubtful(changes):
            return POLL_SECONDS
        if changes is None or changes or waiting:
            return self._take_in()
        self._said = ""
        return self._pause(time.monotonic() - start)

    def _take_in(self) -> float:
        try:
            report = self.app.build()
        except (TarsError, apsw.BusyError, *DAMAGE, *UNUSABLE) as error:
            return self._failed(error)
        return BUSY_SECONDS if report is None else self._rest(report)

    def _rest(self, report: Report) -> float:
        """Tell of a run; the seconds until the next look."""
        now = time.monotonic()
        self._said, self._retry_at = "", now + IDLE_SECONDS
        self.device = (place_of(self.folder) or (self.device,))[0]
        self.tell(report)
        if report.indexed or report.removed:
            return SETTLE_SECONDS
        return self._pause(report.seconds)

    def _pause(self, seconds: float) -> float:
        """How long not to look without a reason, after a look that took so long."""
        return max(POLL_SECONDS, POLL_SHARE * seconds) if self.polling else IDLE_SECONDS

    def _is_doubtful(self, changes: Changes) -> bool:
        """Whether all notes vanished just now, or with their disk: they may be about to come back."""
        if not changes.removed or changes.changed or changes.unchanged:
            self._empty_since = None
            return False
        now = time.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        if (place_of(self.folder) or (0,))[0] != self.device:
            self._say_once(f"{self.folder} is empty and on another disk than its notes were; waiting for them")
            return True
        return now - self._empty_since < EMPTY_SECONDS

    def _failed(self, error: Exception) -> float:
        self._say_once(str(error))
        return RETRY_SECONDS

    def _say_once(self, message: str) -> None:
        if message != self._said:
            self.app.say(message)
        self._said = message


def watched(folder: Path) -> Iterator[bool]:
    """Whether something stirred that may concern a note, at least every tick; ends when a folder was added.

    To begin anew then shows whether the system had a watch left for that; watchfiles does not tell.
    """
    from watchfiles import Change, watch

    known = False  # what happened before the watch was in place
    for events in watch(
        folder,
        watch_filter=None,
        step=STEP_MS,
        debounce=GROUP_MS,
        rust_timeout=int(TICK_SECONDS * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    ):
        yield not known or any(concerns_notes(folder, Path(path)) for _, path in events)
        known = True
        if any(change == Change.added and Path(path).is_dir() for change, path in events):
            return


def concerns_notes(folder: Path, path: Path) -> bool:
    """Whether this may be a note, a folder of notes or the list of what to ignore; temporary files are none of them."""
    try:
        below = path.relative_to(folder)
    except ValueError:
        return True
    if below.name == memory.IGNORE_FILE:
        return True
    if any(part.startswith(".") for part in below.parts):
        return False
    # A folder that is gone cannot be told from a file that is; a look at nothing new is cheap.
    return memory.is_note(below.name) or not path.is_file()


def place_of(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from another one of its name: device and number; None if it is not there."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if folder.is_dir() else None
