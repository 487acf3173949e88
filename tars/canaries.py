"""Passages that an index must find if it works: asked for by their own words, through words, vectors and fusion."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from unicodedata import ucd_3_2_0

from tars.db import HAS_VECTOR, Filters, Passage
from tars.errors import EmbeddingError
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
    if (passage.private and index.embedder.leaves_machine) or not words_of(passage):
        return False
    return mode != "vec" or (state == HAS_VECTOR and points_somewhere(words_of(passage), index))


def words_of(passage: Passage) -> str:
    """The first words of a passage that the full text takes for words too: no rules, no letters newer than its own."""
    words = (word for word in content_words(passage.content) if any(map(is_old_letter, word)))
    return " ".join(islice(words, WORDS))


def is_old_letter(character: str) -> bool:
    return ucd_3_2_0.category(character)[0] in "LN"


def points_somewhere(text: str, index: Index) -> bool:
    """Whether the model knows one of the words; if it is down, that is told by those who ask it."""
    try:
        return bool(index.embedder.documents([text]).any())
    except EmbeddingError:
        return True


def is_found(passage: Passage, mode: str, index: Index) -> bool:
    """Whether the passage, or one that says the same, is among those of its note."""
    query = Query(words_of(passage), index, limit=MAX_LIMIT, mode=mode, filters=Filters(path=passage.path))
    outcome = PLAIN(query)
    return bool(outcome.notices) or any(result.content == passage.content for result in outcome.results)
