"""How a result came to its place, in a form a person reads."""

from __future__ import annotations

from tars.search.query import SearchResult


def explain(result: SearchResult) -> str:
    """
    >>> explain(SearchResult("", 0.5, "a.md", "", "note", 1, 1, 1, ranks={"words": (1, 9.0)}, confidence=0.25))
    'score 0.500, confidence 0.25; words: place 1 (9.00)'
    """
    places = [f"{name}: place {rank} ({score:.2f})" for name, (rank, score) in result.ranks.items()]
    return "; ".join([f"score {result.score:.3f}, confidence {result.confidence:.2f}", *places])
