"""The pipeline: rewrite the query, retrieve, weigh the lists, fuse, refine. A stage is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tars.db import Passage, Store
from tars.errors import EmbeddingError
from tars.search.beside import Beside
from tars.search.boosters import Boosters
from tars.search.budget import Budget
from tars.search.classify import Classify
from tars.search.code import Code
from tars.search.communities import Communities
from tars.search.confidence import Confidence
from tars.search.dedup import NearMeaning, NearText, SameText
from tars.search.diversity import Diverse, PerNote
from tars.search.expand import Expand, Expanded
from tars.search.fusion import Fused, ReciprocalRank
from tars.search.hyde import Hyde, Imagine
from tars.search.late import LateInteraction
from tars.search.limbic import Limbic
from tars.search.links import Links
from tars.search.parents import Sections, Windows
from tars.search.query import EmptyReason, Query, RankedList, SearchResult, Step
from tars.search.reasons import why_empty
from tars.search.recency import Recency
from tars.search.rerank import CrossEncoder, ModelRerank
from tars.search.same_day import SameDay
from tars.search.short_circuit import ShortCircuit
from tars.search.times import InTime, Times
from tars.search.variance import Variance
from tars.search.vectors import Vectors
from tars.search.whole_notes import WholeNotes
from tars.search.words import Words

Rewrite = Callable[[Query], Query]
Retrieve = Callable[[Query, Sequence[RankedList]], RankedList]
Weigh = Callable[[Sequence[RankedList], Query], list[RankedList]]
Fuse = Callable[[Sequence[RankedList], Query], list[Fused]]
Stage = Callable[[list[SearchResult], Query], list[SearchResult]]
Watch = Callable[[object, object], None]  # called with each stage and what it gave

MODES: dict[str, tuple[str, ...]] = {  # the only lists; () is all
    "hybrid": (),
    "fts": ("words", "expanded"),
    "vec": ("vectors", "hyde"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search gave: results best first, or the reason why there are none."""

    results: list[SearchResult]
    mode: str
    empty_reason: EmptyReason | None = None
    notices: tuple[str, ...] = ()  # what was not as it should be, for the person
    trace: tuple[Step, ...] = field(default=(), compare=False)  # what was done to the question, if that was asked for


@dataclass(frozen=True, slots=True)
class Pipeline:
    rewrite: tuple[Rewrite, ...]
    retrieve: tuple[Retrieve, ...]
    weigh: tuple[Weigh, ...]
    fuse: Fuse
    refine: tuple[Stage, ...]

    def stages(self) -> tuple[Any, ...]:
        """All of them, in the order in which they work."""
        return (*self.rewrite, *self.retrieve, *self.weigh, self.fuse, *self.refine)

    def changed(self, change: Callable[[Any], Any]) -> Pipeline:
        """With each stage put through a function; None leaves it out."""
        kept = {place: tuple(new for stage in getattr(self, place) if (new := change(stage)) is not None)
                for place in ("rewrite", "retrieve", "weigh", "refine")}  # fmt: skip
        return replace(self, fuse=change(self.fuse) or self.fuse, **kept)

    def without(self, *names: str) -> Pipeline:
        return self.changed(lambda stage: None if name_of(stage) in names else stage)

    def __call__(self, query: Query, watch: Watch = lambda stage, gave: None) -> Outcome:
        for rewrite in self.rewrite:
            query = rewrite(query)
            watch(rewrite, query)
        if not query.text:
            return listing(query)
        lists, notices = self._retrieve(query, watch)
        for weigh in self.weigh:
            lists = weigh(lists, query)
            watch(weigh, lists)
        fused = self.fuse(lists, query)
        watch(self.fuse, fused)
        results = found = hydrate(fused[: query.candidates], query.index.store)
        for stage in self.refine:
            results = stage(results, query)
            watch(stage, results)
            found = results or found  # if the cut leaves nothing, what it saw is the reason
        reason = None if results else why_empty(query, lists, found)
        return Outcome(results, query.mode, reason, notices)

    def _retrieve(self, query: Query, watch: Watch) -> tuple[list[RankedList], tuple[str, ...]]:
        lists: list[RankedList] = []
        notices: list[str] = []
        for retrieve in self.retrieve:
            if MODES[query.mode] and name_of(retrieve) not in MODES[query.mode]:
                continue
            try:
                lists.append(retrieve(query, lists))
            except EmbeddingError as error:
                notices.append(f"searching by words only: {error}")
                continue
            watch(retrieve, lists[-1])
            if lists[-1].enough:
                break
        return lists, tuple(notices)


def hydrate(hits: Sequence[Fused], store: Store) -> list[SearchResult]:
    """The passages behind rowids, in the same order."""
    passages = store.passages([hit.rowid for hit in hits])
    return [result_of(passages[hit.rowid], hit) for hit in hits if hit.rowid in passages]


def result_of(passage: Passage, hit: Fused) -> SearchResult:
    return SearchResult(
        content=passage.content,
        score=min(hit.score, 1.0),
        file_path=passage.path,
        file_title=passage.title,
        memory_type=passage.memory_type,
        start_line=passage.start_line,
        end_line=passage.end_line,
        chunk_rowid=passage.rowid,
        position=passage.position,
        heading=passage.heading,
        date=passage.date,
        modified=passage.modified,
        private=bool(passage.private),
        ranks=hit.ranks,
    )


def listing(query: Query) -> Outcome:
    """Without a question: what the filters leave, newest first."""
    rowids = query.index.store.newest(query.filters, query.limit)
    steps = len(rowids)
    fused = [Fused(rowid, (steps - at) / steps, {}) for at, rowid in enumerate(rowids)]
    results = [replace(result, confidence=1.0) for result in hydrate(fused, query.index.store)]
    return Outcome(results, query.mode, None if results else why_empty(query, [], []))


def cut(results: list[SearchResult], query: Query) -> list[SearchResult]:
    """What is good enough, and no more of it than was asked for."""
    good = [r for r in results if r.score >= query.min_score and r.confidence >= query.min_confidence]
    return good[: query.limit]


def name_of(stage: Any) -> str:
    """What a stage is called in the settings."""
    return str(getattr(stage, "name", None) or stage.__name__)


ALL = Pipeline(
    rewrite=(Times(), Classify(), Code(), Imagine(), Expand(), Boosters()),
    retrieve=(Words(), ShortCircuit(), Vectors(), Hyde(), Expanded(), LateInteraction(), WholeNotes()),
    weigh=(InTime(), Variance()),
    fuse=ReciprocalRank(),
    refine=(
        *(Beside(), SameDay(), Links(), Communities(), Limbic(), Recency()),
        *(SameText(), NearText(), NearMeaning(), Diverse(), PerNote()),
        *(Confidence(), ModelRerank(), CrossEncoder(), cut),
        *(Sections(), Windows(), Budget()),
    ),
)
# Stages that did not pay on the sets they were measured on; `[search] on = [...]` switches them on.
OFF: frozenset[str] = frozenset(
    {"classify", "communities", "cross_encoder", "diverse", "expand", "expanded", "imagine", "limbic",
     "model_rerank", "near_meaning", "near_text", "per_note", "recency", "same_text", "sections",
     "short_circuit", "variance", "whole_notes", "windows"}
)  # fmt: skip
DEFAULT = ALL.without(*OFF)
