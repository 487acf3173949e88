"""Vectors: the passages whose meaning lies nearest to the query's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tars.db import Filters, Store
from tars.errors import EmbeddingError
from tars.search.query import Query, RankedList


@dataclass(frozen=True, slots=True)
class Vectors:
    """Cosine nearest neighbours: through `MATCH` in the database, or over the matrix of a process that lives."""

    name: ClassVar[str] = "vectors"

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        vector = query.index.embedder.query(query.text)
        return RankedList("vectors", nearest(vector, query))


def nearest(vector: Any, query: Query) -> list[tuple[int, float]]:
    """The passages nearest to a vector, as deep as the query looks; a vector of zeros has none."""
    if not vector.any():
        return []
    identity = query.index.store.identity
    if identity and identity.dimensions != len(vector):
        raise EmbeddingError(
            f"{identity.embedding} gives {len(vector)} dimensions now, and the index has {identity.dimensions};"
            " run: tars index --full"
        )
    if query.index.matrix is not None:
        return query.index.matrix.nearest(vector, limit=query.depth, filters=query.filters)
    return query.index.store.nearest(vector.tobytes(), limit=query.depth, filters=query.filters)


class Matrix:
    """All vectors of an index in memory, patched with the rows that changed when its generation does."""

    def __init__(self, store: Store) -> None:
        self.store, self.dimensions, self.embedding = store, 0, ""
        self.generation = -1
        self.rowids: Any = None
        self.rows: Any = None

    def nearest(self, vector: Any, *, limit: int, filters: Filters | None = None) -> list[tuple[int, float]]:
        import numpy as np

        self.refresh()
        rowids, rows = self.rowids, self.rows
        if filters:
            allowed = np.fromiter(self.store.rowids(filters), dtype=np.int64)
            keep = np.isin(rowids, allowed)
            rowids, rows = rowids[keep], rows[keep]
        if not len(rowids):
            return []
        cosines = rows @ vector
        count = min(limit, len(rowids))
        least = np.partition(cosines, -count)[-count]
        best = np.flatnonzero(cosines >= least)
        hits = zip(rowids[best].tolist(), cosines[best].tolist(), strict=True)
        return self.store.in_order(list(hits))[:count]

    def refresh(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Bring it to the generation of the index; if that is stopped, whoever needs it begins again."""
        generation = self.store.generation
        if generation == self.generation:
            return
        identity = self.store.identity
        made_with = (identity.embedding, identity.dimensions) if identity else ("", 0)
        if self.rowids is None or made_with != (self.embedding, self.dimensions):
            self.embedding, self.dimensions = made_with
            self.rowids = None
            if not self._load(stopped):
                return
        else:
            self._patch()
        self.generation = generation

    def _load(self, stopped: Callable[[], bool]) -> bool:
        import numpy as np

        self._reserve(len(self.store.vector_rowids()))
        count = 0
        for rowid, blob in self.store.all_vectors():
            if count == len(self._rowids):
                break
            if count % 1_000 == 0 and stopped():
                return False
            self._rowids[count], self._rows[count] = rowid, np.frombuffer(blob, dtype=np.float32)
            count += 1
        self.rowids, self.rows = self._rowids[:count], self._rows[:count]
        return True

    def _reserve(self, count: int) -> None:
        """Room for so many rows and some to come."""
        import numpy as np

        room = count + max(count // 8, 256)
        self._rowids = np.empty(room, dtype=np.int64)
        self._rows = np.empty((room, self.dimensions), dtype=np.float32)

    def _patch(self) -> None:
        """Rowids are never used again, so a known rowid has the vector it had, as long as the model is the same.

        In place, or every note that somebody edits would cost every living reader a copy of the whole.
        """
        import numpy as np

        now = self.store.vector_rowid_array()
        gone = np.flatnonzero(np.isin(self.rowids, now, assume_unique=True, invert=True))
        new = np.setdiff1d(now, self.rowids, assume_unique=True)
        found = self.store.vectors(new.tolist())
        before, after = len(self.rowids), len(self.rowids) - len(gone) + len(found)
        if after > len(self._rowids):
            old = self.rowids, self.rows
            self._reserve(after)
            self._rowids[:before], self._rows[:before] = old
        places = [*gone.tolist(), *range(before, after)][: len(found)]
        for at, (rowid, blob) in zip(places, found.items(), strict=True):
            self._rowids[at], self._rows[at] = rowid, np.frombuffer(blob, dtype=np.float32)
        if after < before:  # the last rows move to the places that are left
            empty = gone[len(found) :]
            last = np.setdiff1d(np.arange(after, before), empty, assume_unique=True)
            empty = empty[empty < after]
            self._rowids[empty], self._rows[empty] = self._rowids[last], self._rows[last]
        self.rowids, self.rows = self._rowids[:after], self._rows[:after]
