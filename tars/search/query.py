"""What is asked: the question, its limits, and the index it is asked of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from operator import attrgetter
from typing import TYPE_CHECKING

from tars.db import Filters, Store

if TYPE_CHECKING:
    from tars.access import AccessLog
    from tars.embeddings import Embedder
    from tars.embeddings.builtin import StaticTable
    from tars.search.vectors import Matrix
    from tars.search.when import Window

MAX_LIMIT = 100
MAX_TERMS = 64  # an OR of thousands of words takes a third of a second and means nothing
MAX_CHARS = 4_000  # of a query; what comes later in a pasted page adds no new meaning
WORD = re.compile(r"\w+")
STOP_WORDS = frozenset(
    """a about after again all also am an and any are as at be because been before being but by can could did do
    does doing down during each few for from further had has have having he her here hers him his how i if in into
    is it its just like me more most my no nor not of off on once only or other our out over own same she should so
    some such than that the their them then there these they this those through to too under until up very was we
    were what when where which while who whom whose why will with would you your s t d ll m re ve""".split()
)


@dataclass(frozen=True, slots=True)
class Index:
    """An open index with what it takes to ask it."""

    store: Store
    table: StaticTable
    embedder: Embedder
    matrix: Matrix | None = None  # every vector in memory, in processes that live
    access: AccessLog | None = None  # what was used before, and together with what


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    index: Index
    limit: int = 10
    mode: str = "hybrid"
    filters: Filters = field(default_factory=Filters)
    min_score: float = 0.0
    min_confidence: float = 0.0
    budget: int = 0  # characters of text to return, 0 for as many as the limit allows
    hypothesis: str = ""  # what an answer might say, to search with beside the question
    imagine: Callable[[str], str] | None = None  # writes a hypothesis for a question
    judge: Callable[[str], str] | None = None  # a model's answer to a prompt, to put passages in order
    about: str = ""  # a preset: decisions, changes or how
    today: date = field(default_factory=date.today)
    explain: bool = False  # results carry what each stage did to them
    windows: tuple[Window, ...] = ()  # the times it names
    variants: tuple[str, ...] = ()  # other ways to say it
    further: tuple[str, ...] = ()  # terms that full text looks for beside the question's own
    weights: Mapping[str, float] = field(default_factory=dict)  # factors for the lists by name

    @property
    def terms(self) -> tuple[str, ...]:
        return content_words(self.text)

    @property
    def depth(self) -> int:
        """How far each list is read: deeper than what is shown, since the lists disagree."""
        # What is dated right may stand far down in lists that know no dates.
        return max(300, self.candidates) if self.windows else self.candidates

    @property
    def candidates(self) -> int:
        """How many of the fused passages are looked at more closely."""
        return max(60, 3 * self.limit)


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one way of searching found, best first: (rowid, score in its own scale)."""

    name: str
    hits: Sequence[tuple[int, float]]
    weight: float = 1.0  # a factor to its weight in the fusion
    enough: bool = False  # nothing else need be looked for


@dataclass(frozen=True, slots=True)
class Step:
    """What one stage did: to a result, or to the question. Ranks count from 1; None is not known or not there."""

    stage: str
    rank_before: int | None = None
    rank: int | None = None
    score_before: float | None = None
    score: float | None = None
    did: tuple[str, ...] = ()  # in words; nothing if nothing changed


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A passage that was found. `score` orders the results of one query; `confidence` compares across queries."""

    content: str
    score: float
    file_path: str
    file_title: str
    memory_type: str
    start_line: int
    end_line: int
    chunk_rowid: int
    position: int = 0  # among the passages of its note
    heading: str = ""
    date: str | None = None
    modified: str = ""
    private: bool = False
    confidence: float = 0.0
    ranks: dict[str, tuple[int, float]] = field(default_factory=dict)  # list name -> (rank from 1, score there)
    trace: tuple[Step, ...] = field(default=(), compare=False, repr=False)  # what each stage did, if that was asked for


RESULT_FIELDS = tuple(SearchResult.__dataclass_fields__)
result_values = attrgetter(*RESULT_FIELDS)
SCORE, CONFIDENCE = RESULT_FIELDS.index("score"), RESULT_FIELDS.index("confidence")


def scored(result: SearchResult, score: float) -> SearchResult:
    """The result with another score; some five times as fast as `replace`, which counts for hundreds of them."""
    values = list(result_values(result))
    values[SCORE] = score
    return SearchResult(*values)


def trusted(result: SearchResult, confidence: float) -> SearchResult:
    """The result with another confidence."""
    values = list(result_values(result))
    values[CONFIDENCE] = confidence
    return SearchResult(*values)


@dataclass(frozen=True, slots=True)
class EmptyReason:
    """Why there are no results: a code for programs, a sentence for people, and the figures behind it."""

    code: str
    message: str
    details: dict[str, object] = field(default_factory=dict)


def normalise(text: str) -> str:
    """Single spaces, no NUL, nothing that cannot be encoded, not endless."""
    text = text[: 4 * MAX_CHARS].encode(errors="replace").decode().replace("\0", " ")
    return " ".join(text.split())[:MAX_CHARS]


def clamp_limit(limit: int, default: int = 10) -> int:
    return min(max(limit or default, 1), MAX_LIMIT)


def content_words(text: str) -> tuple[str, ...]:
    """The words that carry the meaning, or all words if there are no others; each once, in order."""
    words = list(dict.fromkeys(WORD.findall(text.lower())))
    return tuple([word for word in words if word not in STOP_WORDS] or words)[:MAX_TERMS]


def by_score(result: SearchResult) -> tuple[float, str, int]:
    """What results are sorted by. Equal scores go by path and place: rowids are others after a rebuild."""
    return -result.score, result.file_path, result.position


def best_first(results: Iterable[SearchResult]) -> list[SearchResult]:
    """Sorted. If a boost took the best above 1, all shrink with it: a cap would make ties of what has an order."""
    ordered = sorted(results, key=by_score)
    most = ordered[0].score if ordered else 0.0
    return [replace(result, score=result.score / most) for result in ordered] if most > 1 else ordered
