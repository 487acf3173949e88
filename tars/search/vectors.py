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
        best = np.argpartition(cosines, -count)[-count:]
        # Equal cosines go by rowid, so that the same index gives the same answer.
        best = best[np.lexsort((rowids[best], -cosines[best]))]
        return list(zip(rowids[best].tolist(), cosines[best].tolist(), strict=True))

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

        rowids = self.store.vector_rowids()
        rows = np.empty((len(rowids), self.dimensions), dtype=np.float32)
        seen = np.empty(len(rowids), dtype=np.int64)
        count = 0
        for rowid, blob in self.store.all_vectors():
            if count == len(seen):
                break
            if count % 1_000 == 0 and stopped():
                return False
            seen[count], rows[count] = rowid, np.frombuffer(blob, dtype=np.float32)
            count += 1
        self.rowids, self.rows = seen[:count], rows[:count]
        return True

    def _patch(self) -> None:
        """Rowids are never used again, so a known rowid has the vector it had, as long as the model is the same."""
        import numpy as np

        now = np.array(self.store.vector_rowids(), dtype=np.int64)
        keep = np.isin(self.rowids, now)
        new = np.setdiff1d(now, self.rowids)
        if keep.all() and not len(new):
            return
        found = self.store.vectors(new.tolist())
        added = np.array([np.frombuffer(blob, dtype=np.float32) for blob in found.values()], dtype=np.float32)
        self.rowids = np.concatenate([self.rowids[keep], np.array(list(found), dtype=np.int64)])
        self.rows = np.concatenate([self.rows[keep], added.reshape(-1, self.dimensions)])
