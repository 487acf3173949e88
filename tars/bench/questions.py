"""Questions whose answers are known: folders with `memory/` and `questions.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

from tars.errors import TarsError
from tars.search.query import SearchResult

FILE = "questions.jsonl"


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of a note, counted from 1, both included."""

    path: str
    start_line: int
    end_line: int

    def overlaps(self, result: SearchResult) -> bool:
        return (
            result.file_path == self.path and result.start_line <= self.end_line and self.start_line <= result.end_line
        )


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    category: str = ""
    evidence: tuple[Span, ...] = ()
    adversarial: bool = False  # the notes do not answer it
    as_of: date | None = None
    any_part: bool = False  # any passage of the evidence answers it, not only most of its text
    taken_from: Span | None = None  # where the question itself stands; that is no answer


@dataclass(frozen=True, slots=True)
class Case:
    """A folder of notes and what is asked of it."""

    set: str
    name: str
    memory: Path
    questions: tuple[Question, ...]


def find_cases(roots: Sequence[Path]) -> list[Case]:
    """Every case at or below the folders. A set is the folder that holds its cases; a case named itself is its own."""
    named = [root.resolve() for root in roots]
    folders: set[Path] = set()
    for root in named:
        if not root.is_dir():
            raise TarsError(f"there is no folder {root}")
        below = {file.parent for file in root.rglob(FILE)}
        if not below:
            raise TarsError(f"no {FILE} in or below {root}; `tars bench --self` asks what your own links say")
        folders |= below
    return [read_case(folder, folder.name if folder in named else folder.parent.name) for folder in sorted(folders)]


def read_case(folder: Path, set_name: str) -> Case:
    if not (folder / "memory").is_dir():
        raise TarsError(f"{folder} has questions but no folder 'memory' to ask them of")
    questions = []
    lines = (folder / FILE).read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                questions.append(read_question(json.loads(line), number))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                reason = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else error
                raise TarsError(f"{folder / FILE}:{number} is not a question: {reason}") from None
    return Case(set_name, folder.name, folder / "memory", tuple(questions))


def read_question(row: dict[str, Any], number: int) -> Question:
    evidence = [Span(e["path"], int(e["start_line"]), int(e["end_line"])) for e in row.get("evidence") or ()]
    return Question(
        id=str(row.get("id", number)),
        text=row["query"],
        category=row.get("category") or "",
        evidence=tuple(evidence),
        adversarial=bool(row.get("adversarial")),
        as_of=date.fromisoformat(row["as_of"][:10]) if row.get("as_of") else None,
    )


def sample(cases: Iterable[Case], count: int, seed: int) -> list[Case]:
    """At most `count` questions of each set, the same for the same seed."""
    cases = list(cases)
    rng = Random(seed)
    kept: set[tuple[str, str, str]] = set()
    for name in dict.fromkeys(case.set for case in cases):
        keys = [(name, case.name, q.id) for case in cases if case.set == name for q in case.questions]
        kept.update(rng.sample(keys, min(count, len(keys))))
    return [
        replace(case, questions=tuple(q for q in case.questions if (case.set, case.name, q.id) in kept))
        for case in cases
    ]
