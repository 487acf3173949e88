"""The whole: builds store, embedder, table and pipeline from the settings, for every door alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import tars.chunker
from tars import memory
from tars.config import Config, check_keys, fill, typed
from tars.db import SCHEMA_VERSION, Filters, Identity, Store, WriterLock
from tars.embeddings import Embedder, embedder
from tars.embeddings.builtin import StaticTable
from tars.errors import EmbeddingError, TarsError, UsageError
from tars.indexer import Indexer, Progress, Report, find_changes
from tars.search.confidence import Confidence
from tars.search.fusion import ReciprocalRank
from tars.search.late import LateInteraction
from tars.search.pipeline import DEFAULT, MODES, Outcome, Pipeline, Watch
from tars.search.query import EmptyReason, Index, Query, clamp_limit, normalise
from tars.search.vectors import Matrix
from tars.search.words import Words

STAGES: dict[str, type] = {
    "words": Words,
    "late": LateInteraction,
    "fusion": ReciprocalRank,
    "confidence": Confidence,
}
PLAIN: dict[str, Any] = {"limit": 10, "mode": "hybrid", "min_score": 0.0, "min_confidence": 0.0}


def quiet(message: str) -> None:
    """Where nobody listens."""


class App:
    """One memory folder and everything that works on it."""

    def __init__(self, config: Config, *, say: Callable[[str], None] = quiet, lives: bool = False) -> None:
        self.config, self.say, self.lives = config, say, lives

    def __enter__(self) -> App:
        return self

    def __exit__(self, *exc: object) -> None:
        if "store" in self.__dict__:
            self.store.close()

    # ---- the parts

    @cached_property
    def table(self) -> StaticTable:
        return StaticTable()

    @cached_property
    def embedder(self) -> Embedder:
        if self.config.embedding == "builtin":
            return self.table
        return embedder(self.config.embedding, ollama_host=self.config.ollama_host)

    @cached_property
    def store(self) -> Store:
        return Store.open(self.config.index_file)

    @cached_property
    def pipeline(self) -> Pipeline:
        return configured(DEFAULT, self.config.search)

    @cached_property
    def index(self) -> Index:
        dimensions = self.store.identity.dimensions if self.store.identity else self.embedder.dimensions
        matrix = Matrix(self.store, dimensions) if self.lives else None
        return Index(self.store, self.table, self.embedder, matrix)

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
            tokens=self.table.name,
            embedding=self.embedder.name,
            dimensions=dimensions,
        )

    # ---- keeping the index true

    def build(self, *, full: bool = False, progress: Progress = lambda done, total: None) -> Report | None:
        """Bring the index up to the folder; None if another process is doing so."""
        self._ensure_folder()
        lock = WriterLock(self.config.index_file)
        if not lock.acquire():
            return None
        try:
            wanted = self.wanted_identity()
            if full:
                self.store.erase(replace(wanted, dimensions=self._probe(wanted.dimensions)))
            else:
                self._adopt(wanted)
            return self._indexer().run(find_changes(self.store, self.config.memory_dir), progress)
        finally:
            lock.release()

    def refresh(self, progress: Progress = lambda done, total: None) -> Report | None:
        """Before a question: look at the folder, by size and time alone, and take in what changed."""
        self._ensure_folder()
        ready = self.store.identity == self.wanted_identity() and self.store.is_complete()
        changes = find_changes(self.store, self.config.memory_dir) if ready else None
        if ready and not changes:
            return None
        if changes is None:
            self.say(f"indexing {self.config.memory_dir} for the first time" if not self.store.identity
                     else "the index is being brought up to date")  # fmt: skip
        report = self.build(progress=progress)
        if report is None:
            self.say("another process is indexing; searching what is there so far")
        return report

    def _adopt(self, wanted: Identity) -> None:
        found = self.store.identity
        if found and found != wanted:
            changed = [f.name for f in fields(Identity) if getattr(found, f.name) != getattr(wanted, f.name)]
            self.say(f"the index was made with another {' and '.join(changed)}; rebuilding what that touches")
        self.store.prepare(wanted)

    def _probe(self, known: int) -> int:
        try:
            return self.embedder.dimensions
        except EmbeddingError:
            return known

    def _indexer(self) -> Indexer:
        settings = self.config.index
        return Indexer(
            self.store,
            self.config.memory_dir,
            self.embedder,
            self.table,
            chunk_chars=settings.chunk_chars,
            max_file_bytes=settings.max_file_mb * 1_000_000,
        )

    def _ensure_folder(self) -> None:
        folder = self.config.memory_dir
        if folder.is_dir():
            return
        if self.config.origins["memory_dir"] != "default":
            raise TarsError(f"the memory folder {folder} does not exist; make it, or name another with --memory")
        memory.ensure_folder(folder)
        self.say(f"made a memory folder for you: {folder}")

    # ---- asking

    def search(
        self,
        text: str,
        *,
        limit: int = 0,
        mode: str = "",
        min_score: float = 0.0,
        min_confidence: float = 0.0,
        filters: Filters | None = None,
        watch: Watch = lambda stage, gave: None,
    ) -> Outcome:
        """The best passages for a question, from the index as it is."""
        mode = mode or self.config.search.get("mode", "hybrid")
        if mode not in MODES:
            raise UsageError(f"no search mode '{mode}'; there are: {', '.join(MODES)}")
        identity, wanted = self.store.identity, self.wanted_identity()
        if identity is None or identity.schema != wanted.schema or identity.folder != wanted.folder:
            reason = "the memory is being indexed for the first time by another process; ask again in a moment"
            return Outcome([], mode, EmptyReason("no_index", reason))
        notices: list[str] = []
        if (identity.embedding, identity.tokens) != (wanted.embedding, wanted.tokens) and mode != "fts":
            notices.append("searching by words only: the index's vectors are of another model; run: tars index")
            mode = "fts"
        elif mode != "fts" and self.store.has_pending():
            notices.append("some passages have no vector yet and are found by their words only; run: tars index")
        outcome = self.pipeline(
            Query(
                text=normalise(text),
                index=self.index,
                limit=clamp_limit(limit, self.config.search.get("limit", 10)),
                mode=mode,
                filters=filters or Filters(),
                min_score=min_score or self.config.search.get("min_score", 0.0),
                min_confidence=min_confidence or self.config.search.get("min_confidence", 0.0),
            ),
            watch,
        )
        if outcome.empty_reason and not self.store.is_complete():
            reason = "the first index is still being built by another process; ask again in a moment"
            outcome = replace(outcome, empty_reason=EmptyReason("no_index", reason))
        return replace(outcome, notices=(*notices, *outcome.notices))


def configured(pipeline: Pipeline, table: Any) -> Pipeline:
    """The pipeline with the settings of `[search]`: `[search.words]` becomes Words(...)."""
    check_keys(table, [*PLAIN, *STAGES], where="search")
    for key in PLAIN.keys() & table.keys():
        typed(f"search.{key}", table[key], PLAIN[key])
    made: dict[type, Any] = {
        cls: fill(cls, table[name], where=f"search.{name}") for name, cls in STAGES.items() if name in table
    }

    def swap(stage: Any) -> Any:
        return made.get(type(stage), stage) if is_dataclass(stage) else stage

    return Pipeline(
        rewrite=tuple(map(swap, pipeline.rewrite)),
        retrieve=tuple(map(swap, pipeline.retrieve)),
        fuse=swap(pipeline.fuse),
        refine=tuple(map(swap, pipeline.refine)),
    )


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: str
    origin: str


def settings(app: App) -> list[Setting]:
    """Every setting as it came out, and where it came from."""
    config, places = app.config, app.config.places
    values: dict[str, Any] = {
        "memory_dir": config.memory_dir,
        "embedding": config.embedding,
        "ollama_host": config.ollama_host,
        **{f"index.{f.name}": getattr(config.index, f.name) for f in fields(config.index)},
        **{f"search.{key}": config.search.get(key, default) for key, default in PLAIN.items()},
    }
    stages = (*app.pipeline.rewrite, *app.pipeline.retrieve, app.pipeline.fuse, *app.pipeline.refine)
    for name, cls in STAGES.items():
        for stage in stages:
            if type(stage) is cls and is_dataclass(stage):
                values |= {f"search.{name}.{f.name}": getattr(stage, f.name) for f in fields(stage)}
    rows = [Setting(key, str(value), origin_of(key, config)) for key, value in values.items()]
    rows += [Setting("config file", str(places.config_file), "there" if places.config_file.exists() else "none")]
    return [*rows, Setting("index file", str(config.index_file), "from memory_dir")]


def origin_of(key: str, config: Config) -> str:
    section = ".".join(key.split(".")[:2])
    return config.origins.get(key) or config.origins.get(section, "default")
