"""Expansion: other ways to say the question, by what it is after and by the words of this memory that lie near it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import STOP_WORDS, Query, RankedList, content_words
from tars.search.words import Words, any_of

# The first that fits is the intent; each comes with the words that notes about it tend to use.
INTENTS: tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...] = (
    ("error", re.compile(r"\b(error|bug|fail\w*|crash\w*|exception|traceback|broken?|problem|issue)s?\b|n[o']t work"),
     ("fix", "debug", "solution")),
    ("question", re.compile(r"^(what|how|why|when|where|which|who|whose|whom|is|are|was|were|do|does|did|can)\b|\?"),
     ("",)),
    ("implementation", re.compile(r"\b(implement\w*|code|function|method|class|api|build|create|add|write)\b"),
     ("example", "code", "usage")),
    ("architecture", re.compile(r"\b(architecture|design|structure|pattern|component|module|overview)s?\b"),
     ("design", "structure", "overview")),
)  # fmt: skip
LOOKED_AT = 12  # terms near the query, of which some turn out to be no words of their own


@dataclass(frozen=True, slots=True)
class Expand:
    """Sets up to `most` variants: one with the nearest terms of the memory, the others by intent.

    The vocabulary is the word pieces of the built-in table with the number of passages that hold each, which every
    index run keeps; so it costs nothing to have, and is as true as the index.
    """

    name: ClassVar[str] = "expand"
    most: int = 4
    terms: int = 3
    min_cosine: float = 0.5
    min_count: int = 2

    def __call__(self, query: Query) -> Query:
        core = " ".join(query.terms)
        if not core:
            return query
        near = nearest_terms(query, self.terms, min_cosine=self.min_cosine, min_count=self.min_count)
        said = [" ".join((core, *near))] if near else []
        said += [f"{core} {word}".strip() for word in intent_of(query.text)[1]]
        variants = [variant for variant in dict.fromkeys(said) if variant != query.text.lower()]
        return replace(query, variants=(*query.variants, *variants)[: self.most])


@dataclass(frozen=True, slots=True)
class Expanded:
    """A list of its own for the variants: full text with the words they add."""

    name: ClassVar[str] = "expanded"
    weight: float = 0.3

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        terms = content_words(" ".join((query.text, *query.variants)))
        if not set(terms) - set(query.terms):
            return RankedList("expanded", [])
        hits = query.index.store.match_words(
            any_of(terms), weights=Words().weights, limit=query.depth, filters=query.filters
        )
        return RankedList("expanded", hits, weight=self.weight)


def intent_of(text: str) -> tuple[str, tuple[str, ...]]:
    """
    >>> intent_of("why does the login fail?"), intent_of("why tea?"), intent_of("green tea")
    (('error', ('fix', 'debug', 'solution')), ('question', ('',)), ('general', ()))
    """
    low = text.lower()
    return next(((name, words) for name, pattern, words in INTENTS if pattern.search(low)), ("general", ()))


def nearest_terms(query: Query, count: int, *, min_cosine: float, min_count: int) -> list[str]:
    """The words of the memory that lie nearest to the query and are not in it already, nearest first."""
    import numpy as np

    table, store = query.index.table, query.index.store
    vector = table.query(query.text)
    ids = np.flatnonzero(store.token_counts(table.size) >= min_count)
    cosines = table.vectors(ids) @ vector
    near = ids[np.argsort(-cosines, kind="stable")][: int((cosines >= min_cosine).sum())]
    words = (table.pieces[number] for number in near[: LOOKED_AT * max(count, 1)].tolist())
    new = [word for word in words if is_term(word) and not any(same_word(word, term) for term in query.terms)]
    # A piece may be only the beginning of longer words; a term is a word that stands somewhere.
    return [word for word in new[:LOOKED_AT] if store.has_word(any_of([word]))][:count]


def is_term(piece: str) -> bool:
    return piece.isalpha() and len(piece) > 2 and piece not in STOP_WORDS


def same_word(one: str, other: str) -> bool:
    """Near enough that the stemmer may take them for one."""
    return one.startswith(other) or other.startswith(one)
