"""Links: what the best results link to, and what links to them, is likely to be about the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.fusion import Fused
from tars.search.late import inverse_frequency
from tars.search.query import Query, SearchResult, best_first

MOST_NEIGHBOURS = 50  # that are looked at, so that a note which links to everything costs no more
MOST_PASSAGES = 20  # of each


@dataclass(frozen=True, slots=True)
class Links:
    """Neighbours of the best notes, one link away in either direction, join the results or rise in them.

    A neighbour gains `share` of the score of the best note it is linked with, of what it lacks to 1:
    1 - (1 - own) · (1 - share · linked). One that was not found has no score of its own and so joins at share ×.
    Only its best passage does: the one found first, or else the one with most of the query's words. A link that
    stands in the passage found belongs to what was asked; one elsewhere in the note, or in the other note, less so.
    """

    name: ClassVar[str] = "links"
    share: float = 0.5
    elsewhere: float = 0.2  # of that, if the link is not in the passage found
    best: int = 3  # notes whose neighbours are looked at
    joining: int = 5  # notes that may join, those with most of the query's words first

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        store = query.index.store
        if not results or not store.has_links():
            return list(results)
        notes = {r.file_path: r for r in reversed(results)}  # the best passage of each
        known = store.file_ids(notes)
        seeds = list(dict.fromkeys(r.file_path for r in results))[: self.best]
        share = min(self.share * query.weights.get("links", 1.0), 1.0)
        gains = self._gains({known[path]: notes[path] for path in seeds}, share, query)
        raised = self._raised(results, {path: gains.get(known[path], 0.0) for path in notes})
        return best_first(raised + self._joined(gains, known.values(), query))

    def _gains(self, seeds: Mapping[int, SearchResult], share: float, query: Query) -> dict[int, float]:
        """What each neighbour gains, from the best note it is linked with."""
        gains: dict[int, float] = {}
        for note, neighbour, line in query.index.store.linked(seeds):
            seed = seeds[note]
            near = 1.0 if seed.start_line <= line <= seed.end_line else self.elsewhere
            gains[neighbour] = max(gains.get(neighbour, 0.0), share * near * seed.score)
        return gains

    def _raised(self, results: list[SearchResult], gains: Mapping[str, float]) -> list[SearchResult]:
        left = dict(gains)  # only the first passage of a note takes it
        return [
            replace(r, score=1 - (1 - r.score) * (1 - gain)) if (gain := left.pop(r.file_path, 0.0)) else r
            for r in results
        ]

    def _joined(self, gains: Mapping[int, float], found: Iterable[int], query: Query) -> list[SearchResult]:
        from tars.search.pipeline import hydrate

        here = set(found)
        absent = sorted((file_id for file_id in gains if file_id not in here), key=lambda f: -gains[f])
        new = {file_id: gains[file_id] for file_id in absent[:MOST_NEIGHBOURS]}
        passages = best_passages(new, query)
        first = sorted((f for f in new if f in passages), key=lambda f: -new[f] * (1 + passages[f][1]))[: self.joining]
        hits = [Fused(passages[f][0], new[f], {"links": (at, new[f])}) for at, f in enumerate(first, 1)]
        return hydrate(hits, query.index.store)


def best_passages(file_ids: Iterable[int], query: Query) -> dict[int, tuple[int, float]]:
    """For each note the rowid of its passage with most of the query's words, and the share of them that it has."""
    import numpy as np

    index = query.index
    rows = index.store.passages_of(file_ids, most=MOST_PASSAGES)
    if query.filters:
        allowed = index.store.rowids(query.filters, among=[rowid for _, rowid, _ in rows])
        rows = [row for row in rows if row[1] in allowed]
    asked = np.frombuffer(index.table.distinct_tokens([" ".join(query.terms)])[0], dtype=np.uint16)
    weights = dict(zip(asked.tolist(), inverse_frequency(index, asked).tolist(), strict=True))
    most = sum(weights.values()) or 1.0
    best: dict[int, tuple[int, float]] = {}
    for file_id, rowid, tokens in rows:
        share = sum(weights[token] for token in weights.keys() & set(memoryview(tokens).cast("H"))) / most
        if file_id not in best or share > best[file_id][1]:
            best[file_id] = rowid, share
    return best
