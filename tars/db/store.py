"""The store: every question asked of the index, and every change of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from tars.db.connection import (
    BUSY_MS,
    DAMAGE,
    UNUSABLE,
    connect,
    connect_to_read,
    file_at,
    is_forbidden,
    shred,
    transaction,
    vec0_errors,
)
from tars.db.rows import (
    HAS_VECTOR,
    NO_VECTOR,
    PENDING,
    WITHHELD,
    FileStamp,
    Filters,
    Identity,
    Passage,
    StoredChunk,
    StoredFile,
    link_name,
    names_of,
)
from tars.db.schema import (
    begin_after,
    create_vectors,
    first,
    has_table,
    highest_rowid,
    next_generation,
    prepare,
    set_meta,
    stored_identity,
)
from tars.db.writing import delete_chunks, delete_file, insert_chunks, insert_file
from tars.errors import DamagedIndex, TarsError

MANY_LOG_PAGES, LOG_WAIT_MS = 16_384, 1_000  # 256 MB of pages that readers have kept from being moved
SPARE_HITS = 20  # read beyond the limit of a list, to see whether those at its end are equal
SLOTS = 1_024  # that vec0 makes room for at once
FEW_SLOTS = 4 * SLOTS  # not worth packing anew
FEW_PAGES = 256  # of 16 kB
# The note that a link's name stands for.
NAMED = """(SELECT n.file_id FROM names n JOIN files named ON named.id = n.file_id WHERE n.name = l.name
            ORDER BY n.rank, named.path LIMIT 1)"""
ROWID_TABLES = {"chunks": "chunks", "vec_chunks": "vec_chunks_rowids", "chunks_fts": "chunks_fts_docsize"}


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
