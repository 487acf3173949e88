"""What was used, and together with what: a small database of its own, which no rebuild of the index touches.

A passage is known by the path of its note and the hash of its text, since rowids change. Everything is best effort:
if the database is busy or broken, the use is not counted and nobody waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import permutations
from pathlib import Path
from typing import Any

import apsw

from tars.db import shred, transaction
from tars.owner import make_file

Used = tuple[str, bytes]  # path of the note, hash of the passage

WAIT_MS = 50
PATIENT_MS = 5_000  # for what must not be dropped
MOST_AT_ONCE = 20  # uses of one answer that are counted; pairs grow with the square
TABLES = """
CREATE TABLE IF NOT EXISTS uses (
    memory TEXT NOT NULL, path TEXT NOT NULL, hash BLOB NOT NULL, count INTEGER NOT NULL, days INTEGER NOT NULL,
    last TEXT NOT NULL, PRIMARY KEY (memory, path, hash)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS together (
    memory TEXT NOT NULL, path TEXT NOT NULL, hash BLOB NOT NULL, other_path TEXT NOT NULL, other_hash BLOB NOT NULL,
    count INTEGER NOT NULL, PRIMARY KEY (memory, path, hash, other_path, other_hash)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Use:
    """How often a passage was used, on how many days, and the last of them (ISO)."""

    count: int
    days: int
    last: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of some passages: their uses, how often each was used with another of them, the most of all."""

    uses: dict[Used, Use]
    together: dict[Used, int]
    most: int


class AccessLog:
    """The uses of one memory folder; the file is made at the first of them."""

    def __init__(self, file: Path, memory: str = "", *, today: Callable[[], date] = date.today) -> None:
        self.file, self.memory, self.today = file, memory, today

    def record(self, used: Sequence[Used]) -> bool:
        """Count a use of each, and that they were used together; False if it had to be dropped."""
        distinct = list(dict.fromkeys(used))[:MOST_AT_ONCE]
        if not distinct:
            return True
        try:
            conn = self._open()
            try:
                self._write(conn, distinct)
            finally:
                conn.close()
        except (apsw.Error, OSError):
            return False
        return True

    def statistics(self, passages: Iterable[Used]) -> Statistics:
        """What is known of these; nothing if there is no database, or none that can be read now."""
        wanted = set(passages)
        if not wanted or not self.file.exists():
            return Statistics({}, {}, 0)
        try:
            conn = self._open()
            try:
                return self._read(conn, wanted)
            finally:
                conn.close()
        except (apsw.Error, OSError):
            return Statistics({}, {}, 0)

    def forget(self, is_gone: Callable[[str, bytes], bool]) -> bool:
        """Remove the uses of passages that are gone, to the byte; False if it could not be done now."""
        if not self.file.exists():
            return True
        try:
            conn = self._open()
            try:
                conn.set_busy_timeout(PATIENT_MS)
                self._delete(conn, is_gone)
                return shred(conn)
            finally:
                conn.close()
        except (apsw.Error, OSError):
            return False

    def _delete(self, conn: apsw.Connection, is_gone: Callable[[str, bytes], bool]) -> None:
        sql = """SELECT path, hash FROM uses WHERE memory = ?1 UNION SELECT path, hash FROM together WHERE memory = ?1
                 UNION SELECT other_path, other_hash FROM together WHERE memory = ?1"""
        with transaction(conn):
            known: list[Any] = conn.execute(sql, (self.memory,)).fetchall()
            gone = [(self.memory, path, digest) for path, digest in known if is_gone(path, digest)]
            conn.executemany("DELETE FROM uses WHERE memory = ? AND path = ? AND hash = ?", gone)
            conn.executemany("DELETE FROM together WHERE memory = ? AND path = ? AND hash = ?", gone)
            conn.executemany("DELETE FROM together WHERE memory = ? AND other_path = ? AND other_hash = ?", gone)

    def _open(self) -> apsw.Connection:
        make_file(self.file)
        conn = apsw.Connection(str(self.file))
        conn.set_busy_timeout(WAIT_MS)
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        conn.execute(TABLES)
        return conn

    def _write(self, conn: apsw.Connection, used: Sequence[Used]) -> None:
        today = self.today().isoformat()
        with transaction(conn):
            conn.executemany(
                """INSERT INTO uses VALUES (?1, ?2, ?3, 1, 1, ?4) ON CONFLICT DO UPDATE
                   SET count = count + 1, days = days + (last <> excluded.last), last = excluded.last""",
                [(self.memory, path, digest, today) for path, digest in used],
            )
            conn.executemany(
                "INSERT INTO together VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
                [(self.memory, *one, *other) for one, other in permutations(used, 2)],
            )

    def _read(self, conn: apsw.Connection, wanted: set[Used]) -> Statistics:
        paths = json.dumps(sorted({path for path, _ in wanted}))
        rows = conn.execute(
            """SELECT path, hash, count, days, last FROM uses
               WHERE memory = ? AND path IN (SELECT value FROM json_each(?))""",
            (self.memory, paths),
        )
        uses = {(path, digest): Use(*rest) for path, digest, *rest in rows if (path, digest) in wanted}
        together: dict[Used, int] = {}
        for path, digest in uses:
            pairs = conn.execute(
                "SELECT other_path, other_hash, count FROM together WHERE memory = ? AND path = ? AND hash = ?",
                (self.memory, path, digest),
            )
            together[path, digest] = sum(count for *other, count in pairs if tuple(other) in wanted)
        most = conn.execute("SELECT max(count) FROM uses WHERE memory = ?", (self.memory,)).fetchone()
        return Statistics(uses, together, most[0] or 0 if most else 0)
