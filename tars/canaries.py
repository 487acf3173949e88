"""Passages that an index must find if it works: asked for by their own words, through words, vectors and fusion."""

from __future__ import annotations

from dataclasses import replace

from tars.db import HAS_VECTOR, Filters, Passage
from tars.search.pipeline import DEFAULT, MODES
from tars.search.query import MAX_LIMIT, Index, Query, content_words

COUNT = 3
WORDS = 12  # of the passage, which are asked for
# The question is asked as it stands, and no passage gives way to a better one: this tests the index, not the order.
PLAIN = replace(DEFAULT, rewrite=(), refine=())


def unfound(index: Index) -> list[str]:
    """What the index holds and does not find, and by which way; nothing if it works."""
    return [
        f"{passage.path}:{passage.start_line} is not found through {mode}"
        for passage, state in index.store.sample(COUNT)
        for mode in MODES
        if can_be_asked(passage, state, mode, index) and not is_found(passage, mode, index)
    ]


def can_be_asked(passage: Passage, state: int, mode: str, index: Index) -> bool:
    if passage.private and index.embedder.leaves_machine:
        return False
    return bool(content_words(passage.content)) and (mode != "vec" or state == HAS_VECTOR)


def is_found(passage: Passage, mode: str, index: Index) -> bool:
    """Whether the passage, or one that says the same, is among those of its note."""
    text = " ".join(content_words(passage.content)[:WORDS])
    query = Query(text, index, limit=MAX_LIMIT, mode=mode, filters=Filters(path=passage.path))
    outcome = PLAIN(query)
    return bool(outcome.notices) or any(result.content == passage.content for result in outcome.results)
