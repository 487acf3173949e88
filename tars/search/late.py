"""Late interaction: each word of the query looks for its best match in each passage found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tars.embeddings.builtin import LINE_END
from tars.search.query import Index, Query, RankedList, content_words

LINE_BREAK = (LINE_END,)


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """MaxSim over the built-in table: Σ idf · cos² over the query's tokens, as a share of what is possible."""

    name: ClassVar[str] = "late"
    candidates: int = 60  # of each list before it

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        rowids = list(dict.fromkeys(rowid for ranked in found for rowid, _ in ranked.hits[: self.candidates]))
        hits = [hit for hit in max_similarity(query, rowids).items() if hit[1] > 0]
        return RankedList("late", sorted(hits, key=lambda hit: -hit[1]))


def max_similarity(query: Query, rowids: Sequence[int]) -> dict[int, float]:
    """Per passage, how well it answers to every token of the query: 1 if one of its lines has them all."""
    tokens = query.index.store.tokens(rowids)
    # In the order they were found in, not that of rowids: the last digits of a sum depend on its order.
    passages = {rowid: blob for rowid in rowids if (blob := tokens.get(rowid))}
    return dict(zip(passages, answered(query.text, list(passages.values()), query.index), strict=True))


def relevance(question: str, texts: Sequence[str], index: Index) -> list[float]:
    """The same for any texts, such as the sentences of a passage."""
    return answered(question, index.table.distinct_tokens(texts), index)


def answered(question: str, tokens: Sequence[bytes], index: Index) -> list[float]:
    """For each text, the share of the question's weight that it answers to.

    Half of it by the text as a whole, half by its best line: a passage whose words stand together says more than
    one that has them here and there.
    """
    import numpy as np

    asked = np.frombuffer(index.table.distinct_tokens([" ".join(content_words(question))])[0], dtype=np.uint16)
    filled = [at for at, blob in enumerate(tokens) if blob]
    scores = [0.0] * len(tokens)
    if not len(asked) or not filled:
        return scores
    weights = inverse_frequency(index, asked)
    best, texts = best_in_lines([np.frombuffer(tokens[at], dtype=np.uint16) for at in filled], asked, index)
    by_line = np.maximum.reduceat(weights @ best**2, texts)
    by_text = weights @ np.maximum.reduceat(best, texts, axis=1) ** 2
    for at, score in zip(filled, ((by_line + by_text) / 2 / weights.sum()).tolist(), strict=True):
        scores[at] = score
    return scores


def best_in_lines(each: Sequence[Any], asked: Any, index: Index) -> tuple[Any, Any]:
    """The best cosine of every asked token in every line of all texts, and the line at which each text begins."""
    import numpy as np

    ids = np.concatenate([part for text in each for part in (text, LINE_BREAK)])
    breaks = np.flatnonzero(ids == LINE_END)
    kept = np.delete(ids, breaks)
    # Without the breaks, each line begins where the one before it ended.
    starts = np.concatenate([[0], breaks[:-1] - np.arange(len(breaks) - 1)])
    lines = [int(np.count_nonzero(text == LINE_END)) + 1 for text in each]
    distinct, where = np.unique(kept, return_inverse=True)
    cosines = index.table.vectors(asked) @ index.table.vectors(distinct).T
    # A row per query token: reducing along memory is ten times faster than across it.
    best = np.maximum.reduceat(cosines[:, where], starts, axis=1).clip(min=0)
    return best, np.cumsum([0, *lines[:-1]])


def inverse_frequency(index: Index, tokens: Any) -> Any:
    """How telling each token is in this memory."""
    import numpy as np

    counts = index.store.token_counts(index.table.size)
    total = max(int(counts.max()), 1)
    return np.log(1 + (total + 0.5) / (counts[tokens] + 0.5))
