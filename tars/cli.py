"""Commands and exit codes: arguments in, text out. The only module that prints."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tars import __version__
from tars.errors import TarsError, UsageError

if TYPE_CHECKING:
    from tars.app import App
    from tars.indexer import Report
    from tars.search.pipeline import Outcome

DONE, FAILED, USAGE, NOTHING_FOUND, SOME_SKIPPED, INTERRUPTED = 0, 1, 2, 3, 4, 130
SHOWN_PASSAGES = 5

HELP = """\
usage: tars [MESSAGE…]              answer from memory; piped text is added to the message
       tars index                   bring the index up to the notes (fit for cron)
       tars search QUERY            the passages alone; QUERY - reads one query per line
       tars doctor | stats | config health with remedies | figures | settings and their origin

`tars COMMAND --help` tells more. A first word that is no command starts a message; `tars -- index` is a message.

  --memory DIR      the folder of notes (else TARS_MEMORY_DIR, the config file, ./memory, your data folder)
  --embedding NAME  builtin or ollama:MODEL (else TARS_EMBEDDING, the config file, builtin)
  --version         print the version
"""


class Parser(argparse.ArgumentParser):
    """Wrong usage becomes an error like any other: one line, status 2."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; see: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run tars; the exit status."""
    try:
        status = run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except TarsError as error:
        complain(str(error))
        return USAGE if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever was reading has seen enough; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def run(argv: list[str]) -> int:
    name, rest = split_command(argv)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if name is None and any(flag in rest[:1] for flag in ("-h", "--help")):
        print(HELP, end="")
        return DONE
    if name is None and rest[:1] == ["--version"]:
        print(f"tars {__version__}")
        return DONE
    command = COMMANDS[name or "message"]
    parser = Parser(prog=f"tars {name}" if name else "tars", description=command.__doc__, allow_abbrev=False)
    parser.add_argument("--memory", metavar="DIR", help="the folder of notes")
    parser.add_argument("--embedding", metavar="NAME", help="builtin or ollama:MODEL")
    FLAGS[name or "message"](parser)
    args = parser.parse_intermixed_args(rest)
    return command(args)


def split_command(argv: list[str]) -> tuple[str | None, list[str]]:
    """The command, if the first bare word is one, and the other arguments."""
    takes_value = False
    for at, word in enumerate(argv):
        if takes_value:
            takes_value = False
        elif word == "--":
            return None, argv
        elif word.startswith("-") and word != "-":
            takes_value = word in ("--memory", "--embedding")
        elif word in COMMANDS and word != "message":
            return word, argv[:at] + argv[at + 1 :]
        else:
            return None, argv
    return None, argv


# ---- commands


def message_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="MESSAGE")


def answer(args: argparse.Namespace) -> int:
    """Answer a message from memory by quoting the best passages."""
    text = message_text(args.words)
    if not text:
        raise UsageError('nothing to answer; try: tars "what do you know about me?", or tars --help')
    with open_app(args) as app:
        refresh(app)
        outcome = app.search(text, limit=SHOWN_PASSAGES)
        tell_notices(outcome)
        return show_passages(outcome)


def message_text(words: Sequence[str]) -> str:
    """The message, with what is piped in added to it or in place of `-`."""
    words = list(words)
    if "-" not in words and not stdin_is_piped():
        return " ".join(words).strip()
    piped = sys.stdin.buffer.read().decode("utf-8", errors="replace").strip()
    if "-" in words:
        return " ".join(piped if word == "-" else word for word in words).strip()
    return "\n\n".join(part for part in (" ".join(words), piped) if part)


def stdin_is_piped() -> bool:
    """A pipe or a file; not a terminal, not /dev/null, not closed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, ValueError, OSError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def index_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="throw the index away and make it anew")
    parser.add_argument("--json", action="store_true", help="print a report as JSON")
    parser.add_argument("--quiet", action="store_true", help="say nothing, not even what was skipped")


def index(args: argparse.Namespace) -> int:
    """Bring the index up to the notes. Ends with 4 if some files had to be skipped."""
    with open_app(args, say=None if args.quiet else complain) as app:
        with progress_bar(sys.stderr.isatty() and not args.quiet) as progress:
            report = app.build(full=args.full, progress=progress)
        if report is None:
            if not args.quiet:
                complain("another process is indexing this memory; nothing to do")
            return DONE
        if args.json:
            print(json.dumps({"schema_version": 1, "memory": str(app.config.memory_dir), **asdict(report)}))
        elif sys.stdout.isatty() and not args.quiet:
            print(summary(report))
        if not args.quiet:
            tell_problems(report)
        return SOME_SKIPPED if report.skipped else DONE


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


def search_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="QUERY", help="words, or - for one query per line of stdin")
    parser.add_argument("-n", type=int, default=0, metavar="N", help="at most N results (1 to 100; default 10)")
    parser.add_argument(
        "--mode", default="", choices=("hybrid", "fts", "vec"), help="both ways (default), words, vectors"
    )
    parser.add_argument("--min-score", type=float, default=0.0, metavar="X", help="leave out lower scores")
    parser.add_argument("--min-confidence", type=float, default=0.0, metavar="X", help="leave out less likely ones")
    parser.add_argument("--after", type=iso_day, metavar="DATE", help="dated on or after, e.g. 2026-03 or 2026-03-01")
    parser.add_argument("--before", type=iso_day_end, metavar="DATE", help="dated on or before")
    parser.add_argument(
        "--type", choices=("semantic", "procedural", "episodic", "daily", "note"), help="kind of memory"
    )
    parser.add_argument("--path", metavar="GLOB", help="notes whose path matches, e.g. 'sessions/*'")
    parser.add_argument("--tag", metavar="TAG", help="notes with this tag")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--explain", action="store_true", help="show how each result came to its place")


def search(args: argparse.Namespace) -> int:
    """Find passages. Without a query: what the filters leave, newest first."""
    batch = args.words == ["-"]
    with open_app(args, lives=batch) as app:
        refresh(app)
        if batch:
            return search_lines(app, args)
        text = " ".join(args.words)
        outcome, took = ask(app, args, text)
        tell_notices(outcome)
        if args.json:
            print_json(outcome, text, args, took)
            return DONE if outcome.results else NOTHING_FOUND
        return show_passages(outcome, explain=args.explain)


def search_lines(app: App, args: argparse.Namespace) -> int:
    """One query per line in, one JSON object per line out, at once."""
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    told: set[str] = set()
    for line in iter(sys.stdin.readline, ""):
        outcome, took = ask(app, args, line.rstrip("\n"))
        for notice in outcome.notices:
            if notice not in told:
                complain(notice)
                told.add(notice)
        print_json(outcome, line.rstrip("\n"), args, took)
    return DONE


def ask(app: App, args: argparse.Namespace, text: str) -> tuple[Outcome, float]:
    from tars.db import Filters

    start = time.perf_counter()
    outcome = app.search(
        text,
        limit=args.n,
        mode=args.mode,
        min_score=args.min_score,
        min_confidence=args.min_confidence,
        filters=Filters(args.after, args.before, args.type, args.path, args.tag),
    )
    return outcome, (time.perf_counter() - start) * 1000


def no_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def doctor(args: argparse.Namespace) -> int:
    """Check index, folder and backends, with remedies. Ends with 1 if something is wrong."""
    from tars.doctor import examine

    with open_app(args) as app:
        checks = examine(app)
    if args.json:
        print(json.dumps({"schema_version": 1, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}")
            if check.remedy:
                print(f"     → {check.remedy}")
    return DONE if all(check.ok for check in checks) else FAILED


def stats(args: argparse.Namespace) -> int:
    """Figures of the memory and its index."""
    from tars.doctor import figures

    with open_app(args) as app:
        refresh(app)
        table = figures(app)
    if args.json:
        print(json.dumps({"schema_version": 1, **table}))
    else:
        width = max(map(len, table))
        for name, value in table.items():
            print(f"{name:{width}}  {value}")
    return DONE


def config(args: argparse.Namespace) -> int:
    """Every setting with its value and where it came from."""
    from tars.app import settings

    with open_app(args) as app:
        rows = settings(app)
    if args.json:
        print(json.dumps({"schema_version": 1, "settings": [asdict(row) for row in rows]}))
    else:
        width = max(len(row.key) for row in rows)
        for row in rows:
            print(f"{row.key:{width}}  {row.value}  ({row.origin})")
    return DONE


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "message": answer,
    "index": index,
    "search": search,
    "doctor": doctor,
    "stats": stats,
    "config": config,
}
FLAGS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "message": message_flags,
    "index": index_flags,
    "search": search_flags,
    "doctor": no_flags,
    "stats": no_flags,
    "config": no_flags,
}


# ---- between the arguments and the app


def complain(message: str) -> None:
    print(f"tars: {message}", file=sys.stderr)


def open_app(args: argparse.Namespace, *, lives: bool = False, say: Callable[[str], None] | None = complain) -> App:
    from tars.app import App, quiet
    from tars.config import load

    config = load({"memory_dir": args.memory, "embedding": args.embedding})
    return App(config, say=say or quiet, lives=lives)


def refresh(app: App) -> None:
    """Take in what changed before a question; what had to be skipped is told once, when it is new."""
    with progress_bar(sys.stderr.isatty()) as progress:
        report = app.refresh(progress)
    if report is not None:
        tell_problems(report)


class progress_bar:
    """A line on the terminal that shows how far a run is; nothing elsewhere."""

    def __init__(self, shown: bool) -> None:
        self.shown, self.drawn = shown, 0.0

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
        print(f"\r{bar} {done}/{total} notes", end="", file=sys.stderr, flush=True)

    def __exit__(self, *exc: object) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def iso_day(text: str) -> str:
    return iso_range(text)[0]


def iso_day_end(text: str) -> str:
    return iso_range(text)[1]


def iso_range(text: str) -> tuple[str, str]:
    """First and last day of an ISO day, month or year."""
    import calendar
    from datetime import date

    try:
        year, month, day = ([int(part) for part in text.split("-")] + [0, 0])[:3]
        first = date(year, month or 1, day or 1)
        last = date(year, month or 12, day or calendar.monthrange(year, month or 12)[1])
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError(f"'{text}' is not a date such as 2026-03-01, 2026-03 or 2026") from None
    return first.isoformat(), last.isoformat()


# ---- showing


def tell_notices(outcome: Outcome) -> None:
    for notice in outcome.notices:
        complain(notice)


def show_passages(outcome: Outcome, *, explain: bool = False) -> int:
    """Passages with their citations for a person; the status."""
    if outcome.empty_reason:
        complain(f"nothing found: {outcome.empty_reason.message}")
        return NOTHING_FOUND
    bold, dim, plain = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if use_colour() else ("", "", "")
    for number, result in enumerate(outcome.results):
        about = " · ".join(part for part in (result.file_title, result.heading, result.date) if part)
        lines = f"{result.start_line}-{result.end_line}"
        separator = "\n" if number else ""
        print(f"{separator}{bold}{printable(result.file_path)}:{lines}{plain}  {dim}{printable(about)}{plain}")
        if explain:
            print("".join(f"{dim}    {line}{plain}\n" for line in explanation(result)), end="")
        for line in result.content.strip("\n").split("\n"):
            print(f"    {printable(line)}" if line.strip() else "")
    return DONE


def explanation(result: Any) -> Iterator[str]:
    yield f"score {result.score:.3f}, confidence {result.confidence:.2f}"
    for name, (rank, score) in result.ranks.items():
        yield f"{name}: place {rank} with {score:.3f}"


def print_json(outcome: Outcome, text: str, args: argparse.Namespace, took_ms: float) -> None:
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    reason = outcome.empty_reason
    answer = {
        "schema_version": 1,
        "query": text,
        "mode": outcome.mode,
        "took_ms": round(took_ms, 2),
        "results": [result_json(result, explain=args.explain) for result in outcome.results],
        "empty_reason": asdict(reason) if reason else None,
    }
    if outcome.notices:
        answer["notices"] = list(outcome.notices)
    print(json.dumps(answer, ensure_ascii=False), flush=True)


def result_json(result: Any, *, explain: bool) -> dict[str, Any]:
    row = {
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
        row["ranks"] = {name: {"rank": rank, "score": score} for name, (rank, score) in result.ranks.items()}
    return row


def printable(text: str) -> str:
    """Text of a note or a name without what could command the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def use_colour() -> bool:
    from tars.config import no_colour

    return sys.stdout.isatty() and not no_colour()
