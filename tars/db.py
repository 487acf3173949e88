"""The store: every question asked of the index. All SQL is here.

A chunk has the same rowid in `chunks`, `vec_chunks` and `chunks_fts`. Rowids are never used again, so a
rowid that a reader has seen always means the same passage or none.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from tars.errors import DamagedIndex, TarsError
from tars.identifiers import hidden_words
from tars.owner import make_file

SCHEMA_VERSION = 3
BUSY_MS = 10_000
MANY_LOG_PAGES, LOG_WAIT_MS = 16_384, 1_000  # 256 MB of pages that readers have kept from being moved
HAS_VECTOR, PENDING, NO_VECTOR, WITHHELD = 0, 1, 2, 3
SPARE_HITS = 20  # read beyond the limit of a list, to see whether those at its end are equal
# What a folder that may not be written to, a full disk or a bad mount answers with.
UNWRITABLE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.IOError, apsw.FullError)
UNUSABLE = (OSError, *UNWRITABLE)
DAMAGE = (DamagedIndex, apsw.CorruptError, apsw.NotADBError)
OUR_TABLES = {"meta", "files", "chunks", "vec_chunks"}
SLOTS = 1_024  # that vec0 makes room for at once
FEW_SLOTS = 4 * SLOTS  # not worth packing anew
FEW_PAGES = 256  # of 16 kB

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    hash BLOB, memory_type TEXT NOT NULL, date TEXT, modified TEXT NOT NULL, title TEXT NOT NULL,
    title_written INTEGER NOT NULL, tags TEXT NOT NULL, keywords TEXT NOT NULL, description TEXT NOT NULL,
    aliases TEXT NOT NULL, author TEXT NOT NULL, skipped TEXT, community INTEGER);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file_id INTEGER NOT NULL REFERENCES files (id),
    position INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    heading TEXT NOT NULL, date TEXT, private INTEGER NOT NULL, vector_state INTEGER NOT NULL,
    hash BLOB NOT NULL, tokens BLOB NOT NULL, content TEXT NOT NULL);
CREATE INDEX chunks_of_file ON chunks (file_id, position);
CREATE INDEX chunks_by_hash ON chunks (hash);
CREATE INDEX chunks_pending ON chunks (id) WHERE vector_state = 1;
CREATE TABLE links (
    file_id INTEGER NOT NULL, target TEXT NOT NULL, heading TEXT NOT NULL, alias TEXT NOT NULL,
    embed INTEGER NOT NULL, line INTEGER NOT NULL, name TEXT NOT NULL);
CREATE INDEX links_of_file ON links (file_id);
CREATE INDEX links_to ON links (name);
CREATE TABLE names (
    name TEXT NOT NULL, rank INTEGER NOT NULL, file_id INTEGER NOT NULL,
    PRIMARY KEY (name, rank, file_id)) WITHOUT ROWID;
CREATE INDEX names_of_file ON names (file_id);
CREATE TABLE tags (tag TEXT NOT NULL, file_id INTEGER NOT NULL, PRIMARY KEY (tag, file_id)) WITHOUT ROWID;
CREATE INDEX tags_of_file ON tags (file_id);
"""
# The note that a link's name stands for.
NAMED = """(SELECT n.file_id FROM names n JOIN files named ON named.id = n.file_id WHERE n.name = l.name
            ORDER BY n.rank, named.path LIMIT 1)"""
WORD_FIELDS = ("content", "title", "headings", "tags", "keywords", "description", "aliases", "author", "code")
# Contentless: no second copy of the text, and deletes do not have to repeat the old words to be exact.
FULL_TEXT = f"""
CREATE VIRTUAL TABLE chunks_fts USING fts5(
    {", ".join(WORD_FIELDS)}, content='', contentless_delete=1, tokenize='porter unicode61')
"""
# A daily note is an episode too, and a note of the person's is knowledge.
TYPE_GROUPS = {"episodic": ("episodic", "daily"), "semantic": ("semantic", "note")}
ROWID_TABLES = {"chunks": "chunks", "vec_chunks": "vec_chunks_rowids", "chunks_fts": "chunks_fts_docsize"}


@dataclass(frozen=True, slots=True)
class Identity:
    """What an index was made with; where two differ, their contents must not mix."""

    folder: str
    schema: int
    chunker: str
    tokens: str
    embedding: str
    dimensions: int  # 0: not known yet, the backend has never answered


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A passage as the index keeps it; `hash` is of the text that was embedded."""

    content: str
    start_line: int
    end_line: int
    heading: str
    date: str | None
    private: bool
    hash: bytes
    tokens: bytes
    vector: bytes | None = None
    vector_state: int = PENDING


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A note as the index keeps it, with its passages."""

    path: str
    size: int
    mtime_ns: int
    modified: str
    hash: bytes | None = None
    memory_type: str = "note"
    date: str | None = None
    title: str = ""
    title_written: bool = False
    tags: tuple[str, ...] = ()
    keywords: str = ""
    description: str = ""
    aliases: str = ""
    called: tuple[str, ...] = ()  # what links may call it beside its path: the title and each alias
    author: str = ""
    links: tuple[tuple[str, str, str, bool, int], ...] = ()
    chunks: tuple[StoredChunk, ...] = ()
    skipped: str | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """What every passage of the note carries into the full text."""
        return self.title, " ".join(self.tags), self.keywords, self.description, self.aliases, self.author


class FileStamp(NamedTuple):
    """What is known of a file: enough to see whether it changed."""

    id: int
    size: int
    mtime_ns: int
    hash: bytes | None
    skipped: str | None


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk with what its note says about it, as search shows it."""

    rowid: int
    path: str
    title: str
    heading: str
    memory_type: str
    date: str | None
    modified: str
    start_line: int
    end_line: int
    position: int
    private: bool
    content: str


@dataclass(frozen=True, slots=True)
class Filters:
    """What a passage must satisfy to be looked at. Dates are ISO, both ends inclusive."""

    after: str | None = None
    before: str | None = None
    type: str | None = None
    path: str | None = None
    tag: str | None = None

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def each(self) -> Iterator[tuple[str, Filters]]:
        """Every filter that is set, alone."""
        for name, value in asdict(self).items():
            if value:
                yield name, replace(Filters(), **{name: value})

    def where(self) -> tuple[str, list[Any]]:
        """SQL over `chunks c JOIN files f`, and its values."""
        conditions: list[str] = []
        values: list[Any] = []

        def require(condition: str, *needed: Any) -> None:
            conditions.append(condition)
            # Half a character, which a command line can hold, is in no note; as "?" it would be a pattern.
            values.extend(str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace") for value in needed)

        if self.after:
            require("COALESCE(c.date, f.date) >= ?", self.after)
        if self.before:
            require("COALESCE(c.date, f.date) <= ?", self.before)
        if self.type:
            types = TYPE_GROUPS.get(self.type, (self.type,))
            require(f"f.memory_type IN ({', '.join('?' * len(types))})", *types)
        if self.path:
            path = self.path.removeprefix("./")
            require("(f.path GLOB ? OR f.path = ? OR (f.path >= ? AND f.path < ?))", path, path, *below(path))
        if self.tag:
            tag = self.tag.lstrip("#").lower()
            require("f.id IN (SELECT file_id FROM tags WHERE tag = ? OR (tag >= ? AND tag < ?))", tag, *below(tag))
        return " AND ".join(conditions), values


def below(path: str) -> tuple[str, str]:
    """The range of names that lie below a folder or a tag."""
    path = path.rstrip("/")
    return path + "/", path + chr(ord("/") + 1)


def link_name(target: str) -> str:
    """What a link's target and a note's names are compared by: no case, no `.md`, no way up."""
    name = unicodedata.normalize("NFC", target).casefold().replace("\\", "/").removesuffix(".md")
    return "/".join(part for part in name.split("/") if part.strip(" ."))


def names_of(path: str, called: Iterable[str]) -> dict[str, int]:
    """Everything a link may call a note, with its rank: the least rank has the name, as in Obsidian.

    The whole path comes first, then the end of the path, then titles and aliases; of two notes the one with the
    shorter path.
    """
    whole = link_name(path)
    parts = whole.split("/")
    length = min(len(path), 9_999)
    names = {whole: 0}
    for start in range(1, len(parts)):
        names.setdefault("/".join(parts[start:]), 10_000 + length)
    for name in called:
        names.setdefault(link_name(name), 20_000 + length)
    names.pop("", None)
    return names


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


def init_db(path: Path, identity: Identity) -> apsw.Connection:
    """A connection to an index of this identity, made or brought up to it."""
    conn = connect(path)
    prepare(conn, identity)
    return conn


def prepare(conn: apsw.Connection, identity: Identity) -> None:
    """Make the tables, or bring them up to this identity, in one transaction."""
    with transaction(conn):
        found = stored_identity(conn)
        if found is None or (found.schema, found.folder) != (identity.schema, identity.folder):
            start_again(conn, identity)
        else:
            bring_up(conn, found, identity)
        ensure_full_text(conn)


def stored_identity(conn: apsw.Connection) -> Identity | None:
    if not has_table(conn, "meta"):
        return None
    row = conn.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
    if row is None:
        return None
    try:
        return Identity(**json.loads(row[0]))
    except (TypeError, ValueError):  # of a version with other fields
        return None


def has_table(conn: apsw.Connection, name: str) -> bool:
    return conn.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def highest_rowid(conn: apsw.Connection) -> int:
    """The highest rowid that a passage ever had; dropping the table would forget it."""
    if not has_table(conn, "chunks") or not has_table(conn, "sqlite_sequence"):
        return 0
    row = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    return int(row[0]) if row else 0


def drop_everything(conn: apsw.Connection) -> None:
    for name in ("vec_chunks", "chunks_fts", "chunks", "files", "links", "names", "tags", "meta"):
        conn.execute(f"DROP TABLE IF EXISTS {name}")


def begin_after(conn: apsw.Connection, identity: Identity, *, last_rowid: int, generation: int) -> None:
    """Make the tables, to be filled with rowids and generations that living readers have not seen."""
    drop_everything(conn)
    create_everything(conn, identity)
    set_meta(conn, "generation", generation + 1)
    conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('chunks', ?)", (last_rowid,))


def start_again(conn: apsw.Connection, identity: Identity) -> None:
    """Empty tables; generation and rowids go on from where they were, for the readers that hold some of them."""
    last = highest_rowid(conn)
    known = has_table(conn, "meta")
    row = conn.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone() if known else None
    begin_after(conn, identity, last_rowid=last, generation=int(row[0]) if row else 0)


def create_everything(conn: apsw.Connection, identity: Identity) -> None:
    conn.execute(TABLES)
    conn.execute(FULL_TEXT)
    create_vectors(conn, identity.dimensions)
    set_meta(conn, "identity", json.dumps(asdict(identity)))
    set_meta(conn, "generation", 1)


def create_vectors(conn: apsw.Connection, dimensions: int) -> None:
    conn.execute(f"CREATE VIRTUAL TABLE vec_chunks USING vec0(embedding float[{max(dimensions, 1)}])")


def bring_up(conn: apsw.Connection, found: Identity, wanted: Identity) -> None:
    """Throw away what the change of identity touches; the next run makes it again."""
    if (found.embedding, found.dimensions) != (wanted.embedding, wanted.dimensions):
        conn.execute("DROP TABLE vec_chunks")
        create_vectors(conn, wanted.dimensions)
        conn.execute("UPDATE chunks SET vector_state = ?", (PENDING,))
    if (found.chunker, found.tokens) != (wanted.chunker, wanted.tokens):
        conn.execute("UPDATE files SET size = -1, hash = NULL")
    if found.tokens != wanted.tokens:
        conn.execute("UPDATE chunks SET tokens = x''")
        set_meta(conn, "token_counts", b"")
    if found != wanted:
        set_meta(conn, "identity", json.dumps(asdict(wanted)))
        next_generation(conn)


def ensure_full_text(conn: apsw.Connection) -> None:
    """Make a full text that is missing, from the passages that are there."""
    if has_table(conn, "chunks_fts"):
        return
    conn.execute(FULL_TEXT)
    conn.execute(
        """INSERT INTO chunks_fts (rowid, content, title, headings, tags, keywords, description, aliases, author, code)
           SELECT c.id, c.content, f.title, c.heading, f.tags, f.keywords, f.description, f.aliases, f.author,
                  hidden_words(c.content || ' ' || f.title || ' ' || c.heading)
           FROM chunks c JOIN files f ON f.id = c.file_id"""
    )
    next_generation(conn)


def first(rows: Iterable[tuple[Any, ...]]) -> Any:
    """The only value of a query that always has one."""
    return next(iter(rows))[0]


def set_meta(conn: apsw.Connection, key: str, value: Any) -> None:
    conn.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def next_generation(conn: apsw.Connection) -> None:
    """Tell long-lived readers that what they hold may be out of date."""
    conn.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def insert_file(conn: apsw.Connection, file: StoredFile) -> int:
    """Write the row of a note, new or changed, with its links and tags; its id."""
    rows = conn.execute(
        """INSERT INTO files (path, size, mtime_ns, hash, memory_type, date, modified, title, title_written,
                              tags, keywords, description, aliases, author, skipped)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,
               hash = excluded.hash, memory_type = excluded.memory_type, date = excluded.date,
               modified = excluded.modified, title = excluded.title, title_written = excluded.title_written,
               tags = excluded.tags,
               keywords = excluded.keywords, description = excluded.description, aliases = excluded.aliases,
               author = excluded.author, skipped = excluded.skipped
           RETURNING id""",
        (file.path, file.size, file.mtime_ns, file.hash, file.memory_type, file.date, file.modified, file.title,
         file.title_written, " ".join(file.tags), file.keywords, file.description, file.aliases, file.author,
         file.skipped),
    )  # fmt: skip
    file_id = int(first(rows))
    conn.execute("DELETE FROM links WHERE file_id = ?", (file_id,))
    conn.execute("DELETE FROM names WHERE file_id = ?", (file_id,))
    conn.execute("DELETE FROM tags WHERE file_id = ?", (file_id,))
    conn.executemany(
        "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?)", [(file_id, *link, link_name(link[0])) for link in file.links]
    )
    names = names_of(file.path, file.called)
    conn.executemany("INSERT INTO names VALUES (?, ?, ?)", [(name, rank, file_id) for name, rank in names.items()])
    conn.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [(tag, file_id) for tag in file.tags])
    return file_id


def insert_chunks(
    conn: apsw.Connection, file_id: int, file: StoredFile, chunks: Sequence[tuple[int, StoredChunk]]
) -> list[int]:
    """Write (position, chunk) pairs of a note to all three tables under new rowids, and return those."""
    if not chunks:
        return []
    row = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
    start = (row[0] if row else 0) + 1
    title, tags, keywords, description, aliases, author = file.fields
    numbered = [(rowid, position, chunk) for rowid, (position, chunk) in enumerate(chunks, start)]
    conn.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(rowid, file_id, position, c.start_line, c.end_line, c.heading, c.date, c.private, c.vector_state, c.hash,
          c.tokens, c.content) for rowid, position, c in numbered],
    )  # fmt: skip
    conn.executemany(
        """INSERT INTO chunks_fts (rowid, content, title, headings, tags, keywords, description, aliases, author, code)
           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, hidden_words(?2 || ' ' || ?3 || ' ' || ?4))""",
        [(rowid, c.content, title, c.heading, tags, keywords, description, aliases, author)
         for rowid, _, c in numbered],
    )  # fmt: skip
    conn.executemany(
        "INSERT INTO vec_chunks (rowid, embedding) VALUES (?, ?)",
        [(rowid, c.vector) for rowid, _, c in numbered if c.vector_state == HAS_VECTOR],
    )
    return [rowid for rowid, _, _ in numbered]


def delete_chunks(conn: apsw.Connection, rowids: Sequence[int]) -> None:
    """Remove passages from all three tables."""
    each = [(rowid,) for rowid in rowids]
    conn.executemany("DELETE FROM chunks_fts WHERE rowid = ?", each)
    conn.executemany("DELETE FROM vec_chunks WHERE rowid = ?", each)
    conn.executemany("DELETE FROM chunks WHERE id = ?", each)


def delete_chunks_for_file(conn: apsw.Connection, file_id: int) -> None:
    delete_chunks(conn, [row[0] for row in conn.execute("SELECT id FROM chunks WHERE file_id = ?", (file_id,))])


def delete_file(conn: apsw.Connection, file_id: int) -> None:
    """Remove a note from every table."""
    delete_chunks_for_file(conn, file_id)
    conn.execute("DELETE FROM links WHERE file_id = ?", (file_id,))
    conn.execute("DELETE FROM names WHERE file_id = ?", (file_id,))
    conn.execute("DELETE FROM tags WHERE file_id = ?", (file_id,))
    conn.execute("DELETE FROM files WHERE id = ?", (file_id,))


class Store:
    """An open index."""

    def __init__(self, conn: apsw.Connection, path: Path | None = None, *, read_only: bool = False) -> None:
        self.conn, self.path, self.read_only = conn, path, read_only
        self._file = file_at(path)
        self._passages = (-1, 0)  # generation, count: counting takes a while, and every search asks

    @classmethod
    def open(cls, path: Path) -> Store:
        """The index as it is; `prepare` makes it what it should be."""
        try:
            conn = connect(path)
            return cls(conn, path, read_only=conn.readonly("main"))
        except DAMAGE as error:
            raise DamagedIndex(str(error)) from None
        except UNUSABLE as error:
            if not is_forbidden(error):  # a full disk passes, and who has it open for reading only would not notice
                raise TarsError(f"cannot open the index {path}: {error}") from None
            refused = error
        try:
            return cls(connect_to_read(path), path, read_only=True)
        except DAMAGE as error:
            raise DamagedIndex(str(error)) from None
        except UNUSABLE as error:
            raise TarsError(f"cannot open the index {path}: {refused}; {error}") from None

    def prepare(self, identity: Identity) -> None:
        prepare(self.conn, identity)

    def close(self) -> None:
        self.conn.close()

    def is_elsewhere(self) -> bool:
        """Whether the file that is open is no longer the one at its path: it was set aside or removed."""
        return file_at(self.path) != self._file

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the index, whatever is written meanwhile."""
        if self.conn.in_transaction:
            yield
            return
        self.conn.execute("BEGIN")
        try:
            has_table(self.conn, "meta")  # the state is that of the first question
            yield
        finally:
            if self.conn.in_transaction:  # SQLite ends it by itself if it finds damage
                self.conn.execute("COMMIT")

    # ---- the state of the whole

    def meta(self, key: str, default: Any = None) -> Any:
        row = self.conn.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else default

    @property
    def identity(self) -> Identity | None:
        return stored_identity(self.conn)

    @property
    def generation(self) -> int:
        """Grows with every write that changes what a search may find."""
        return int(self.meta("generation", 0))

    def counts(self) -> dict[str, int]:
        """Files, chunks, vectors pending and the like."""
        questions = {
            "notes": "SELECT count(*) FROM files WHERE skipped IS NULL",
            "skipped": "SELECT count(*) FROM files WHERE skipped IS NOT NULL",
            "chunks": "SELECT count(*) FROM chunks",
            "pending": "SELECT count(*) FROM chunks WHERE vector_state = 1",
            "links": "SELECT count(*) FROM links",
            "tags": "SELECT count(DISTINCT tag) FROM tags",
        }
        return {name: int(first(self.conn.execute(sql))) for name, sql in questions.items()}

    def passage_count(self) -> int:
        generation = self.generation
        if self._passages[0] != generation:
            self._passages = generation, int(first(self.conn.execute("SELECT count(*) FROM chunks")))
        return self._passages[1]

    def note_count(self) -> int:
        return int(first(self.conn.execute("SELECT count(*) FROM files")))

    def counts_by_type(self) -> dict[str, int]:
        rows = self.conn.execute(
            "SELECT memory_type, count(*) FROM files WHERE skipped IS NULL GROUP BY memory_type ORDER BY 2 DESC"
        )
        return dict(rows)

    def has_pending(self) -> bool:
        return self.conn.execute("SELECT 1 FROM chunks WHERE vector_state = 1 LIMIT 1").fetchone() is not None

    def is_complete(self) -> bool:
        """Whether a whole run has ended since the index was made, and no part of it has gone missing."""
        return has_table(self.conn, "chunks_fts") and bool(self.meta("complete"))

    def is_empty(self) -> bool:
        return self.conn.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is None

    def stamps(self) -> dict[str, FileStamp]:
        """What is known of every file, by path."""
        rows = self.conn.execute("SELECT path, id, size, mtime_ns, hash, skipped FROM files")
        return {row[0]: FileStamp._make(row[1:]) for row in rows}

    # ---- writing

    def write_notes(self, files: Sequence[StoredFile], *, vocabulary: int) -> None:
        """Take in notes, new or changed: passages that stayed the same keep their rows and vectors."""
        with transaction(self.conn):
            added: list[bytes] = []
            gone: list[bytes] = []
            for file in files:
                new, old = self._write_note(file)
                added += new
                gone += old
            self._count_tokens(added, gone, vocabulary)
            next_generation(self.conn)

    def _write_note(self, file: StoredFile) -> tuple[list[bytes], list[bytes]]:
        """Write one note; the tokens of the passages that came and of those that went."""
        before = self.conn.execute(
            "SELECT title, tags, keywords, description, aliases, author FROM files WHERE path = ?", (file.path,)
        ).fetchone()
        if self._links_differ(file):
            set_meta(self.conn, "communities_stale", 1)
        file_id = insert_file(self.conn, file)
        new = list(enumerate(file.chunks))
        stale: list[tuple[int, bytes]] = []
        if before is not None:
            new, stale = self._keep_chunks(file_id, file, same_fields=before == file.fields)
        insert_chunks(self.conn, file_id, file, new)
        return [chunk.tokens for _, chunk in new], [tokens for _, tokens in stale]

    def _links_differ(self, file: StoredFile) -> bool:
        """Whether the note links, or can be linked to, otherwise than the index knows."""
        links = "SELECT name FROM links WHERE file_id = (SELECT id FROM files WHERE path = ?)"
        names = "SELECT name FROM names WHERE file_id = (SELECT id FROM files WHERE path = ?)"
        known = [{row[0] for row in self.conn.execute(sql, (file.path,))} for sql in (links, names)]
        return known != [{link_name(link[0]) for link in file.links}, set(names_of(file.path, file.called))]

    def _keep_chunks(
        self, file_id: int, file: StoredFile, *, same_fields: bool
    ) -> tuple[list[tuple[int, StoredChunk]], list[tuple[int, bytes]]]:
        """Keep the rows of passages that stayed and delete the others; what is new and what was deleted."""
        kept: dict[bytes, list[tuple[int, bytes, int]]] = {}
        for rowid, digest, tokens, state in self.conn.execute(
            "SELECT id, hash, tokens, vector_state FROM chunks WHERE file_id = ? ORDER BY position DESC", (file_id,)
        ):
            kept.setdefault(digest, []).append((rowid, tokens, state))
        new: list[tuple[int, StoredChunk]] = []
        for position, chunk in enumerate(file.chunks):
            # Only the embedded text is in the hash: what else the full text carries must be the same too.
            rows = kept.get(chunk.hash) if same_fields else None
            # A passage that is private no longer gets the vector that was withheld from it, in a new row.
            if rows and rows[-1][1] == chunk.tokens and WITHHELD not in {rows[-1][2], chunk.vector_state}:
                self._move_chunk(rows.pop()[0], position, chunk)
            else:
                new.append((position, chunk))
        stale = [row for rows in kept.values() for row in rows]
        delete_chunks(self.conn, [rowid for rowid, _, _ in stale])
        return new, [(rowid, tokens) for rowid, tokens, _ in stale]

    def _move_chunk(self, rowid: int, position: int, chunk: StoredChunk) -> None:
        self.conn.execute(
            "UPDATE chunks SET position = ?, start_line = ?, end_line = ?, date = ?, private = ? WHERE id = ?",
            (position, chunk.start_line, chunk.end_line, chunk.date, chunk.private, rowid),
        )

    def touch(self, files: Sequence[tuple[int, StoredFile]]) -> None:
        """Note that files have a new time but the old content."""
        with transaction(self.conn):
            self.conn.executemany(
                "UPDATE files SET size = ?, mtime_ns = ?, modified = ?, date = ? WHERE id = ?",
                [(f.size, f.mtime_ns, f.modified, f.date, file_id) for file_id, f in files],
            )
            next_generation(self.conn)

    def delete_files(self, file_ids: Sequence[int], *, vocabulary: int) -> None:
        """Forget notes that are gone, in one transaction."""
        with transaction(self.conn):
            gone: list[bytes] = []
            for file_id in file_ids:
                gone += [row[0] for row in self.conn.execute("SELECT tokens FROM chunks WHERE file_id = ?", (file_id,))]
                delete_file(self.conn, file_id)
            set_meta(self.conn, "communities_stale", 1)
            self._count_tokens([], gone, vocabulary)
            next_generation(self.conn)

    def _count_tokens(self, added: list[bytes], gone: list[bytes], size: int) -> None:
        """Keep the number of passages that hold each token, which search weighs query tokens by."""
        import numpy as np

        counts = self.token_counts(size)
        for blobs, sign in ((added, 1), (gone, -1)):
            if blobs:
                ids = np.frombuffer(b"".join(blobs), dtype=np.uint16).astype(np.int64)
                passage = np.repeat(np.arange(len(blobs)), [len(blob) // 2 for blob in blobs])
                ids = np.unique(passage << 16 | ids) & 0xFFFF  # a token in two lines of a passage counts once
                ids = ids[ids < size]  # the others are marks between lines
                counts = counts + sign * np.bincount(ids, minlength=size).astype(np.int32)
        set_meta(self.conn, "token_counts", counts.astype(np.int32).tobytes())

    def release_withheld(self) -> None:
        """Passages that were kept from another machine wait for a vector again, now that it is made on this one."""
        if self.conn.execute("SELECT 1 FROM chunks WHERE vector_state = ? LIMIT 1", (WITHHELD,)).fetchone():
            with transaction(self.conn):
                self.conn.execute("UPDATE chunks SET vector_state = ? WHERE vector_state = ?", (PENDING, WITHHELD))

    def set_vectors(self, vectors: Iterable[tuple[int, int, bytes | None]]) -> None:
        """Fill in vectors that were pending: rowid, state and vector, None where the text gives none."""
        with transaction(self.conn):
            for rowid, state, vector in vectors:
                if vector is not None:
                    self.conn.execute("INSERT INTO vec_chunks (rowid, embedding) VALUES (?, ?)", (rowid, vector))
                self.conn.execute("UPDATE chunks SET vector_state = ? WHERE id = ?", (state, rowid))
            next_generation(self.conn)

    def begin_after(self, other: Store, identity: Identity) -> None:
        """Start from nothing, to take the place of another index whose readers live on."""
        with transaction(self.conn):
            begin_after(
                self.conn, identity, last_rowid=highest_rowid(other.conn), generation=int(other.meta("generation", 0))
            )

    def become(self, other: Store) -> None:
        """Take over all that another index holds, in one transaction: readers see the old or the new, never both."""
        generation = max(self.generation, other.generation) + 1
        with transaction(other.conn):
            set_meta(other.conn, "generation", generation)
        self.copy(other)
        self.checkpoint()

    def copy(self, other: Store) -> None:
        """Hold what another index holds, page by page, and nothing else."""
        with self.conn.backup("main", other.conn, "main") as copying:
            copying.step(-1)

    def set_communities(self, communities: Mapping[int, int]) -> None:
        """Store the community of each note that has one."""
        before: dict[int, int | None] = dict(self.conn.execute("SELECT id, community FROM files"))
        changed = [(new, file_id) for file_id, old in before.items() if (new := communities.get(file_id)) != old]
        with transaction(self.conn):
            self.conn.executemany("UPDATE files SET community = ? WHERE id = ?", changed)
            set_meta(self.conn, "communities_stale", 0)
            if changed:
                next_generation(self.conn)

    def mark_complete(self) -> None:
        """A whole run has ended: from now on an empty answer is an answer."""
        if not self.meta("complete"):
            with transaction(self.conn):
                set_meta(self.conn, "complete", 1)

    def slots(self) -> tuple[int, int]:
        """Vectors, and the places that the file keeps for vectors."""
        used = first(self.conn.execute("SELECT count(*) FROM vec_chunks_rowids"))
        return int(used), SLOTS * int(first(self.conn.execute("SELECT count(*) FROM vec_chunks_chunks")))

    def pack(self) -> None:
        """Give back the space of what is gone, if that is more than is in use; vec0 seldom gives back a place."""
        used, places = self.slots()
        if places > max(2 * used, FEW_SLOTS):
            with transaction(self.conn):
                identity, rows = self.identity, list(self.all_vectors())
                self.conn.execute("DROP TABLE vec_chunks")
                create_vectors(self.conn, identity.dimensions if identity else 0)
                self.conn.executemany("INSERT INTO vec_chunks (rowid, embedding) VALUES (?, ?)", rows)
        free, pages = (int(first(self.conn.execute(f"PRAGMA {name}_count"))) for name in ("freelist", "page"))
        if free > max(pages / 2, FEW_PAGES):
            self.conn.execute("VACUUM")

    def tidy(self) -> None:
        """Merge the full text's segments after many changes."""
        self.conn.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database, as far as readers allow; only a huge one is worth a wait."""
        for wait_ms in (0, LOG_WAIT_MS):
            self.conn.set_busy_timeout(wait_ms)
            try:
                busy, pages, _ = next(iter(self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
            finally:
                self.conn.set_busy_timeout(BUSY_MS)
            if not busy or pages < MANY_LOG_PAGES:
                return

    def shred(self) -> bool:
        """Have the bytes of deleted rows gone too: from the full text's segments, free pages and the log.

        False if another process reads what was there before; its bytes stay until it is done.
        """
        self.tidy()
        return shred(self.conn)

    # ---- reading for the indexer

    def hashes_of(self, path: str) -> set[bytes]:
        """The hashes of the passages of a note."""
        sql = "SELECT c.hash FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ?"
        return {row[0] for row in self.conn.execute(sql, (path,))}

    def vectors_by_hash(self, hashes: Iterable[bytes]) -> dict[bytes, tuple[int, bytes | None]]:
        """State and vector of passages whose embedded text is known already."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        for digest in set(hashes):
            row = self.conn.execute(
                "SELECT id, vector_state FROM chunks WHERE hash = ? AND vector_state IN (?, ?) LIMIT 1",
                (digest, HAS_VECTOR, NO_VECTOR),
            ).fetchone()
            if row:
                found[digest] = row[1], self.vectors([row[0]]).get(row[0])
        return found

    def pending(self, limit: int, after: int = 0) -> list[tuple[int, str, str, str, bool]]:
        """Passages that wait for a vector: rowid, title as written, heading, content, private."""
        rows = self.conn.execute(
            """SELECT c.id, iif(f.title_written, f.title, ''), c.heading, c.content, c.private
               FROM chunks c JOIN files f ON f.id = c.file_id
               WHERE c.vector_state = 1 AND c.id > ? ORDER BY c.id LIMIT ?""",
            (after, limit),
        )
        return [(rowid, title, heading, content, bool(private)) for rowid, title, heading, content, private in rows]

    def skipped(self) -> list[tuple[str, str]]:
        return list(self.conn.execute("SELECT path, skipped FROM files WHERE skipped IS NOT NULL ORDER BY path"))

    # ---- reading for search

    def match_words(
        self, expression: str, *, weights: Sequence[float], limit: int, filters: Filters | None = None
    ) -> list[tuple[int, float]]:
        """Rowids and BM25 scores, best first; greater is better."""
        subset, values = self._subset(filters)
        sql = f"""SELECT rowid, -rank FROM chunks_fts WHERE chunks_fts MATCH ? AND rank MATCH ? {subset}
                  ORDER BY rank LIMIT ?"""
        function = f"bm25({', '.join(str(float(w)) for w in weights)})"
        return self._cut(
            lambda depth: list(self.conn.execute(sql, (expression, function, *values, depth))), limit, most=2**31
        )

    def has_word(self, expression: str) -> bool:
        sql = "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1"
        return self.conn.execute(sql, (expression,)).fetchone() is not None

    def nearest(self, vector: bytes, *, limit: int, filters: Filters | None = None) -> list[tuple[int, float]]:
        """Rowids and cosines of the nearest passages, nearest first."""
        subset, values = self._subset(filters)
        sql = f"SELECT rowid, distance FROM vec_chunks WHERE embedding MATCH ? AND k = ? {subset} ORDER BY distance"
        with vec0_errors():
            rows = self._cut(
                lambda depth: [(row, -distance) for row, distance in self.conn.execute(sql, (vector, depth, *values))],
                limit,
                most=4096,
            )
        return [(rowid, 1 - less * less / 2) for rowid, less in rows]

    def _cut(
        self, found: Callable[[int], list[tuple[int, float]]], limit: int, *, most: int
    ) -> list[tuple[int, float]]:
        """The best hits. Which of equal ones is the last must not hang on rowids, so all of them are looked at."""
        depth = min(limit + SPARE_HITS, most)
        hits = found(depth)
        while limit <= len(hits) == depth < most and hits[limit - 1][1] == hits[-1][1]:
            depth = min(8 * depth, most)
            hits = found(depth)
        return self.in_order(hits)[:limit]

    def in_order(self, hits: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
        """Best first; equal ones by path and place, which outlast a rebuild."""
        if len({score for _, score in hits}) == len(hits):
            return sorted(hits, key=lambda hit: -hit[1])
        sql = """SELECT c.id, f.path, c.position FROM chunks c JOIN files f ON f.id = c.file_id
                 WHERE c.id IN (SELECT value FROM json_each(?))"""
        places = {row[0]: row[1:] for row in self.conn.execute(sql, (json.dumps([rowid for rowid, _ in hits]),))}
        return sorted(hits, key=lambda hit: (-hit[1], places.get(hit[0], ("", 0))))

    def _subset(self, filters: Filters | None) -> tuple[str, list[Any]]:
        if not filters:
            return "", []
        where, values = filters.where()
        return f"AND rowid IN (SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE {where})", values

    def rowids(self, filters: Filters, *, among: Sequence[int] | None = None) -> set[int]:
        """The passages that satisfy the filters."""
        where, values = filters.where()
        sql = f"SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE {where or '1'}"
        if among is not None:
            sql += " AND c.id IN (SELECT value FROM json_each(?))"
            values = [*values, json.dumps(list(among))]
        return {row[0] for row in self.conn.execute(sql, values)}

    def newest(self, filters: Filters, limit: int) -> list[int]:
        """Passages that satisfy the filters, newest first."""
        where, values = filters.where()
        sql = f"""SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE {where or "1"}
                  ORDER BY COALESCE(c.date, f.date) DESC, f.path, c.position LIMIT ?"""
        return [row[0] for row in self.conn.execute(sql, (*values, limit))]

    def passages(self, rowids: Sequence[int]) -> dict[int, Passage]:
        sql = """SELECT c.id, f.path, f.title, c.heading, f.memory_type, COALESCE(c.date, f.date), f.modified,
                        c.start_line, c.end_line, c.position, c.private, c.content
                 FROM chunks c JOIN files f ON f.id = c.file_id WHERE c.id IN (SELECT value FROM json_each(?))"""
        return {row[0]: Passage(*row) for row in self.conn.execute(sql, (json.dumps(list(rowids)),))}

    def dates(self, rowids: Sequence[int]) -> dict[int, str | None]:
        sql = """SELECT c.id, COALESCE(c.date, f.date) FROM chunks c JOIN files f ON f.id = c.file_id
                 WHERE c.id IN (SELECT value FROM json_each(?))"""
        return dict(self.conn.execute(sql, (json.dumps(list(rowids)),)))

    def notes_of(self, rowids: Sequence[int]) -> dict[int, int]:
        """The note that each of these passages is in."""
        sql = "SELECT id, file_id FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self.conn.execute(sql, (json.dumps(list(rowids)),)))

    def siblings(self, rowids: Sequence[int], filters: Filters) -> list[Passage]:
        """Every passage of the notes that these are in, as far as the filters allow, in the order of the notes."""
        where, values = filters.where()
        sql = f"""SELECT c.id, f.path, f.title, c.heading, f.memory_type, COALESCE(c.date, f.date), f.modified,
                         c.start_line, c.end_line, c.position, c.private, c.content
                  FROM chunks c JOIN files f ON f.id = c.file_id
                  WHERE f.id IN (SELECT file_id FROM chunks WHERE id IN (SELECT value FROM json_each(?)))
                  AND {where or "1"} ORDER BY f.path, c.position"""
        return [Passage(*row) for row in self.conn.execute(sql, (json.dumps(list(rowids)), *values))]

    def neighbours(self, rowids: Sequence[int]) -> list[int]:
        """The passages that stand right before and after these, in the order of these."""
        sql = """SELECT other.id FROM chunks c JOIN chunks other ON other.file_id = c.file_id
                 AND other.position IN (c.position - 1, c.position + 1) WHERE c.id = ? ORDER BY other.position"""
        found = [row[0] for rowid in rowids for row in self.conn.execute(sql, (rowid,))]
        return list(dict.fromkeys(found))

    def tokens_around(self, rowids: Sequence[int], *, reach: int) -> dict[int, tuple[int, int, bytes]]:
        """Note, position and distinct token ids of passages and of those up to `reach` away in their notes.

        The ids are of the lines, as the built-in table packs them. What is private is not looked at for what is not.
        """
        sql = """SELECT near.id, near.file_id, near.position, near.tokens FROM chunks c JOIN chunks near
                 ON near.file_id = c.file_id AND near.position BETWEEN c.position - ?2 AND c.position + ?2
                 AND near.private <= c.private WHERE c.id IN (SELECT value FROM json_each(?1))"""
        found = self.conn.execute(sql, (json.dumps(list(rowids)), reach))
        return {rowid: (note, position, tokens) for rowid, note, position, tokens in found}

    def token_counts(self, size: int) -> Any:
        """How many passages hold each token."""
        import numpy as np

        blob = self.meta("token_counts") or b""
        return np.frombuffer(blob, dtype=np.int32) if blob else np.zeros(size, dtype=np.int32)

    def vectors(self, rowids: Sequence[int]) -> dict[int, bytes]:
        sql = "SELECT rowid, embedding FROM vec_chunks WHERE rowid = ?"
        with vec0_errors():
            return dict(row for rowid in rowids for row in self.conn.execute(sql, (rowid,)))

    def all_vectors(self) -> Iterator[tuple[int, bytes]]:
        with vec0_errors():
            yield from self.conn.execute("SELECT rowid, embedding FROM vec_chunks")

    def vector_rowids(self) -> list[int]:
        return [row[0] for row in self.conn.execute("SELECT id FROM chunks WHERE vector_state = 0 ORDER BY id")]

    def vector_rowid_array(self) -> Any:
        """The rowids that have a vector, for numpy: read from the lists that vec0 keeps, a thousand at a time."""
        import numpy as np

        lists = [np.empty(0, dtype=np.int64)]
        for valid, rowids in self.conn.execute("SELECT validity, rowids FROM vec_chunks_chunks"):
            numbers = np.frombuffer(rowids, dtype=np.int64)
            bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")
            lists.append(numbers[np.flatnonzero(bits[: len(numbers)])])
        return np.concatenate(lists)

    # ---- links

    def has_links(self) -> bool:
        return self.conn.execute("SELECT 1 FROM links LIMIT 1").fetchone() is not None

    def link_count(self) -> int:
        return int(first(self.conn.execute("SELECT count(*) FROM links")))

    def file_ids(self, paths: Iterable[str]) -> dict[str, int]:
        sql = "SELECT path, id FROM files WHERE path IN (SELECT value FROM json_each(?))"
        return dict(self.conn.execute(sql, (json.dumps(list(paths)),)))

    def linked(self, file_ids: Iterable[int]) -> list[tuple[int, int, int]]:
        """(note, neighbour, line) for each link from these notes, with line 0 for each link to them, by path.

        A name stands for one note only, even if several have it.
        """
        sql = f"""SELECT note, other, line FROM (
                      SELECT l.file_id AS note, {NAMED} AS other, l.line AS line FROM links l
                      WHERE l.file_id IN (SELECT value FROM json_each(?1)) AND other IS NOT NULL AND other <> l.file_id
                      UNION
                      SELECT own.file_id, l.file_id, 0 FROM names own JOIN links l ON l.name = own.name
                      WHERE own.file_id IN (SELECT value FROM json_each(?1)) AND l.file_id <> own.file_id
                          AND {NAMED} = own.file_id
                  ) JOIN files f ON f.id = other ORDER BY f.path, line"""
        return list(self.conn.execute(sql, (json.dumps(list(file_ids)),)))

    def all_linked(self) -> list[tuple[int, int]]:
        """Every (note, note it links to), each once, in an order that outlasts a rebuild."""
        sql = f"""SELECT DISTINCT f.path, l.file_id, {NAMED} AS other FROM links l JOIN files f ON f.id = l.file_id
                  WHERE other IS NOT NULL AND other <> l.file_id ORDER BY f.path, l.name"""
        return [(row[1], row[2]) for row in self.conn.execute(sql)]

    def communities(self, paths: Iterable[str]) -> dict[str, int]:
        """The community of each of these notes that has one."""
        sql = """SELECT path, community FROM files
                 WHERE community IS NOT NULL AND path IN (SELECT value FROM json_each(?))"""
        return dict(self.conn.execute(sql, (json.dumps(list(paths)),)))

    def passages_of(self, file_ids: Iterable[int], *, most: int) -> list[tuple[int, int, bytes]]:
        """(note, rowid, tokens) of the first passages of notes, in their order."""
        sql = """SELECT file_id, id, tokens FROM chunks
                 WHERE file_id IN (SELECT value FROM json_each(?)) AND position < ? ORDER BY file_id, position"""
        return list(self.conn.execute(sql, (json.dumps(list(file_ids)), most)))

    def tagged(self, paths: Iterable[str], tag: str) -> set[str]:
        """Those of these notes that have the tag."""
        sql = """SELECT f.path FROM files f JOIN tags t ON t.file_id = f.id
                 WHERE t.tag = ? AND f.path IN (SELECT value FROM json_each(?))"""
        return {row[0] for row in self.conn.execute(sql, (tag, json.dumps(list(paths))))}

    def hashes(self, rowids: Iterable[int]) -> dict[int, bytes]:
        """What names a passage beyond this index: the hash of its text."""
        sql = "SELECT id, hash FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self.conn.execute(sql, (json.dumps(list(rowids)),)))

    # ---- health

    def rowid_sets(self) -> dict[str, set[int]]:
        """The rowids of the three tables that must agree, read from what each really holds."""
        key = {"chunks": "id", "vec_chunks": "rowid", "chunks_fts": "id"}
        return {
            name: {row[0] for row in self.conn.execute(f"SELECT {key[name]} FROM {table}")}
            for name, table in ROWID_TABLES.items()
        }

    def sample(self, count: int) -> list[tuple[Passage, int]]:
        """A few passages, spread over the index, of notes that have few of them; and the state of their vectors."""
        last = highest_rowid(self.conn)
        sql = """SELECT id, vector_state FROM chunks c WHERE id >= ?
                 AND (SELECT count(*) FROM chunks o WHERE o.file_id = c.file_id) <= 30 ORDER BY id LIMIT 1"""
        rows = [self.conn.execute(sql, (last * at // count,)).fetchone() for at in range(count)]
        states: dict[int, int] = dict(row for row in rows if row)
        passages = self.passages(list(states))
        return [(passages[rowid], states[rowid]) for rowid in sorted(passages)]

    def vector_version(self) -> str:
        return str(first(self.conn.execute("SELECT vec_version()")))

    def vectorless(self) -> set[int]:
        return {row[0] for row in self.conn.execute("SELECT id FROM chunks WHERE vector_state <> 0")}

    def damage(self) -> list[str]:
        """What SQLite's own checks complain about."""
        found = [row[0] for row in self.conn.execute("PRAGMA quick_check") if row[0] != "ok"]
        try:
            self.conn.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('integrity-check')")
        except apsw.CorruptError as error:
            found.append(f"full text: {error}")
        return found
