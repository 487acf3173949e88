"""Full text: BM25 over the fields of a passage, any of the query's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tars.search.query import Query, RankedList


@dataclass(frozen=True, slots=True)
class Words:
    """FTS5 over content, title, headings, tags, keywords, description, aliases, author and the parts of names."""

    name: ClassVar[str] = "words"
    weights: tuple[float, ...] = (1.0, 3.0, 2.5, 2.0, 2.5, 2.0, 1.5, 1.0, 1.0)

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        expression = any_of((*query.terms, *query.further))
        if not expression:
            return RankedList("words", [])
        hits = query.index.store.match_words(expression, weights=self.weights, limit=query.depth, filters=query.filters)
        return RankedList("words", hits)


def any_of(terms: Sequence[str]) -> str:
    """An FTS5 expression in which every term is a string, so none is an operator."""
    return " OR ".join(quoted(term) for term in terms)


def quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
