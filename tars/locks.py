"""Locks between processes and threads: one holder at a time, given back by the system if that is killed.

A lock is an exclusive transaction on an empty database: the same on every platform.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from tars.errors import TarsError
from tars.owner import make_file

TRY_SECONDS = 0.002


class Lock:
    """One writer's right."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._conn: apsw.Connection | None = None

    def acquire(self, wait_seconds: float = 0) -> bool:
        """Whether it could be had within the time."""
        try:
            make_file(self.path)
            conn = apsw.Connection(str(self.path))
        except (OSError, apsw.CantOpenError) as error:
            raise TarsError(f"cannot write beside {self.path}: {error}") from None
        conn.set_busy_handler(waiting(wait_seconds) if wait_seconds else None)
        try:
            conn.execute("BEGIN EXCLUSIVE")
        except apsw.BusyError:
            conn.close()
            return False
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.FullError) as error:
            conn.close()
            raise TarsError(f"cannot write beside {self.path}: {error}") from None
        self._conn = conn
        return True

    def release(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def waiting(seconds: float) -> Callable[[int], bool]:
    """Whether to try once more, after a moment: always a short one, while SQLite's own get longer and longer."""
    end = time.monotonic() + seconds

    def once_more(tries: int) -> bool:
        time.sleep(TRY_SECONDS)
        return time.monotonic() < end

    return once_more


@contextmanager
def held(path: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of those who write to notes."""
    lock = Lock(path)
    if not lock.acquire(wait_seconds):
        raise TarsError("another process is writing to the notes; try again in a moment")
    try:
        yield
    finally:
        lock.release()
