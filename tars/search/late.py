"""Late interaction: each word of the query looks for its best match in each passage found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tars.search.query import Index, Query, RankedList, content_words


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """MaxSim over the built-in table: Σ idf · cos² over the query's tokens, as a share of what is possible."""

    name: ClassVar[str] = "late"
    candidates: int = 60  # of each list before it

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        rowids = list(dict.fromkeys(rowid for ranked in found for rowid, _ in ranked.hits[: self.candidates]))
        hits = [hit for hit in max_similarity(query, rowids).items() if hit[1] > 0]
        return RankedList("late", sorted(hits, key=lambda hit: (-hit[1], hit[0])))


def max_similarity(query: Query, rowids: Sequence[int]) -> dict[int, float]:
    """Per passage, how well it answers to every token of the query: 1 is a passage that has them all."""
    import numpy as np

    passages = {rowid: blob for rowid, blob in query.index.store.tokens(rowids).items() if blob}
    each = [np.frombuffer(blob, dtype=np.uint16) for blob in passages.values()]
    return dict(zip(passages, answered(query.text, each, query.index), strict=True))


def relevance(question: str, texts: Sequence[str], index: Index) -> list[float]:
    """The same for any texts, such as the sentences of a passage."""
    import numpy as np

    each = [np.frombuffer(blob, dtype=np.uint16) for blob in index.table.distinct_tokens(texts)]
    scores = iter(answered(question, [ids for ids in each if len(ids)], index))
    return [next(scores) if len(ids) else 0.0 for ids in each]


def answered(question: str, each: Sequence[Any], index: Index) -> list[float]:
    """For each array of token ids, the share of the question's weight that it answers to."""
    import numpy as np

    asked = np.frombuffer(index.table.distinct_tokens([" ".join(content_words(question))])[0], dtype=np.uint16)
    if not len(each) or not len(asked):
        return [0.0] * len(each)
    weights = inverse_frequency(index, asked)
    distinct, where = np.unique(np.concatenate(each), return_inverse=True)
    cosines = index.table.vectors(asked) @ index.table.vectors(distinct).T
    starts = np.cumsum([0] + [len(ids) for ids in each[:-1]])
    # A row per query token: reducing along memory is ten times faster than across it.
    best = np.maximum.reduceat(cosines[:, where], starts, axis=1).clip(min=0)
    scores: list[float] = (weights @ best**2 / weights.sum()).tolist()
    return scores


def inverse_frequency(index: Index, tokens: Any) -> Any:
    """How telling each token is in this memory."""
    import numpy as np

    counts = index.store.token_counts(index.table.size)
    total = max(int(counts.max()), 1)
    return np.log(1 + (total + 0.5) / (counts[tokens] + 0.5))
