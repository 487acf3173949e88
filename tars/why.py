"""Why a conversation was shown what it was shown, told to a person from the trace of its searches."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tars.search.explain import explain
from tars.search.query import SearchResult, Step

TOLD = 5  # passages of a search that are told about; the others are only named
QUOTED_CHARS = 120  # of a question
LISTS = {"vectors": "meaning", "late": "word by word", "hyde": "hypothesis", "whole_notes": "whole note"}
READING = ("times", "classify", "code", "imagine", "expand", "boosters")  # stages that read the question
SETTLED = ("in_time", "variance", "fusion", "cut", "budget")  # stages whose doings show in the places, or move nothing
MOVERS = {  # what raises a passage, and what passes it
    "beside": ("its neighbours", "others with better neighbours"),
    "same_day": ("notes of the same day", "others with notes of their day"),
    "links": ("linked notes", "others with linked notes"),
    "communities": ("its group of notes", "others of a better group"),
    "recency": ("its date", "newer ones"),
    "limbic": ("earlier use", "others used before"),
}


@dataclass(frozen=True, slots=True)
class Searched:
    """A search of a conversation: what was looked for, and what of it the model was shown."""

    question: str
    results: tuple[SearchResult, ...]
    steps: tuple[Step, ...] = ()
    first: bool = False  # the one with which the conversation began
    beside: tuple[str, ...] = ()  # places that came along because they stand beside a result
    no_room: tuple[str, ...] = ()  # places that were found and left out


def why(searches: Sequence[Searched], *, standing: Sequence[str] = (), which: str = "") -> str:
    """All searches in short, a passage once; or with a number one passage in full, with `all` a line for each."""
    numbers: dict[int, int] = {}  # of the passages, by their rowid
    for searched in searches:
        for result in searched.results:
            numbers.setdefault(result.chunk_rowid, len(numbers) + 1)
    if which and which != "all":
        return in_full(searches, numbers, which)
    parts = [f"Always shown: {', '.join(standing)}."] if standing else []
    known: set[int] = set()
    for searched in searches:
        parts.append(told(searched, numbers, known, most=len(numbers) if which else TOLD))
        known |= {result.chunk_rowid for result in searched.results}
    more = "" if which else "; `/why all`: a line for each"
    return "\n\n".join([*parts, f"`/why NUMBER`: every step of one{more}"] if numbers else parts)


def told(searched: Searched, numbers: dict[int, int], known: set[int], *, most: int) -> str:
    """One search: how the question was read, the best passages with their reasons, the others by name."""
    new = [result for result in searched.results if result.chunk_rowid not in known]
    again = [str(numbers[result.chunk_rowid]) for result in searched.results if result.chunk_rowid in known]
    asked = "your first message" if searched.first else "the last search of memory"
    lines = [f"For {asked}, “{quoted(searched)}”:" + ("" if searched.results else " nothing was found.")]
    if read := [text for step in searched.steps if step.stage in READING for text in step.did]:
        lines.append(f"(read in it: {'; '.join(read).replace('windows ', 'the time ')})")
    rows = [f"{numbers[r.chunk_rowid]}. **{place(r)}** {chance(r)}\n   {reason(r)}" for r in new[:most]]
    others = {
        "Also shown": [f"{numbers[r.chunk_rowid]}. {place(r)}" for r in new[most:]],
        "Shown again": again,
        "Beside these, for what comes before and after": searched.beside,
        "Found, but there was no room": searched.no_room,
    }
    named = [f"{what}: {', '.join(places)}" for what, places in others.items() if places]
    return "\n\n".join(part for part in ("\n".join(lines), "\n".join(rows), *named) if part)


def reason(result: SearchResult) -> str:
    """Its place in the lists that found it, and what moved it after that.

    >>> ranks = {"words": (1, 9.0), "late": (12, 0.4)}
    >>> raised = Step("links", 4, 2, 0.5, 0.7, ("place 4 → 2",))
    >>> reason(SearchResult("", 0.7, "a.md", "", "note", 1, 1, 1, ranks=ranks, trace=(raised,)))
    'words 1st, word by word 12th; raised by linked notes (4 → 2)'
    """
    found = [f"{LISTS.get(name, name)} {ordinal(rank)}" for name, (rank, _) in result.ranks.items()]
    moved = [text for step in result.trace if (text := move(step))]
    return "; ".join([", ".join(found) or "not found by itself", *moved])


def move(step: Step) -> str:
    """What a stage did to the place of a passage; nothing if it stayed."""
    if step.rank is None or step.rank == step.rank_before or step.stage in SETTLED:
        return ""
    helps, hinders = MOVERS.get(step.stage, (f"`{step.stage}`", f"others in `{step.stage}`"))
    if step.rank_before is None:
        return f"brought in by {helps} at {step.rank}"
    way = f"({step.rank_before} → {step.rank})"
    return f"raised by {helps} {way}" if step.rank < step.rank_before else f"passed by {hinders} {way}"


def in_full(searches: Sequence[Searched], numbers: dict[int, int], which: str) -> str:
    """Every step of one passage, and of the question that found it."""
    for searched in searches:
        for result in searched.results:
            if str(numbers[result.chunk_rowid]) == which:
                passage = explain(result).split("\n")
                question = [f"{step.stage}: {', '.join(step.did)}" for step in searched.steps if step.did]
                head = f"**{place(result)}**, for “{quoted(searched)}”"
                return "\n\n".join([head, listed(passage), "The question:", listed(question)])
    return f"There is no passage {which}; `/why` shows the numbers, from 1 to {len(numbers)}."


def quoted(searched: Searched) -> str:
    return textwrap.shorten(searched.question, QUOTED_CHARS, placeholder="…")


def listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def chance(result: SearchResult) -> str:
    return f"{100 * result.confidence:.0f} % likely"


def place(result: SearchResult) -> str:
    return f"{result.file_path}:{result.start_line}-{result.end_line}"


def ordinal(number: int) -> str:
    """
    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 102, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '102nd', '113th']
    """
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
