"""Why a search found nothing: an empty answer always has a reason."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tars.db import Filters
from tars.errors import EmbeddingError
from tars.search.query import EmptyReason, Query, RankedList, SearchResult
from tars.search.vectors import nearest
from tars.search.words import any_of, quoted

SHOWN_TERMS = 10


def why_empty(query: Query, lists: Sequence[RankedList], found: Sequence[SearchResult]) -> EmptyReason:
    if found:
        return below_minimum(query, found)
    store = query.index.store
    if store.is_empty():
        return nothing_indexed(query)
    if query.filters:
        return filtered(query)
    return no_match(query)


def nothing_indexed(query: Query) -> EmptyReason:
    skipped = len(query.index.store.skipped())
    if skipped:
        message = f"no note could be read ({skipped} skipped); see: tars doctor"
    else:
        message = "the memory folder has no text in it yet"
    return EmptyReason("empty_folder", message, {"skipped": skipped})


def below_minimum(query: Query, found: Sequence[SearchResult]) -> EmptyReason:
    best_score = max(result.score for result in found)
    best_confidence = max(result.confidence for result in found)
    return EmptyReason(
        "below_minimum",
        f"of {len(found)} passages that matched none is good enough:"
        f" best score {best_score:.2f}, best confidence {best_confidence:.2f}",
        {"best_score": round(best_score, 4), "best_confidence": round(best_confidence, 4)},
    )


def no_match(query: Query) -> EmptyReason:
    """No word of the query is in the index, and it has no meaning the vectors know."""
    unknown = [term for term in query.terms if not query.index.store.has_word(quoted(term))]
    words = ", ".join(unknown[:SHOWN_TERMS]) or "there is no word in the query"
    return EmptyReason("no_match", f"nothing matches; not in the index: {words}", {"unknown_terms": unknown})


def filtered(query: Query) -> EmptyReason:
    """Each filter alone, and how many of the passages that matched it takes away."""
    matching = matches_without_filters(query)
    if not matching:
        return no_match(query)
    store = query.index.store
    removed = {name: len(matching) - len(store.rowids(alone, among=matching)) for name, alone in query.filters.each()}
    parts = ", ".join(f"--{name} removes {count}" for name, count in removed.items())
    return EmptyReason("filtered", f"{len(matching)} passages match without the filters: {parts}", {"removed": removed})


def matches_without_filters(query: Query) -> list[int]:
    """The best matches if nothing were filtered; for a listing, everything."""
    store, free = query.index.store, replace(query, filters=Filters())
    if not query.text:
        return store.newest(Filters(), 1_000)
    rowids: list[int] = []
    if query.mode != "vec" and query.terms:
        sought = any_of((*query.terms, *query.further))
        rowids += [r for r, _ in store.match_words(sought, weights=(1.0,), limit=free.depth)]
    if query.mode != "fts":
        with suppress(EmbeddingError):  # the search has said so; the words alone tell enough about the filters
            rowids += [r for r, _ in nearest(query.index.embedder.query(query.text), free)]
    return list(dict.fromkeys(rowids))
