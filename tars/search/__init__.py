"""Search: from a question to the passages that answer it. The names here are for callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tars.search.fusion import reciprocal_rank_fusion
from tars.search.pipeline import DEFAULT, Outcome, Pipeline
from tars.search.query import Index, Query, SearchResult, content_words
from tars.search.words import Words, any_of

if TYPE_CHECKING:
    import apsw

__all__ = [
    "DEFAULT",
    "Index",
    "Outcome",
    "Pipeline",
    "Query",
    "SearchResult",
    "reciprocal_rank_fusion",
    "search",
    "search_fts",
    "search_vec",
]


def search(
    query: str, *, limit: int = 10, min_score: float = 0.0, mode: str = "hybrid", **more: Any
) -> list[SearchResult]:
    """Search the configured memory, brought up to date first."""
    from tars.app import App
    from tars.config import load

    with App(load()) as app:
        app.refresh()
        return app.search(query, limit=limit, min_score=min_score, mode=mode, **more).results


def search_vec(conn: apsw.Connection, vector: Sequence[float] | bytes, *, limit: int) -> list[int]:
    """Rowids of the nearest passages, nearest first."""
    import struct

    from tars.db import Store

    blob = vector if isinstance(vector, bytes) else struct.pack(f"<{len(vector)}f", *vector)
    return [rowid for rowid, _ in Store(conn).nearest(blob, limit=limit)]


def search_fts(conn: apsw.Connection, query: str, *, limit: int) -> list[int]:
    """Rowids of the passages that hold any of the query's words, best first."""
    from tars.db import Store

    if not (terms := content_words(query)):
        return []
    hits = Store(conn).match_words(any_of(terms), weights=Words().weights, limit=limit)
    return [rowid for rowid, _ in hits]
