"""What the prompt of a conversation shows of the memory: standing notes, and passages found for the first message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from tars.chat import estimate_tokens
from tars.core import ShownPassage, StandingNote, fit_passages
from tars.errors import TarsError
from tars.notes import public_text
from tars.why import Searched, place

if TYPE_CHECKING:
    from tars.app import App
    from tars.search.pipeline import Outcome
    from tars.search.query import SearchResult

STANDING_NOTES = ("Memory.md", "Procedural.md")
STANDING_SHARE = 0.1  # of the model's context, for each standing note
PASSAGES_SHARE = 0.1  # of the model's context, for what is found
MOST_TOKENS = 6_000  # of either: more is rarely read with care
PASSAGES = 12
SPARE = 3  # times as many are asked for where private ones are left out


@dataclass(frozen=True, slots=True)
class Context:
    standing: tuple[StandingNote, ...] = ()
    passages: tuple[ShownPassage, ...] = ()
    searched: Searched | None = None  # which of the passages were found, and why
    private: bool = False  # something in it must not leave the machine
    notices: tuple[str, ...] = ()

    @property
    def places(self) -> list[tuple[str, int, int]]:
        """Path, first and last line of everything shown."""
        notes = [(note.path, 1, note.end_line) for note in self.standing]
        return notes + [(p.path, p.start_line, p.end_line) for p in self.passages]


def gather(app: App, question: str, *, context_tokens: int, leaves_machine: bool) -> Context:
    """What to show to a model of this size; without what is private, if it runs on another machine."""
    room = min(MOST_TOKENS, int(STANDING_SHARE * context_tokens))
    texts = {path: app.note_text(path) for path in STANDING_NOTES}
    public_texts = {path: public_text(text) if leaves_machine else text for path, text in texts.items()}
    standing = tuple(note for path, text in public_texts.items() if (note := standing_note(path, text, room)))
    private = not leaves_machine and any(public_text(text) != text for text in texts.values())
    try:
        results, beside, outcome = search(app, question, leaves_machine=leaves_machine)
    except (TarsError, apsw.Error) as error:
        return Context(standing, private=private, notices=(f"memory could not be searched: {error}",))
    rows = {shown_of(result): result for result in [*results, *beside]}
    budget = min(MOST_TOKENS, int(PASSAGES_SHARE * context_tokens))
    passages = tuple(fit_passages(list(rows), budget_tokens=budget))
    shown = [rows[passage] for passage in passages]
    searched = Searched(
        question,
        tuple(result for result in shown if result in results),
        outcome.trace,
        first=True,
        beside=tuple(place(result) for result in shown if result not in results),
        no_room=tuple(place(result) for result in results if result not in shown),
    )
    return Context(
        standing,
        passages,
        searched,
        private=private or any(result.private for result in shown),
        notices=outcome.notices,
    )


def standing_note(path: str, text: str, room_tokens: int) -> StandingNote | None:
    """The note from its beginning, whole lines only; None if there is nothing in it to show."""
    lines = text.rstrip("\n").split("\n")
    kept: list[str] = []
    for line in lines:
        room_tokens -= estimate_tokens(line)
        if room_tokens < 0:
            break
        kept.append(line)
    return StandingNote(path, "\n".join(kept), len(lines)) if "".join(kept).strip() else None


def search(app: App, question: str, *, leaves_machine: bool) -> tuple[list[SearchResult], list[SearchResult], Outcome]:
    """The best passage of each note, then the others; what stands beside the best; and all that the search gave."""
    limit = SPARE * PASSAGES if leaves_machine else PASSAGES
    outcome = app.search(question, limit=limit, min_confidence=app.config.agent.min_confidence, explain=True)
    found = public(outcome.results, leaves_machine)[:PASSAGES]
    found = [result for result in found if result.file_path not in STANDING_NOTES]
    first = {result.file_path: result for result in reversed(found)}
    best = [result for result in found if first[result.file_path] is result]
    others = [result for result in found if first[result.file_path] is not result]
    known = {result.chunk_rowid for result in found}
    beside = [result for result in app.neighbours(best) if result.chunk_rowid not in known]
    return best + others, public(beside, leaves_machine), outcome


def public(results: Sequence[SearchResult], leaves_machine: bool) -> list[SearchResult]:
    return [result for result in results if not (leaves_machine and result.private)]


def shown_of(result: SearchResult) -> ShownPassage:
    return ShownPassage(
        result.file_path, result.start_line, result.end_line, result.file_title, result.date, result.content
    )
