"""Late interaction: each word of the query looks for its best match in and around each passage found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tars.embeddings.builtin import LINE_END
from tars.search.query import Index, Query, RankedList, content_words

LINE_BREAK = (LINE_END,)
AROUND = 0.7
NOBODY = -1


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """MaxSim over the built-in table: Σ idf · cos² over the query's tokens, as a share of what is possible."""

    name: ClassVar[str] = "late"
    candidates: int = 60  # of each list before it
    around: float = AROUND  # a word's match in the passage before or after, as a share of one here; 0 looks at neither

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        rowids = list(dict.fromkeys(rowid for ranked in found for rowid, _ in ranked.hits[: self.candidates]))
        hits = [hit for hit in max_similarity(query, rowids, around=self.around).items() if hit[1] > 0]
        return RankedList("late", query.index.store.in_order(hits))


def max_similarity(query: Query, rowids: Sequence[int], *, around: float = AROUND) -> dict[int, float]:
    """Per passage, how well it answers to every token of the query: 1 if one of its lines has them all.

    Words that it lacks may stand right before or after it: an answer seldom repeats its question.
    """
    found = query.index.store.tokens_around(rowids, reach=1 if around else 0)
    rowid_at = {(note, position): rowid for rowid, (note, position, blob) in found.items() if blob}
    asked = [rowid for rowid in rowids if rowid in found and found[rowid][2]]

    def neighbour(rowid: int, step: int) -> int:
        note, position, _ = found[rowid]
        return rowid_at.get((note, position + step), NOBODY)

    near = (neighbour(rowid, step) for rowid in asked for step in (-1, 1))
    # In the order they were found in, not that of rowids: the last digits of a sum depend on its order.
    passages = [rowid for rowid in dict.fromkeys([*asked, *near]) if rowid != NOBODY]
    number = {rowid: at for at, rowid in enumerate(passages)}
    beside = tuple([number.get(neighbour(rowid, step), NOBODY) for rowid in passages] for step in (-1, 1))
    scores = answered(query.text, [found[rowid][2] for rowid in passages], query.index, beside=beside, around=around)
    return dict(zip(asked, scores, strict=False))


def relevance(question: str, texts: Sequence[str], index: Index) -> list[float]:
    """The same for any texts, such as the sentences of a passage, each by itself."""
    tokens = index.table.distinct_tokens(texts)
    scores = iter(answered(question, [blob for blob in tokens if blob], index))
    return [next(scores) if blob else 0.0 for blob in tokens]


def answered(
    question: str, tokens: Sequence[bytes], index: Index, *, beside: Sequence[Sequence[int]] = (), around: float = 0.0
) -> list[float]:
    """For each text, none of them empty, the share of the question's weight that it answers to.

    Half of it by the text as a whole, half by its best line: a passage whose words stand together says more than
    one that has them here and there. `beside` has for each text the number of the one before it, then after it.
    """
    import numpy as np

    asked = np.frombuffer(index.table.distinct_tokens([" ".join(content_words(question))])[0], dtype=np.uint16)
    if not len(asked) or not tokens:
        return [0.0] * len(tokens)
    weights = inverse_frequency(index, asked)
    lines, first = best_in_lines([np.frombuffer(blob, dtype=np.uint16) for blob in tokens], asked, index)
    texts = np.maximum.reduceat(lines, first, axis=1)
    if around:
        near = around * best_beside(texts, beside)
        lines = np.maximum(lines, np.repeat(near, np.diff(first, append=lines.shape[1]), axis=1))
        texts = np.maximum(texts, near)
    by_line = np.maximum.reduceat(weights @ lines**2, first)
    shares: list[float] = ((by_line + weights @ texts**2) / 2 / weights.sum()).tolist()
    return shares


def best_beside(texts: Any, beside: Sequence[Sequence[int]]) -> Any:
    """The best cosine of every asked token in the neighbours of each text."""
    import numpy as np

    known = np.pad(texts, ((0, 0), (0, 1)))  # the last column is NOBODY's
    return np.maximum.reduce([known[:, numbers] for numbers in beside])


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
