"""What is fuzzed: kinds of values to try, and what must hold for every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzz import edits, leaves, notes, questions, terminal, times, transcripts
from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    values: st.SearchStrategy[Any]
    holds: Callable[[Any], None]


TARGETS = (
    Target("chunker", notes.NOTES, notes.note_holds),
    Target("frontmatter", notes.FRONTMATTER, notes.frontmatter_holds),
    Target("wikilinks", notes.LINKS, notes.links_hold),
    Target("queries", questions.QUESTIONS, questions.question_holds),
    Target("files", questions.FILES, questions.file_holds),
    Target("calls", questions.CALLS, questions.call_holds),
    Target("talks", questions.TALKS, questions.talk_holds),
    Target("times", times.QUESTIONS, times.time_holds),
    Target("expressions", times.EXPRESSIONS, times.expression_holds),
    Target("edits", edits.EDITS, edits.edits_hold),
    Target("session-notes", edits.CONVERSATIONS, edits.session_note_holds),
    Target("transcripts", transcripts.TRANSCRIPTS, transcripts.transcript_holds),
    Target("terminal", terminal.ANSWERS, terminal.answer_holds),
    Target("leaves", leaves.ANYTHING, leaves.leaves_hold),
)
BY_NAME = {target.name: target for target in TARGETS}
