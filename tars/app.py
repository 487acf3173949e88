"""The whole: builds store, embedder, table and pipeline from the settings, for every door alike."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property, lru_cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import apsw

import tars.chunker
from tars import memory, notes
from tars.access import AccessLog
from tars.config import Config, fill
from tars.db import DAMAGE, SCHEMA_VERSION, UNWRITABLE, Filters, Identity, Store, trouble
from tars.embeddings import Embedder, embedder
from tars.embeddings.builtin import StaticTable
from tars.errors import ChatError, EmbeddingError, TarsError, UsageError, redact
from tars.indexer import MANY_CHANGES, Changes, Indexer, Progress, Report, find_changes, refuse_bare
from tars.locks import Lock
from tars.renewal import aside, discard, next_index, set_aside
from tars.search.boosters import PRESETS
from tars.search.budget import limit_for
from tars.search.cache import Cache
from tars.search.explain import Trace
from tars.search.fusion import Fused
from tars.search.pipeline import MODES, Outcome, Pipeline, Watch, hydrate, name_of
from tars.search.presets import merged
from tars.search.query import EmptyReason, Index, Query, SearchResult, clamp_limit, normalise
from tars.search.settings import BY_NAME, PLAIN, configured, preset_of, settable
from tars.search.vectors import Matrix

if TYPE_CHECKING:
    from tars.chat import Provider

CHANGED = {
    "folder": "memory folder",
    "schema": "version of the index",
    "chunker": "way to cut notes",
    "tokens": "table of words",
    "embedding": "embedding model",
    "dimensions": "length of vectors",
}

MOST_LOOKS = 10  # of one run on behalf of others; in a crowd that never rests, somebody else's turn comes

IMAGINE = """Write the two or three sentences that a person's own note would hold if it answered the question. \
Say what such a note might say, with likely names and words; do not ask back, explain or hedge."""


P = ParamSpec("P")
R = TypeVar("R")


def in_words(method: Callable[Concatenate[App, P], R]) -> Callable[Concatenate[App, P], R]:
    """What the disk does to the index meanwhile is told to the person, or to the model that called a tool."""

    @wraps(method)
    def telling(self: App, /, *args: P.args, **more: P.kwargs) -> R:
        try:
            return method(self, *args, **more)
        except UNWRITABLE as error:
            raise TarsError(
                f"cannot use the index {self.config.index_file}: {trouble(error)}; the notes are safe"
            ) from None
        except apsw.BusyError:  # tars itself gives way to tars long before
            raise TarsError(
                f"another program keeps the index {self.config.index_file} to itself; end that, then: tars index"
            ) from None

    return telling


def alone(method: Callable[Concatenate[App, P], R]) -> Callable[Concatenate[App, P], R]:
    """One thread at a time: a connection is not to be used by two."""

    @wraps(method)
    @in_words
    def waiting(self: App, /, *args: P.args, **more: P.kwargs) -> R:
        with self._alone:
            return method(self, *args, **more)

    return waiting


def mended(method: Callable[Concatenate[App, P], R]) -> Callable[Concatenate[App, P], R]:
    """Once more with a new index, if the old one turns out to be damaged."""

    @wraps(method)
    def trying(self: App, /, *args: P.args, **more: P.kwargs) -> R:
        try:
            return method(self, *args, **more)
        except DAMAGE as error:
            self.replace_damaged(error)
            return method(self, *args, **more)

    return trying


def quiet(message: str) -> None:
    """Where nobody listens."""


class App:
    """One memory folder and everything that works on it."""

    def __init__(self, config: Config, *, say: Callable[[str], None] = quiet, lives: bool = False) -> None:
        self.config, self.say, self.lives = config, say, lives
        if config.search:
            configured(config.search)  # a wrong setting is told by every command, not only by those that search
        self.cache = Cache()
        self._store: Store | None = None
        self._index: Index | None = None
        self._alone = threading.RLock()
        self._warmed = -1  # the generation of the index for which the most frequent questions were searched
        self._closed = False

    def __enter__(self) -> App:
        return self

    @alone
    def __exit__(self, *exc: object) -> None:
        self._closed = True
        self._let_go()

    # ---- the parts

    @cached_property
    def table(self) -> StaticTable:
        return StaticTable()

    @cached_property
    def embedder(self) -> Embedder:
        if self.config.embedding == "builtin":
            return self.table
        return embedder(self.config.embedding, ollama_host=self.config.ollama_host)

    def embedder_of(self, name: str) -> Embedder | None:
        """The backend whose vectors an index holds; None if it cannot be had any more."""
        if name == self.embedder.name:
            return self.embedder
        if name == self.table.name:
            return self.table
        return self._former(name) if name.startswith("ollama:") else None

    @lru_cache(maxsize=1)  # noqa: B019 - an App lives as long as the process
    def _former(self, name: str) -> Embedder:
        return embedder(name, ollama_host=self.config.ollama_host)

    @property
    def store(self) -> Store:
        """The index, opened again if another file has taken its place: a damaged one is set aside."""
        if self._store is not None and self._store.is_elsewhere():
            self._let_go()
        if self._store is None:
            self._store = Store.open(self.config.index_file)
        return self._store

    def _let_go(self) -> None:
        """Close the index; what was read from it is worth nothing beside another."""
        if self._store is not None:
            self._store.close()
        self._store = self._index = None
        self.cache = Cache()

    @cached_property
    def pipeline(self) -> Pipeline:
        return configured(self.config.search)

    @property
    def index(self) -> Index:
        """What is searched: the index with the model that it was made with."""
        store = self.store
        identity = store.identity
        asked = (self.embedder_of(identity.embedding) if identity else None) or self.embedder
        if self._index is None or self._index.store is not store or self._index.embedder is not asked:
            self._index = Index(store, self.table, asked, Matrix(store) if self.lives else None, self.access)
        return self._index

    @cached_property
    def access(self) -> AccessLog:
        """What was used; apart from the index, which can be made again."""
        file = self.config.places.state / "access.db"
        return AccessLog(file, str(self.config.memory_dir), today=lambda: self.now().date())

    def wanted_identity(self) -> Identity:
        """What the index should be made with. A backend that is down does not change what is known of it."""
        stored = self.store.identity
        if stored and stored.embedding == self.embedder.name and stored.dimensions:
            dimensions = stored.dimensions
        else:
            try:
                dimensions = self.embedder.dimensions
            except EmbeddingError:
                dimensions = 0
        return Identity(
            folder=str(self.config.memory_dir),
            schema=SCHEMA_VERSION,
            chunker=f"{tars.chunker.VERSION}/{self.config.index.chunk_chars}",
            tokens=f"{self.table.name} by lines",
            embedding=self.embedder.name,
            dimensions=dimensions,
        )

    # ---- keeping the index true

    @alone
    def build(self, *, full: bool = False, progress: Progress = lambda done, total: None) -> Report | None:
        """Bring the index up to the folder; None if another process is doing so, which then looks once more for us.

        Nobody waits. Whoever finds the lock taken leaves word and tries once more; whoever gives it back looks whether
        there is word. So either the one or the other takes in what was there before.
        """
        self._ensure_folder()
        report = self._build_once(full, progress)
        if report is None:
            self._leave_word()
            report = self._build_once(full, progress)
        looks = 0
        while report is not None and self._word.exists() and (looks := looks + 1) < MOST_LOOKS:
            more = self._build_once(False, progress)
            if more is None:
                break
            report = report.followed_by(more)
        return report

    @property
    def _word(self) -> Path:
        """There if somebody wants the folder looked at again."""
        return self.config.index_file.with_suffix(".again")

    def _leave_word(self) -> None:
        with suppress(OSError):  # a disk that takes nothing more; the next run sees the change anyway
            self._word.touch(mode=0o600)

    def _build_once(self, full: bool, progress: Progress) -> Report | None:
        lock = self._writer_lock()
        if not lock.acquire():
            return None
        try:
            with suppress(OSError):
                self._word.unlink()
            return self._build(full, progress)
        except DAMAGE as error:
            self._set_aside(error)
            return self._build(False, progress)
        except UNWRITABLE as error:
            raise TarsError(
                f"cannot write the index {self.config.index_file}: {trouble(error)}; when that is mended: tars index"
            ) from None
        finally:
            lock.release()

    def _build(self, full: bool, progress: Progress) -> Report:
        if self.store.read_only:
            raise TarsError(f"the index {self.config.index_file} may not be written to by this user")
        found = self.store.identity
        wanted = self._attainable(self.wanted_identity(), found)
        if full:
            wanted = replace(wanted, dimensions=self._probe(wanted.dimensions))
        if not found and self.config.origins["memory_dir"] == "./memory":
            self.say(f"indexing {self.config.memory_dir} for the first time")  # nobody named this folder
        if found and found != wanted:
            changed = [f.name for f in fields(Identity) if getattr(found, f.name) != getattr(wanted, f.name)]
            self.say(
                f"another {' and '.join(CHANGED[name] for name in changed)} than the index has; bringing it up to that"
            )
        if found and not self.store.is_empty() and (full or found != wanted):
            if not full:
                refuse_bare(self.config.memory_dir, known=self.store.note_count())
            return self._renew(found, wanted, progress, afresh=full)
        discard(aside(self.config.index_file))
        was_complete = found is not None and self.store.is_complete()
        self.store.prepare(wanted)
        report = self._take_in(self.store, progress)
        if not was_complete or report.indexed >= MANY_CHANGES:
            report.warning = self._unfound(self.store) or report.warning
        return report

    def _take_in(self, store: Store, progress: Progress) -> Report:
        changes = find_changes(store, self.config.memory_dir)
        return self._indexer(store).run(changes, progress)

    def _renew(self, found: Identity, wanted: Identity, progress: Progress, *, afresh: bool) -> Report:
        """Make the index anew aside; the old one answers until the new one takes its place, whole."""
        file = self.config.index_file
        with next_index(self.store, file, wanted, afresh=afresh) as new:
            report = self._take_in(new, progress)
            lost = report.warning is not None and found.embedding != wanted.embedding
            unfound = None if lost else self._unfound(new)
            if not lost and not unfound:
                self.store.become(new)
        if unfound:
            discard(aside(file))
            raise TarsError(f"the new index does not work, so the old one stays: {unfound}")
        if lost:
            # What was made so far is kept for the next run; until then the old index goes on.
            self.say(f"{report.warning}; the index stays with {found.embedding} until that answers")
            self.store.prepare(replace(wanted, embedding=found.embedding, dimensions=found.dimensions))
            return self._take_in(self.store, progress)
        discard(aside(file))
        return report

    def _attainable(self, wanted: Identity, found: Identity | None) -> Identity:
        """What the index can be made with now: not with a new model that does not answer, if the old one is there."""
        if found is None or found.embedding == wanted.embedding or self.embedder_of(found.embedding) is None:
            return wanted
        try:
            self.embedder.query("hello")
        except EmbeddingError as error:
            self.say(f"{error}; the index stays with {found.embedding} until that answers")
            return replace(wanted, embedding=found.embedding, dimensions=found.dimensions)
        return wanted

    def _unfound(self, store: Store) -> str | None:
        """What a fresh index holds and does not find: then something is wrong that no error told."""
        from tars.canaries import unfound

        identity = store.identity
        asked = self.embedder_of(identity.embedding) if identity else None
        lost = unfound(Index(store, self.table, asked or self.embedder))
        return f"{'; '.join(lost)}; run: tars doctor" if lost else None

    @alone
    def replace_damaged(self, damage: Exception) -> None:
        """Set the index aside and make it anew, because of something that only a closer look has shown."""
        lock = self._writer_lock()
        if not lock.acquire():
            raise TarsError(f"the index is damaged ({damage}), and another process is at work on it; try again soon")
        try:
            if not self._was_replaced():
                self._set_aside(damage)
                self._build(False, lambda done, total: None)
        finally:
            lock.release()

    def _was_replaced(self) -> bool:
        """Whether another process has set the damaged index aside by now; the new one is not to follow it."""
        if self._store is not None:
            return self._store.is_elsewhere()
        try:
            return bool(self.store)  # which could not be opened before
        except DAMAGE:
            return False

    def _set_aside(self, damage: Exception) -> None:
        """Make room for a new index; the writer lock is held."""
        self._let_go()
        name = set_aside(self.config.index_file)
        self.say(f"the index was damaged ({damage}); it is now {name.name}, and a new one is made from the notes")

    @alone
    def changes(self) -> Changes | None:
        """What a run would look into, by size and time alone; None if the index has to be made or brought up first."""
        try:
            if self.store.identity != self.wanted_identity() or not self.store.is_complete():
                return None
            return find_changes(self.store, self.config.memory_dir)
        except DAMAGE:
            return None  # who builds it, sets it aside

    @alone
    def refresh(self, progress: Progress = lambda done, total: None) -> Report | None:
        """Before a question: look at the folder, by size and time alone, and take in what changed."""
        self._ensure_folder()
        if self._is_true():
            return None
        report = self.build(progress=progress)
        if report is None:
            self.say("another process is indexing; searching what is there so far")
        return report if report and (report.indexed or report.removed or report.warning) else None

    def _is_true(self) -> bool:
        """Whether nothing needs to be done, or can be."""
        try:
            if self.store.read_only:
                self._let_go()  # it may be writable by now
            store = self.store
            if store.read_only:
                self.say("the index may not be written to by this user; searching it as it is")
                return True
            if not store.identity and self.config.origins["memory_dir"] != "./memory":
                self.say(f"indexing {self.config.memory_dir} for the first time")
        except DAMAGE:
            return False
        changes = self.changes()
        return changes is not None and not changes

    def has_index(self) -> bool:
        """Whether there is something to search."""
        try:
            return self.store.is_complete()
        except (TarsError, *UNWRITABLE, *DAMAGE):
            return False

    def _writer_lock(self) -> Lock:
        return Lock(self.config.index_file.with_suffix(".lock"))

    def _probe(self, known: int) -> int:
        try:
            return self.embedder.dimensions
        except EmbeddingError:
            return known

    def _indexer(self, store: Store) -> Indexer:
        settings = self.config.index
        made_with = self.embedder_of(store.identity.embedding) if store.identity else None
        return Indexer(
            store,
            self.config.memory_dir,
            made_with or self.embedder,
            self.table,
            chunk_chars=settings.chunk_chars,
            max_file_bytes=settings.max_file_mb * 1_000_000,
        )

    def _ensure_folder(self) -> None:
        folder = self.config.memory_dir
        if folder.is_dir():
            return
        if folder.exists():
            raise TarsError(f"{folder} is not a folder; name the folder of notes with --memory")
        if self.config.origins["memory_dir"] != "default":
            raise TarsError(f"the memory folder {folder} does not exist; make it, or name another with --memory")
        memory.ensure_folder(folder)
        self.say(f"made a memory folder for you: {folder}")

    # ---- writing to memory

    def remember(self, fact: str, section: str | None = None) -> notes.Written:
        """Add a fact to Memory.md; a search finds it from now on."""
        self._ensure_folder()
        return self._taken_in(notes.remember(self.config.memory_dir, fact, section=section, lock=self._notes_lock))

    def update(self, old: str, new: str, path: str | None = None) -> notes.Written:
        """Put new words in the place of a line's, which is named by all of its text."""
        self._ensure_folder()
        return self._taken_in(notes.update(self.config.memory_dir, old, new, path=path, lock=self._notes_lock))

    def forget(self, text: str, path: str | None = None) -> notes.Written:
        """Remove a line, which is named by all of its text."""
        self._ensure_folder()
        return self._taken_in(notes.forget(self.config.memory_dir, text, path=path, lock=self._notes_lock))

    def write_new(self, path: str, text: str) -> notes.Written:
        """Add a note of tars' own; TarsError if there is one of that name."""
        self._ensure_folder()
        notes.write_note(self.config.memory_dir, path, text.encode(), expected=None, lock=self._notes_lock)
        return self._taken_in(notes.Written(path, 1, text))

    def rewrite(self, path: str, content: bytes, *, expected: str) -> None:
        """Put other bytes in the place of a note, unless it has changed; the next `build` takes them in."""
        notes.write_note(self.config.memory_dir, path, content, expected=expected, lock=self._notes_lock)

    @alone
    def shred(self, *, wait_seconds: float) -> bool:
        """Have the bytes of what is gone from the index gone too; False if another process is in the way."""
        lock = self._writer_lock()
        if not lock.acquire(wait_seconds):
            return False
        try:
            return self.store.shred()
        finally:
            lock.release()

    @property
    def _notes_lock(self) -> Path:
        """Beside the index: sync tools would carry a lock in the folder to other machines."""
        return self.config.index_file.with_suffix(".notes-lock")

    def _taken_in(self, written: notes.Written) -> notes.Written:
        try:
            if written.changed and self.build() is None:
                self.say("another process is indexing; what was written is found when that is done")
        except TarsError as error:  # what was asked for is done, and the next run makes up for the rest
            self.say(f"{written.path} is written, but not yet in the index: {error}")
        return written

    # ---- the folder

    def note_text(self, path: str) -> str:
        """The text of a note, empty if there is none that can be read."""
        try:
            content = memory.read_bytes(
                self.config.memory_dir, path, max_bytes=self.config.index.max_file_mb * 1_000_000
            )
            return memory.decode(content)
        except (FileNotFoundError, memory.Unreadable):
            return ""

    # ---- models

    def now(self) -> datetime:
        return self.config.now or datetime.now().astimezone()

    def provider(self, name: str = "") -> Provider:
        """The model that a setting names: claude:MODEL, ollama:MODEL, recall, or auto for the best there is."""
        name = name or self.config.model
        kind, _, model = (self.default_model() if name == "auto" else name).partition(":")
        settings = self.config.agent
        if kind == "claude":
            from tars.chat.claude import DEFAULT_MODEL, Claude

            return Claude(
                model or DEFAULT_MODEL,
                api_key=self.config.anthropic_api_key,
                base_url=self.config.anthropic_base_url,
                max_tokens=settings.max_tokens,
            )
        if kind == "ollama" and model:
            from tars.chat.ollama import OllamaChat

            return OllamaChat(
                model, host=self.config.ollama_host, keep_alive=settings.keep_alive, max_num_ctx=settings.max_num_ctx
            )
        if kind == "recall" and not model:
            from tars.chat.recall import Recall
            from tars.search.late import relevance

            return Recall(lambda question, texts: relevance(question, texts, self.index))
        raise UsageError(f"no model '{name}'; there are: claude:MODEL, ollama:MODEL, recall")

    def imagine(self, question: str) -> str:
        """What an answer to a question might say, as a model would write it; nothing if none can."""
        return self._written(IMAGINE, question, without="searching without a hypothesis")

    def judge(self, prompt: str) -> str:
        """What the model answers to a prompt about passages; nothing if there is none."""
        return self._written("", prompt, without="the order of the results is not the model's")

    def _written(self, system: str, prompt: str, *, without: str) -> str:
        """What the model answers, for a search; if it fails, the person is told what is done without it."""
        from tars.chat import Message, Text

        try:
            provider = self.provider()
            if provider.name == "recall":
                return ""
            answer = provider.stream(system, [Message("user", prompt)], [])
            return "".join(event.text for event in answer if isinstance(event, Text))
        except ChatError as error:
            self.say(f"{without}: {error}")
            return ""

    def default_model(self) -> str:
        """Claude with a key, else a chat model of an Ollama that answers, else none."""
        if self.config.anthropic_api_key:
            return "claude"
        local = self.local_models()
        return f"ollama:{local[0]}" if local else "recall"

    def local_models(self) -> list[str]:
        from tars.chat.ollama import list_models

        return list_models(self.config.ollama_host) or []

    @cached_property
    def models(self) -> list[str]:
        """Names for completion."""
        from tars.chat.claude import KNOWN_MODELS

        claude = [f"claude:{name}" for name in KNOWN_MODELS] if self.config.anthropic_api_key else []
        return [*claude, *(f"ollama:{name}" for name in self.local_models()), "recall"]

    # ---- asking

    @alone
    def note_paths(self) -> list[str]:
        """The paths of all notes that are known."""
        return sorted(self.store.stamps())

    @mended
    @alone
    def record_use(self, results: Sequence[SearchResult]) -> bool:
        """Count passages that were used (read or cited, not just found) together; False if it had to be dropped."""
        hashes = self.store.hashes(result.chunk_rowid for result in results)
        return self.access.record([(r.file_path, hashes[r.chunk_rowid]) for r in results if r.chunk_rowid in hashes])

    @mended
    @alone
    def neighbours(self, results: Sequence[SearchResult]) -> list[SearchResult]:
        """The passages right before and after these in their notes, those of the best first."""
        rowids = self.store.neighbours([result.chunk_rowid for result in results])
        known = {result.chunk_rowid for result in results}
        return hydrate([Fused(rowid, 0.0, {}) for rowid in rowids if rowid not in known], self.store)

    @mended
    @in_words
    def search(
        self,
        text: str,
        *,
        limit: int = 0,
        mode: str = "",
        min_score: float | None = None,
        min_confidence: float | None = None,
        filters: Filters | None = None,
        hypothesis: str = "",
        about: str = "",
        budget: int = 0,
        explain: bool = False,
        watch: Watch | None = None,
    ) -> Outcome:
        """The best passages for a question, from the index as it is."""
        mode = mode or self.config.search.get("mode", "hybrid")
        if mode not in MODES:
            raise UsageError(f"no search mode '{mode}'; there are: {', '.join(MODES)}")
        if about and about not in PRESETS:
            raise UsageError(f"nothing is known about '{about}'; there are: {', '.join(PRESETS)}")
        with self._alone:
            identity, wanted = self.store.identity, self.wanted_identity()
        if identity is None or identity.schema != wanted.schema or identity.folder != wanted.folder:
            reason = "the memory is being indexed for the first time by another process; ask again in a moment"
            return Outcome([], mode, EmptyReason("no_index", reason))
        with self._alone:
            pending, index = self.store.has_pending(), self.index
        notices: list[str] = []
        unknown = index.embedder.name != identity.embedding or identity.tokens != wanted.tokens
        if unknown and mode != "fts":
            notices.append("searching by words only: the index's vectors are of another model; run: tars index")
            mode = "fts"
        elif mode != "fts" and pending:
            notices.append("some passages have no vector yet and are found by their words only; run: tars index")
        budget = max(budget, 0)
        most = self.config.search.get("limit", 10)
        query = Query(
            text=normalise(text),
            index=index,
            limit=clamp_limit(limit, limit_for(budget, most) if budget else most),
            mode=mode,
            filters=filters or Filters(),
            hypothesis=normalise(hypothesis),
            imagine=self.imagine,
            judge=self.judge,
            about=about,
            today=self.now().date(),
            min_score=self.config.search.get("min_score", 0.0) if min_score is None else min_score,
            min_confidence=self.config.search.get("min_confidence", 0.0) if min_confidence is None else min_confidence,
            budget=budget,
            explain=explain,
        )
        outcome = self._answered(query, watch)
        if mode == "vec" and outcome.notices:  # there is no vector for the question: the words are what there is
            outcome = replace(self._answered(replace(query, mode="fts"), watch), notices=outcome.notices)
        return replace(outcome, notices=(*notices, *outcome.notices)) if notices else outcome

    def _answered(self, query: Query, watch: Watch | None) -> Outcome:
        """From the cache in a process that lives, unless somebody watches the stages."""
        if not self.lives or watch:
            return self._run(query, watch)
        return self.cache(query, self._circumstances(), lambda: self._run(query))

    def _run(self, query: Query, watch: Watch | None = None) -> Outcome:
        trace = Trace(query) if query.explain and not watch else None
        with self._alone, self.store.snapshot():
            watch = watch or trace
            outcome = self.pipeline(query, watch) if watch else self.pipeline(query)
            if outcome.empty_reason and not self.store.is_complete():
                reason = "the index is still being built by another process; ask again in a moment"
                outcome = replace(outcome, empty_reason=EmptyReason("no_index", reason))
        return trace.onto(outcome) if trace else outcome

    def _circumstances(self) -> tuple[object, ...]:
        """What an answer depends on beside the question: how it is searched, and the state of what is searched."""
        with self._alone:
            index = self.store.generation, self.store.is_complete()
        return self.pipeline, *index, *stamps(self.access.file)

    def idle(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """While nobody asks: load the vectors, and after a change of the notes search anew what was asked most.

        Ends with what it is at once `stopped`. What has to ask a model or another process is left to those who wait
        for the answer: it costs, and it may hang.
        """
        with suppress(TarsError, apsw.Error, OSError):  # nobody asked, so nobody is told
            generation = self._ready(stopped)
            if generation not in (None, self._warmed) and not stopped():
                self._warmed = generation
                self.warm(stopped=stopped)

    @alone
    def _ready(self, stopped: Callable[[], bool]) -> int | None:
        """Load what the first question would wait for; the generation of the index, if searching it asks nobody."""
        if self._closed or not self.lives or not self.store.identity:
            return None
        index = self.index
        if index.matrix is not None:
            with index.store.snapshot():
                index.matrix.refresh(stopped)
        asking = {"imagine", "model_rerank"}.intersection(map(name_of, self.pipeline.stages()))
        return None if asking or index.embedder is not self.table else self.store.generation

    def warm(self, count: int = 5, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Search anew what was asked most, so that it is there when it is asked again.

        For idle moments, and not with the lock held: whoever searches the same may be waiting for that.
        """
        for query in self.cache.frequent(count):
            if stopped() or self._closed:
                return
            with self._alone:
                query = replace(query, today=self.now().date(), index=self.index)
            self.cache(query, self._circumstances(), partial(self._run, query), counts=False)


def stamps(file: Path) -> tuple[int, ...]:
    """What changes when a database is written to."""
    found: list[int] = []
    for path in (file, file.with_name(file.name + "-wal")):
        with suppress(FileNotFoundError):
            found += (path.stat().st_mtime_ns, path.stat().st_size)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: str
    origin: str


def settings(app: App) -> list[Setting]:
    """Every setting as it came out, and where it came from; then the pipeline that they make."""
    config, places = app.config, app.config.places
    preset = preset_of(config.search)
    search = merged(config.search, preset)
    values: dict[str, Any] = {
        "memory_dir": config.memory_dir,
        "model": config.model,
        "embedding": config.embedding,
        "ollama_host": config.ollama_host,
        "anthropic_base_url": config.anthropic_base_url,
        **{f"agent.{f.name}": getattr(config.agent, f.name) for f in fields(config.agent)},
        **{f"index.{f.name}": getattr(config.index, f.name) for f in fields(config.index)},
        **{f"search.{key}": search.get(key, default) for key, default in PLAIN.items()},
    }
    for name, stage in BY_NAME.items():
        if settable(stage):
            used = fill(type(stage), search.get(name, {}), where=f"search.{name}")
            values |= {f"search.{name}.{f.name}": getattr(used, f.name) for f in fields(used)}
    rows = [Setting(key, redact(as_in_file(value)), origin_of(key, config, preset)) for key, value in values.items()]
    rows += stages_of(app.pipeline)
    rows += [Setting("config file", str(places.config_file), "there" if places.config_file.exists() else "none")]
    return [*rows, Setting("index file", str(config.index_file), "from memory_dir")]


def as_in_file(value: Any) -> str:
    """A list, and what is empty, as the config file has it; the rest bare, to be read.

    >>> as_in_file(("recency", "links")), as_in_file((1.0, 3.0)), as_in_file(""), as_in_file(10)
    ('["recency", "links"]', '[1.0, 3.0]', '""', '10')
    """
    return json.dumps(value, ensure_ascii=False) if value == "" or isinstance(value, tuple | list) else str(value)


def origin_of(key: str, config: Config, preset: Mapping[str, Any]) -> str:
    """The file or the flag that says it, else the preset that does."""
    section, _, rest = key.partition(".")
    name, _, field = rest.partition(".")
    if not field:
        found = config.origins.get(key) or (section == "search" and name in preset and "preset")
    else:
        found = (field in config.search.get(name, {}) and config.origins.get(f"{section}.{name}")) or (
            field in preset.get(name, {}) and "preset"
        )
    return f"preset {config.search['preset']}" if found == "preset" else found or "default"


def stages_of(pipeline: Pipeline) -> list[Setting]:
    """The stages in the order in which they work, each place in a row, and those that are left out."""
    places = {f.name: getattr(pipeline, f.name) for f in fields(pipeline)} | {"fuse": (pipeline.fuse,)}
    used = {name_of(stage) for stage in pipeline.stages()}
    rows = [
        Setting(f"stages: {place}", ", ".join(map(name_of, stages)), "in this order")
        for place, stages in places.items()
    ]
    return [*rows, Setting("stages: off", ", ".join(name for name in BY_NAME if name not in used), "left out")]
