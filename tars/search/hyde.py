"""HyDE: search with what an answer might say, embedded as the notes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import Query, RankedList, normalise
from tars.search.vectors import nearest


@dataclass(frozen=True, slots=True)
class Imagine:
    """Lets the model write the hypothesis, if there is a model and the caller gave none: a request per search."""

    name: ClassVar[str] = "imagine"

    def __call__(self, query: Query) -> Query:
        if not query.text or query.hypothesis or query.imagine is None:
            return query
        return replace(query, hypothesis=normalise(query.imagine(query.text)))


@dataclass(frozen=True, slots=True)
class Hyde:
    """The passages whose meaning lies nearest to the hypothesis; without one, nothing."""

    name: ClassVar[str] = "hyde"
    weight: float = 2.0

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        if not query.hypothesis:
            return RankedList("hyde", [])
        vector = query.index.embedder.documents([query.hypothesis])[0]
        return RankedList("hyde", nearest(vector, query), weight=self.weight)
