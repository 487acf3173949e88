"""Late interaction: each word of the query looks for its best match in each passage found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tars.search.query import Query, RankedList, content_words


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """MaxSim over the built-in table: Σ idf · cos² over the query's tokens, as a share of what is possible."""

    candidates: int = 100  # of each list before it

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        rowids = list(dict.fromkeys(rowid for ranked in found for rowid, _ in ranked.hits[: self.candidates]))
        scores = max_similarity(query, rowids)
        return RankedList("late", sorted(scores.items(), key=lambda hit: (-hit[1], hit[0])))


def max_similarity(query: Query, rowids: Sequence[int]) -> dict[int, float]:
    """Per passage, how well it answers to every token of the query: 1 is a passage that has them all."""
    import numpy as np

    table = query.index.table
    asked = np.frombuffer(table.distinct_tokens([" ".join(content_words(query.text))])[0], dtype=np.uint16)
    passages = {rowid: blob for rowid, blob in query.index.store.tokens(rowids).items() if blob}
    if not len(asked) or not passages:
        return {}
    weights = inverse_frequency(query, asked)
    each = [np.frombuffer(blob, dtype=np.uint16) for blob in passages.values()]
    distinct, where = np.unique(np.concatenate(each), return_inverse=True)
    cosines = table.vectors(distinct) @ table.vectors(asked).T
    starts = np.cumsum([0] + [len(ids) for ids in each[:-1]])
    best = np.maximum.reduceat(cosines[where], starts, axis=0).clip(min=0)
    scores = (best**2) @ weights / weights.sum()
    return dict(zip(passages, scores.tolist(), strict=True))


def inverse_frequency(query: Query, tokens: Any) -> Any:
    """How telling each token is in this memory."""
    import numpy as np

    counts = query.index.store.token_counts(query.index.table.size)
    total = max(int(counts.max()), 1)
    return np.log(1 + (total + 0.5) / (counts[tokens] + 0.5))
