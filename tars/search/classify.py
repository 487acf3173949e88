"""Query class: what kind of question it is decides which list to trust more."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import Query

CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]")
FACTUAL = (
    CAMEL,
    re.compile(r"\b[a-z]+_[a-z_]+\b"),
    re.compile(r"`[^`]+`"),
    re.compile(r"\b[vV]?\d+\.\d+(?:\.\d+)?(?:-\w+)?\b"),  # a version
    re.compile(r'"[^"]+"|“[^”]+”'),
)
PLACES = frozenset(
    """section sections chapter chapters guide guides tutorial tutorials documentation docs manual readme page pages
    reference appendix""".split()
)
QUESTIONS = frozenset("what how why when where which who whom whose explain describe compare".split())


@dataclass(frozen=True, slots=True)
class Classify:
    """Factual: words count more. Navigational: links. Exploratory: vectors. The first that fits decides."""

    name: ClassVar[str] = "classify"
    words: float = 1.5
    links: float = 1.5
    vectors: float = 1.3

    def __call__(self, query: Query) -> Query:
        lists = {"factual": "words", "navigational": "links", "exploratory": "vectors"}
        favoured = lists.get(kind_of(query.text))
        if favoured is None:
            return query
        factor = query.weights.get(favoured, 1.0) * getattr(self, favoured)
        return replace(query, weights={**query.weights, favoured: factor})


def kind_of(text: str) -> str:
    """
    >>> kind_of("getUserById function"), kind_of("How do I configure authentication?"), kind_of("tea")
    ('factual', 'exploratory', 'plain')
    """
    if any(pattern.search(text) for pattern in FACTUAL):
        return "factual"
    words = set(re.findall(r"\w+", text.lower()))
    if words & PLACES or "[[" in text:
        return "navigational"
    return "exploratory" if words & QUESTIONS or "?" in text else "plain"
