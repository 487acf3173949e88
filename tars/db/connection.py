"""Connections to a database, and what can be wrong with one. Knows nothing of what is in ours but its tables' names."""

from __future__ import annotations

import errno
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from tars.errors import DamagedIndex, TarsError
from tars.identifiers import hidden_words
from tars.owner import make_file

BUSY_MS = 10_000
# What a folder that may not be written to, a full disk or a bad mount answers with.
UNWRITABLE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.IOError, apsw.FullError)
UNUSABLE = (OSError, *UNWRITABLE)
DAMAGE = (DamagedIndex, apsw.CorruptError, apsw.NotADBError)
OUR_TABLES = {"meta", "files", "chunks", "vec_chunks"}


@contextmanager
def transaction(conn: apsw.Connection) -> Iterator[None]:
    """One write, whole or not at all."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:  # SQLite may have rolled back by itself, on a full disk for one
            conn.execute("ROLLBACK")
        raise


def connect(path: Path) -> apsw.Connection:
    """A connection with the vector extension; the file is made, readable by its owner only, if need be."""
    make_file(path)
    conn = apsw.Connection(str(path))
    conn.set_busy_timeout(BUSY_MS)
    refuse_foreign(conn)  # before anything is changed in it
    conn.execute("PRAGMA page_size = 16384")
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = NORMAL")
    return equipped(conn)


def is_forbidden(error: Exception) -> bool:
    """Whether it is the person's rights that are missing, or the disk is for reading only."""
    if isinstance(error, OSError):
        return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.CantOpenError)


def connect_to_read(path: Path) -> apsw.Connection:
    """A connection to an index that may not be written to, not even for the marks of its readers."""
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}, and none can be made")
    if has_content(path.with_name(path.name + "-wal")):
        raise PermissionError("it was not closed properly, and this user may not put it right")
    # SQLite would make files beside it; nobody changes it while nobody may.
    uri = f"{path.absolute().as_uri()}?immutable=1"
    conn = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    refuse_foreign(conn)
    return equipped(conn)


def has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def equipped(conn: apsw.Connection) -> apsw.Connection:
    """The connection with what every question needs."""
    load_vectors(conn)
    conn.create_scalar_function("hidden_words", lambda *text: hidden_words(str(text[0])), 1, deterministic=True)
    conn.execute("PRAGMA mmap_size = 1073741824")
    conn.execute("PRAGMA temp_store = MEMORY")
    return conn


def refuse_foreign(conn: apsw.Connection) -> None:
    """A database that holds something, but nothing of ours, is somebody's."""
    names = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if names and not names & OUR_TABLES:
        raise DamagedIndex(f"it is a database of something else, with the table '{min(names)}'")


def trouble(error: Exception) -> str:
    """Why the index could not be used. A copy that fails gives its error no words, or rather "not an error"."""
    if isinstance(error, apsw.FullError):
        return "the disk is full"
    if isinstance(error, apsw.IOError):
        return "the disk answers with an error"
    return str(error)


@contextmanager
def vec0_errors() -> Iterator[None]:
    """sqlite-vec has no code for damage, only words."""
    try:
        yield
    except apsw.SQLError as error:
        if "blob" in str(error) or "Internal sqlite-vec error" in str(error):
            raise DamagedIndex(str(error)) from None
        raise


def shred(conn: apsw.Connection) -> bool:
    """Write the database anew without what was deleted, and empty its log; False if a reader keeps that from being."""
    conn.execute("PRAGMA secure_delete = ON")
    conn.execute("VACUUM")
    busy, _, _ = next(iter(conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
    return not busy


def load_vectors(conn: apsw.Connection) -> None:
    """Load sqlite-vec from beside its Python module, without importing that: it would import numpy."""
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        raise TarsError("the package sqlite-vec is missing; install it with: pip install sqlite-vec")
    conn.enable_load_extension(True)
    try:
        conn.load_extension(str(Path(spec.origin).with_name("vec0")))
    finally:
        conn.enable_load_extension(False)


def file_at(path: Path | None) -> tuple[int, int] | None:
    """Which file a path stands for just now."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
