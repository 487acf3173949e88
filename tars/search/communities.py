"""Communities: notes that link to one another in a group stand by the best results of that group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tars.search.query import Query, SearchResult, best_first


@dataclass(frozen=True, slots=True)
class Communities:
    """Raises what is in the same community of linked notes as one of the best notes; these rise with the others.

    The communities are made by the indexer (Louvain) and may be a few edits old.
    """

    name: ClassVar[str] = "communities"
    factor: float = 1.1
    best: int = 3  # notes whose communities count

    def __call__(self, results: list[SearchResult], query: Query) -> list[SearchResult]:
        notes = list(dict.fromkeys(result.file_path for result in results))
        of_note = query.index.store.communities(notes)
        if not of_note:
            return list(results)
        leading = {of_note[path] for path in notes[: self.best] if path in of_note}

        def raised(result: SearchResult) -> SearchResult:
            inside = of_note.get(result.file_path) in leading
            return replace(result, score=result.score * (self.factor if inside else 1.0))

        return best_first(map(raised, results))
