"""Confidence: the chance that a passage is relevant, comparable across queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tars.search.late import max_similarity
from tars.search.query import Query, SearchResult, trusted
from tars.search.words import Words


@dataclass(frozen=True, slots=True)
class Confidence:
    """A logistic curve over what a passage itself shows: its BM25 and the share of the query it answers to.

    Not over ranks or `score`: the best of nonsense is first too. BM25 grows with the logarithm of the number of
    passages, so it is measured against that; among a few passages it says nothing, and the number of words answered
    to stands in for it. The figures were fitted to three sets of notes with questions, where a passage is relevant if
    it overlaps the evidence. The errors, also when fitted to two and
    tried on the third, are in this folder's README.
    """

    name: ClassVar[str] = "confidence"
    bias: float = -5.32
    late: float = 2.85
    words: float = 2.3
    few_passages: float = 20.0

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        late, words = self._figures(results, query)
        count = query.index.store.passage_count()
        words_asked = len(query.terms)
        scale, trust = math.log(2 + count), count / (count + self.few_passages)

        def rated(result: SearchResult) -> SearchResult:
            share = late.get(result.chunk_rowid, 0.0)
            matched = trust * words.get(result.chunk_rowid, 0.0) / scale + (1 - trust) * share * words_asked
            return trusted(result, self.chance(share, matched))

        return [rated(result) for result in results]

    def chance(self, late: float, matched: float) -> float:
        return 1 / (1 + math.exp(-(self.bias + self.late * late + self.words * math.log1p(matched))))

    def _figures(self, results: list[SearchResult], query: Query) -> tuple[dict[int, float], dict[int, float]]:
        """Both figures of every result; what no list gave, for want of need or of a match, is made now."""
        late, words = (
            {r.chunk_rowid: r.ranks[name][1] for r in results if name in r.ranks} for name in ("late", "words")
        )
        if results and (query.mode != "hybrid" or not late):
            late = late or max_similarity(query, [r.chunk_rowid for r in results])
            words = words or dict(Words()(query, []).hits)
        joined = [r.chunk_rowid for r in results if "links" in r.ranks and r.chunk_rowid not in late]
        return late | max_similarity(query, joined) if joined else late, words
