"""Budget: what is returned fits into so many characters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import Query, SearchResult


@dataclass(frozen=True, slots=True)
class Budget:
    """Takes results while they fit. The one across the border is cut at the end of a line, if enough of it is left.

    Nothing after it is looked at: a worse passage that happens to be short is no substitute. The first result is
    always there, were it a part of a line: an answer that is cut is one, an empty one is not.
    """

    name: ClassVar[str] = "budget"
    chars: int = 0  # if the question has none of its own; 0 for as many as the limit allows
    least: int = 200  # characters of a passage that are worth showing

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        left = query.budget or self.chars
        if not left:
            return list(results)
        kept: list[SearchResult] = []
        for result in results:
            if len(result.content) > left:
                kept += self._part(result, left, needed=not kept)
                break
            kept.append(result)
            left -= len(result.content)
        return kept

    def _part(self, result: SearchResult, chars: int, *, needed: bool) -> list[SearchResult]:
        part = whole_lines(result, chars)
        if needed and not part.content:
            part = replace(result, content=result.content[:chars], end_line=result.start_line)
        return [part] if part.content and (needed or len(part.content) >= self.least) else []


def whole_lines(result: SearchResult, chars: int) -> SearchResult:
    """As many lines of a passage as fit, with their line numbers."""
    end = result.content.rfind("\n", 0, chars + 1)
    content = result.content[: max(end, 0)].rstrip()
    return replace(result, content=content, end_line=result.start_line + content.count("\n"))


def limit_for(budget: int, limit: int) -> int:
    """How many results may be needed to fill a budget, if nobody said how many: passages of 200 characters."""
    return min(max(limit, budget // 200), 100)
