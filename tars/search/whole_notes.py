"""Whole notes: a second granularity, in which a passage stands where its note stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tars.search.query import Query, RankedList

EVIDENCE = ("words", "late")  # vectors of passages say little about their note


@dataclass(frozen=True, slots=True)
class WholeNotes:
    """Ranks what was found by the best passages of its note, and within a note by its own place in the other lists."""

    name: ClassVar[str] = "whole_notes"
    weight: float = 0.2
    best: int = 3  # passages of a note that count, in each list

    def __call__(self, query: Query, found: Sequence[RankedList]) -> RankedList:
        own: dict[int, float] = {}
        for ranked in found:
            for rank, (rowid, _) in enumerate(ranked.hits, 1):
                own[rowid] = own.get(rowid, 0.0) + 1 / (10 + rank)
        note_of = query.index.store.notes_of(list(own))
        worth = self.worth([ranked for ranked in found if ranked.name in EVIDENCE], note_of)
        scores = {rowid: worth.get(note_of.get(rowid, 0), 0.0) for rowid in own}
        order = sorted(own, key=lambda rowid: (-scores[rowid], -own[rowid]))
        return RankedList(self.name, [(rowid, scores[rowid]) for rowid in order], weight=self.weight)

    def worth(self, lists: Sequence[RankedList], note_of: dict[int, int]) -> dict[int, float]:
        """Per note the sum of its best passages' scores, each list measured by its own best."""
        notes: dict[int, float] = {}
        for ranked in lists:
            top = max((score for _, score in ranked.hits), default=0.0) or 1.0
            counted: dict[int, int] = {}
            for rowid, score in ranked.hits:
                note = note_of.get(rowid, 0)
                counted[note] = counted.get(note, 0) + 1
                if counted[note] <= self.best:
                    notes[note] = notes.get(note, 0.0) + score / top
        return notes
