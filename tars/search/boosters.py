"""Query presets: what the question is about, in the words that notes about it use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import Query

PRESETS = {
    "decisions": "decision chose architecture",
    "changes": "changed modified refactored",
    "how": "architecture design pattern implements",
}


@dataclass(frozen=True, slots=True)
class Boosters:
    """Adds the words of the preset that was asked for; without a question they are the question."""

    name: ClassVar[str] = "boosters"

    def __call__(self, query: Query) -> Query:
        words = PRESETS.get(query.about)
        return replace(query, text=f"{query.text} {words}".strip()) if words else query
