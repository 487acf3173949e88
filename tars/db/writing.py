"""Notes and their passages, written to and deleted from every table; the caller has a transaction open."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from tars.db.rows import HAS_VECTOR, StoredChunk, StoredFile, link_name, names_of
from tars.db.schema import first


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
