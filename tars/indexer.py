"""What changed → chunks → vectors → store. Cost follows what changed, not what exists."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tars import chunker, memory
from tars.db import HAS_VECTOR, NO_VECTOR, PENDING, WITHHELD, FileStamp, Store, StoredChunk, StoredFile
from tars.errors import EmbeddingError, TarsError
from tars.graph import louvain
from tars.memory import NoteFile, Skipped

if TYPE_CHECKING:
    import numpy as np

    from tars.embeddings import Embedder
    from tars.embeddings.builtin import StaticTable

BATCH_BYTES = 2_000_000  # of notes in one transaction: few commits, yet little to lose and little to hold
PENDING_BATCH = 256
MANY_CHANGES = 500  # notes; from here on merging the full text's segments pays
SOME_CHANGES = 20  # notes; a run of so many is no longer one that somebody waits for
FEW_LINKS = 1_000  # grouped in a few hundredths of a second
# A file changed twice within the clock's step can keep its size and time; so fresh a time is not trusted.
FRESH_NS = 2_000_000_000
MANY_NOTES = 20  # that do not vanish at once but with their drive

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Report:
    """What a run did."""

    indexed: int = 0
    removed: int = 0
    unchanged: int = 0
    embedded: int = 0
    pending: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    warning: str | None = None
    seconds: float = 0.0

    def followed_by(self, later: Report) -> Report:
        """Both runs as one: what they did together, and how things stand after the later."""
        return replace(
            later,
            indexed=self.indexed + later.indexed,
            removed=self.removed + later.removed,
            embedded=self.embedded + later.embedded,
            seconds=self.seconds + later.seconds,
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between the folder and the index, by size and time alone."""

    changed: list[NoteFile]
    removed: list[FileStamp]
    unchanged: int
    unlistable: list[Skipped]

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def find_changes(store: Store, folder: Path) -> Changes:
    notes, unlistable = memory.list_notes(folder)
    known = store.stamps()
    if not notes:
        refuse_bare(folder, known=len(known))
    changed = [n for n in notes if (s := known.get(n.path)) is None or (s.size, s.mtime_ns) != (n.size, n.mtime_ns)]
    there = {note.path for note in notes}
    hidden = tuple(skip.path for skip in unlistable if skip.path.endswith("/"))
    # What lies in a folder that cannot be listed just now is not known to be gone.
    removed = [s for path, s in known.items() if path not in there and not path.startswith(hidden or ("\0",))]
    return Changes(changed, removed, len(notes) - len(changed), unlistable)


def refuse_bare(folder: Path, *, known: int) -> None:
    """Take no folder with nothing in it for one whose notes were all deleted: a drive that is away looks like that."""
    if known >= MANY_NOTES and memory.is_bare(folder):
        raise TarsError(
            f"the memory folder {folder} is empty, and the index knows {known} notes: is a drive not mounted?"
            " Nothing was removed; if the notes are gone for good: tars index --full"
        )


class Indexer:
    """Brings an index up to its folder."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        embedder: Embedder,
        table: StaticTable,
        *,
        chunk_chars: int,
        max_file_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.folder, self.embedder, self.table = store, folder, embedder, table
        self.chunk_chars, self.max_file_bytes, self.clock = chunk_chars, max_file_bytes, clock
        self._down: str | None = None  # why the embedding backend is not asked again in this run
        self._out_of_reach: list[Skipped] = []  # notes that stay as the index knows them

    def run(self, changes: Changes, progress: Progress = lambda done, total: None) -> Report:
        """Take in the changes; the caller holds the writer lock."""
        start = time.perf_counter()
        report = Report(unchanged=changes.unchanged, removed=len(changes.removed))
        reuse = not self.store.is_empty()
        done = 0
        for batch in self._batches(changes.changed):
            self._write(batch, report, reuse=reuse)
            done += len(batch)
            progress(done, len(changes.changed))
        if changes.removed:
            # After the new ones: a renamed note finds the vectors of its old name.
            self.store.delete_files([s.id for s in changes.removed], vocabulary=self.table.size)
        if self.embedder is not self.table and not self.embedder.leaves_machine:
            self.store.release_withheld()
        if self.store.has_pending():
            self._fill_pending(report)
        self._finish(report, changes)
        report.seconds = time.perf_counter() - start
        return report

    def _finish(self, report: Report, changes: Changes) -> None:
        if report.indexed + report.removed >= MANY_CHANGES:
            self.store.tidy()
        self._find_communities(report)
        if report.indexed + report.removed:
            self.store.pack()
        self.store.mark_complete()
        if report.indexed or report.removed or report.embedded:
            self.store.checkpoint()
        report.pending = self.store.counts()["pending"] if self.store.has_pending() else 0
        report.skipped = changes.unlistable + self._out_of_reach + [Skipped(*row) for row in self.store.skipped()]
        report.warning = self._down

    def _find_communities(self, report: Report) -> None:
        """Group the notes anew if links changed, unless somebody waits for a few edited notes of a large memory."""
        changed = report.indexed + report.removed
        if not self.store.meta("communities_stale"):
            return
        if 0 < changed < SOME_CHANGES and self.store.link_count() > FEW_LINKS:
            return  # the flag stays: a larger run does it, or one that has nothing else to do
        self.store.set_communities(louvain(self.store.all_linked()))

    def _batches(self, notes: Sequence[NoteFile]) -> Iterator[list[NoteFile]]:
        batch: list[NoteFile] = []
        size = 0
        for note in notes:
            batch.append(note)
            size += min(note.size, self.max_file_bytes)
            if size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _write(self, batch: Iterable[NoteFile], report: Report, *, reuse: bool) -> None:
        """Read, chunk, embed and store some notes; reading and embedding happen outside the transaction."""
        known = self.store.stamps() if reuse else {}
        files: list[StoredFile] = []
        touched: list[tuple[int, StoredFile]] = []
        for note in batch:
            file = self._read(note)
            if file is None:
                continue
            stamp = known.get(note.path)
            if stamp and file.skipped and stamp.skipped == file.skipped and file.mtime_ns == stamp.mtime_ns:
                continue
            if stamp and stamp.hash == file.hash and file.hash is not None and not stamp.skipped:
                touched.append((stamp.id, file))
            else:
                files.append(file)
        if touched:
            self.store.touch(touched)
            report.unchanged += len(touched)
        if files:
            ready = self._with_vectors(files, report, reuse=reuse)
            self.store.write_notes(ready, vocabulary=self.table.size)
        report.indexed += sum(file.skipped is None for file in files)

    def _read(self, note: NoteFile) -> StoredFile | None:
        """The note with its passages, still without vectors; None if it has vanished or is out of reach."""
        modified = moment(note.mtime_ns)
        fresh = abs(self.clock() * 1e9 - note.mtime_ns) < FRESH_NS
        file = StoredFile(
            path=note.path,
            size=note.size,
            mtime_ns=-1 if fresh else note.mtime_ns,
            modified=modified.strftime("%Y-%m-%dT%H:%M:%SZ"),
            memory_type=memory.memory_type(note.path),
            title=PurePosixPath(note.path).stem,
        )
        try:
            content = memory.read_bytes(self.folder, note.path, max_bytes=self.max_file_bytes)
            text = memory.decode(content)
        except FileNotFoundError:
            return None
        except memory.OutOfReach as reason:
            self._out_of_reach.append(Skipped(note.path, str(reason)))
            return None
        except memory.Undecodable as reason:
            return replace(file, skipped=str(reason))
        except memory.Unreadable as reason:
            # Rights and limits can change without the file: it is looked at again in every run.
            return replace(file, skipped=str(reason), mtime_ns=-1)
        return self._understand(replace(file, hash=hashlib.sha256(content).digest()), text, modified)

    def _understand(self, file: StoredFile, text: str, modified: datetime) -> StoredFile:
        note = chunker.read_note(text, size=self.chunk_chars)
        written = note.title or ""
        texts = [embedded_text(written, c.heading, c.text) for c in note.chunks]
        return replace(
            file,
            date=note.date or chunker.date_of_name(file.path) or modified.astimezone().date().isoformat(),
            title=written or file.title,
            title_written=bool(written),
            tags=note.tags,
            keywords=" ".join((*note.keywords, note.properties)).strip(),
            description=note.description,
            aliases=" ".join(note.aliases),
            called=(written, *note.aliases),
            author=note.author,
            links=tuple((k.target, k.heading, k.alias, k.embed, k.line) for k in note.links),
            chunks=tuple(
                StoredChunk(c.text, c.start_line, c.end_line, c.heading, c.date, c.private, digest(t), b"")
                for c, t in zip(note.chunks, texts, strict=True)
            ),
        )

    # ---- vectors

    def _with_vectors(self, files: list[StoredFile], report: Report, *, reuse: bool) -> list[StoredFile]:
        chunks = [chunk for file in files for chunk in file.chunks]
        titles = [file.title if file.title_written else "" for file in files for _ in file.chunks]
        texts = [embedded_text(t, c.heading, c.content) for t, c in zip(titles, chunks, strict=True)]
        known = self.store.vectors_by_hash(c.hash for c in chunks) if reuse else {}
        fresh = [i for i, chunk in enumerate(chunks) if chunk.hash not in known]
        if self.embedder is self.table and len(fresh) == len(texts):
            tokens, rows = self.table.read(texts)  # one cut into word pieces serves both
            vectors = {i: as_stored(row) for i, row in enumerate(rows)}
        else:
            tokens = self.table.distinct_tokens(texts)
            vectors = dict(zip(fresh, self._embed([(texts[i], chunks[i].private) for i in fresh]), strict=True))
        report.embedded += sum(state == HAS_VECTOR for state, _ in vectors.values())
        done = iter(
            replace(c, tokens=t, vector_state=state, vector=vector)
            for i, (c, t) in enumerate(zip(chunks, tokens, strict=True))
            for state, vector in [known.get(c.hash) or vectors[i]]
        )
        return [replace(file, chunks=tuple(next(done) for _ in file.chunks)) for file in files]

    def _embed(self, texts: Sequence[tuple[str, bool]]) -> list[tuple[int, bytes | None]]:
        """State and vector for each (text, private); pending if the backend is down."""
        out: list[tuple[int, bytes | None]] = [(WITHHELD, None)] * len(texts)
        # A private passage is never sent to another machine: it is found by its words.
        sent = [i for i, (_, private) in enumerate(texts) if not (private and self.embedder.leaves_machine)]
        if sent:
            rows = self._ask([texts[i][0] for i in sent])
            for at, i in enumerate(sent):
                out[i] = (PENDING, None) if rows is None else as_stored(rows[at])
        return out

    def _ask(self, texts: Sequence[str]) -> np.ndarray | None:
        if self._down is not None:
            return None
        try:
            rows = self.embedder.documents(texts)
        except EmbeddingError as error:
            self._down = str(error)
            return None
        identity = self.store.identity
        if identity and identity.dimensions != rows.shape[1]:
            was = identity.dimensions
            self._down = f"{identity.embedding} gives {rows.shape[1]} dimensions, not {was}; run: tars index --full"
            return None
        return rows

    def _fill_pending(self, report: Report) -> None:
        last = 0
        while self._down is None and (waiting := self.store.pending(PENDING_BATCH, after=last)):
            last = waiting[-1][0]
            vectors = self._embed([(embedded_text(t, h, c), private) for _, t, h, c, private in waiting])
            ready = [(row[0], state, v) for row, (state, v) in zip(waiting, vectors, strict=True) if state != PENDING]
            if ready:
                self.store.set_vectors(ready)
            report.embedded += sum(vector is not None for _, _, vector in ready)


def embedded_text(title: str, heading: str, content: str) -> str:
    """What a passage is embedded and hashed as: its place in the note, then its words."""
    return "\n".join(part for part in (title, heading, content) if part)


def moment(mtime_ns: int) -> datetime:
    """A file's time; one that no calendar has is taken for the beginning of time."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:16]


def as_stored(row: np.ndarray) -> tuple[int, bytes | None]:
    return (HAS_VECTOR, row.tobytes()) if row.any() else (NO_VECTOR, None)
