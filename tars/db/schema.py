"""The tables of an index, and how one is brought to another identity."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import apsw

from tars.db.connection import connect, transaction
from tars.db.rows import PENDING, Identity

SCHEMA_VERSION = 3

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
WORD_FIELDS = ("content", "title", "headings", "tags", "keywords", "description", "aliases", "author", "code")
# Contentless: no second copy of the text, and deletes do not have to repeat the old words to be exact.
FULL_TEXT = f"""
CREATE VIRTUAL TABLE chunks_fts USING fts5(
    {", ".join(WORD_FIELDS)}, content='', contentless_delete=1, tokenize='porter unicode61')
"""


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
