"""What the command line prints: answers on stdout, everything else on stderr."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from tars.errors import redact

if TYPE_CHECKING:
    from tars.everywhere import Plan
    from tars.indexer import Report
    from tars.memory import Skipped
    from tars.schedule import Row
    from tars.search.pipeline import Outcome
    from tars.search.query import SearchResult


A_MODEL = "set ANTHROPIC_API_KEY, or start Ollama with a chat model (`ollama pull qwen3:4b`)"  # how to have one


def complain(message: str) -> None:
    text = f"tars: {redact(message)}"
    if sys.stderr.isatty():
        text = broken(text, shutil.get_terminal_size().columns)
    print(text, file=sys.stderr)


def broken(text: str, columns: int) -> str:
    """The text in lines of a terminal, broken between words; a command in backticks stays whole, to be copied.

    >>> print(broken("tars: nothing is scheduled; `tars schedule install` does it", 40))
    tars: nothing is scheduled;
      `tars schedule install` does it
    """
    whole = re.sub(r"`[^`\n]+`", lambda command: command[0].replace(" ", "\0"), text)
    wrap = textwrap.TextWrapper(
        columns,
        subsequent_indent="  ",
        replace_whitespace=False,
        expand_tabs=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrap.fill(line) for line in whole.split("\n")).replace("\0", " ")


def printable(text: str) -> str:
    """Text of a note or a name without what could command the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def use_colour() -> bool:
    from tars.config import no_colour

    return sys.stdout.isatty() and not no_colour()


def print_json(answer: dict[str, Any]) -> None:
    """One object on one line; UTF-8 whatever the terminal speaks, since that is what JSON is."""
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    print(json.dumps({"schema_version": 1, **answer}, ensure_ascii=False), flush=True)


# ---- an answer


class Page(Protocol):
    """Text as it arrives, made fit for where it goes."""

    def feed(self, text: str) -> str: ...

    def end(self) -> str: ...


class Plain:
    """For pipes and files: the text as it is, in paragraphs that end with their line."""

    def __init__(self) -> None:
        self._last = ""  # the last character, if something was written
        self._apart = False

    def feed(self, text: str) -> str:
        if not text:
            return ""
        before = "\n" if self._apart else ""
        self._last, self._apart = text[-1], False
        return before + text

    def end(self) -> str:
        """The end of a line; whatever still comes stands apart."""
        after = "" if self._last in ("", "\n") else "\n"
        self._apart = self._apart or bool(self._last)
        self._last = ""
        return after


def page_for(out: TextIO) -> Page:
    """Laid out on a terminal, as it is elsewhere."""
    if not out.isatty():
        return Plain()
    from tars.display import line_width
    from tars.markdown import Markdown

    return Markdown(width=line_width, styled=use_colour())


# ---- index


def summary(report: Report) -> str:
    parts = [f"{report.indexed} indexed", f"{report.unchanged} unchanged", f"{report.removed} removed"]
    if report.pending:
        parts.append(f"{report.pending} vectors pending")
    return f"{', '.join(parts)} in {report.seconds:.1f} s"


def tell_problems(report: Report) -> None:
    for skip in report.skipped:
        complain(f"skipped {printable(skip.path)}: {skip.reason}")
    if report.warning:
        complain(f"{report.pending} passages wait for their vectors: {report.warning}")


class Runs:
    """What the runs of a process that stays did: a line for each that did something, and each problem once."""

    def __init__(self, memory: str, *, as_json: bool, quiet: bool) -> None:
        self.memory, self.as_json, self.quiet = memory, as_json, quiet
        self._first = True
        self._problems: set[Skipped | str] = set()

    def tell(self, report: Report) -> None:
        problems: set[Skipped | str] = {*report.skipped, *([report.warning] if report.warning else [])}
        new = problems - self._problems
        if self._first or report.indexed or report.removed or report.embedded or new:
            if self.as_json:
                print_json({"memory": self.memory, **asdict(report)})
            elif not self.quiet:
                complain(summary(report))
            if not self.quiet:
                known = replace(report, skipped=[skip for skip in report.skipped if skip in new])
                tell_problems(known if report.warning in new else replace(known, warning=None))
        self._first, self._problems = False, problems


class progress_bar:
    """A line on the terminal that shows how far a run is; nothing elsewhere."""

    def __init__(self, shown: bool, what: str = "notes") -> None:
        self.shown, self.what, self.drawn = shown, what, 0.0

    def __enter__(self) -> Callable[[int, int], None]:
        return self.draw

    def draw(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self.shown or (now - self.drawn < 0.1 and done < total):
            return
        self.drawn = now
        width = max(10, min(40, shutil.get_terminal_size().columns - 30))
        filled = width * done // max(total, 1)
        bar = "█" * filled + "░" * (width - filled)
        print(f"\r{bar} {done}/{total} {self.what}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *exc: object) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# ---- schedule


def show_schedule(rows: Sequence[Row]) -> None:
    """Each entry with what is known of its runs, for a person."""
    for number, row in enumerate(rows):
        said = f"{row.last_run} {row.last_result}: {row.last_text}" if row.last_run else "none yet"
        late = f" (late: is {row.scheduler} running? `tars schedule test` tries the entry)" if row.late else ""
        print("\n" * bool(number) + f"{printable(row.memory)}")
        print(f"  runs      {row.schedule}, by {row.scheduler} ({row.id})")
        print(f"  last run  {printable(said)}{late}")
        print(f"  next run  {row.next_run or 'not known, since the schedule was set by hand'}")


# ---- forgetting everywhere


def show_plan(plan: Plan) -> None:
    """What would change where, with every line that would go; and what holds the text but would stay."""
    from tars.everywhere import words_in_names

    for change in plan.changes:
        print(f"{change.kind}: {printable(str(change.file))}{'' if change.copies else ' (all of it that holds it)'}")
        for copy in change.copies:
            print(f"  {copy.line}: {printable(copy.text)}")
        if change.more:
            print(f"  and {change.more} more")
    for left in plan.left:
        print(f"not touched: {printable(str(left.file))}: {printable(left.reason)}")
    for file in words_in_names(plan):
        print(f"look at the name of {printable(str(file))}: its words are from lines that go; rename it if they tell")


def show_proof(plan: Plan, proof: Plan, out_of_reach: list[str]) -> None:
    """Whether a second search finds the text still, and where none could be made."""
    still = [*(change.file for change in proof.changes), *(left.file for left in proof.left)]
    removed = len({change.file for change in plan.changes}.difference(still))
    outcome = f"a copy is left in {len(still)}" if still else "no copy is left"
    print(f"removed from {removed} files; {proof.files} files ({proof.size / 1e6:.1f} MB) searched again: {outcome}")
    for file in still:
        print(f"still there: {printable(str(file))}")
    print("Out of reach, and it may be there:")
    for place in out_of_reach:
        print(f"  - {printable(place)}")


# ---- search


def show_passages(outcome: Outcome, *, explain: bool = False) -> None:
    """Passages with their citations, for a person."""
    from tars.search.explain import explain as why
    from tars.search.explain import explain_query

    bold, dim, plain = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if use_colour() else ("", "", "")
    if explain and (steps := explain_query(outcome)):
        print("".join(f"{dim}{printable(line)}{plain}\n" for line in steps.split("\n")))
    for number, result in enumerate(outcome.results):
        about = " · ".join(part for part in (result.file_title, result.heading, result.date) if part)
        lines = f"{result.start_line}-{result.end_line}"
        separator = "\n" if number else ""
        print(f"{separator}{bold}{printable(result.file_path)}:{lines}{plain}  {dim}{printable(about)}{plain}")
        if explain:
            for line in why(result).split("\n"):
                print(f"{dim}    {printable(line)}{plain}")
        for line in result.content.strip("\n").split("\n"):
            print(f"    {printable(line)}" if line.strip() else "")


def search_json(outcome: Outcome, query: str, *, took_ms: float, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "query": query,
        "mode": outcome.mode,
        "took_ms": round(took_ms, 2),
        "results": [result_json(result, explain=explain) for result in outcome.results],
        "empty_reason": asdict(outcome.empty_reason) if outcome.empty_reason else None,
    }
    if explain:
        from tars.search.explain import steps_json

        answer["steps"] = steps_json(outcome.trace)
    if outcome.notices:
        answer["notices"] = list(outcome.notices)
    return answer


def result_json(result: SearchResult, *, explain: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "path": result.file_path,
        "start_line": result.start_line,
        "end_line": result.end_line,
        "title": result.file_title,
        "heading": result.heading,
        "memory_type": result.memory_type,
        "date": result.date,
        "modified": result.modified,
        "score": round(result.score, 6),
        "confidence": round(result.confidence, 4),
        "content": result.content,
    }
    if explain:
        from tars.search.explain import steps_json

        row["ranks"] = {name: {"rank": rank, "score": score} for name, (rank, score) in result.ranks.items()}
        row["steps"] = steps_json(result.trace)
    return row
