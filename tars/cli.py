"""Commands and exit codes: arguments in, text out, no logic."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tars import __version__
from tars.errors import TarsError, UsageError, redact
from tars.output import (
    A_MODEL,
    complain,
    page_for,
    print_json,
    printable,
    progress_bar,
    search_json,
    show_passages,
    show_schedule,
    summary,
    tell_problems,
)

if TYPE_CHECKING:
    from tars.app import App
    from tars.conversation import Conversation
    from tars.schedule import Entry, Installed, Scheduler
    from tars.search.pipeline import Outcome

DONE, FAILED, USAGE, NOTHING_FOUND, SOME_SKIPPED, INTERRUPTED = 0, 1, 2, 3, 4, 130

HELP = """\
usage: tars                         talk
       tars MESSAGE…                one answer; piped text is added to the message
       tars index                   bring the index up to the notes (fit for cron)
       tars search QUERY            the passages alone; QUERY - reads one query per line
       tars remember FACT           write a fact to Memory.md
       tars forget TEXT             remove the line that says it; --everywhere every copy of the text
       tars sessions                earlier conversations; --continue, --resume ID go on with one
       tars schedule install        let cron, systemd or launchd run `tars index`; list, test, remove
       tars doctor | stats | config health with remedies | figures | settings and their origin
       tars bench DIR               how well and how fast search finds what is known to be there

`tars COMMAND --help` tells more. A first word that is no command starts a message; `tars -- index` is a message.

  --memory DIR      the folder of notes (else TARS_MEMORY_DIR, the config file, ./memory, your data folder)
  --model NAME      claude:MODEL, ollama:MODEL or recall (else TARS_MODEL, the config file, the best there is)
  --embedding NAME  builtin or ollama:MODEL (else TARS_EMBEDDING, the config file, builtin)
  --as-of DATE      take this for today (else TARS_NOW)
  --version         print the version

and for a conversation: --json, --no-memory, --no-save, --continue, --resume ID.
"""
NO_MODEL = f"no language model is set up, so this quotes your notes; for answers in words {A_MODEL}"


class Parser(argparse.ArgumentParser):
    """Wrong usage becomes an error like any other: one line, status 2."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; see: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run tars; the exit status."""
    open_missing_streams()
    sys.excepthook = show_bug
    threading.excepthook = lambda bug: show_bug(bug.exc_type, bug.exc_value, bug.exc_traceback)
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
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        complain("cannot write the answer: no space left on the device")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def show_bug(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """A bug keeps its traceback, but for the keys in it."""
    import traceback

    print(redact("".join(traceback.format_exception(kind, error, trace))), file=sys.stderr, end="")


def open_missing_streams() -> None:
    """Cron and scripts may start a program with its streams closed; to Python they are None then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives


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
    command, flags = COMMANDS[name or "message"]
    parser = Parser(prog=f"tars {name}" if name else "tars", description=command.__doc__, allow_abbrev=False)
    for flag, (metavar, text) in GLOBAL_FLAGS.items():
        parser.add_argument(flag, metavar=metavar, help=text)
    flags(parser)
    return command(parsed(parser, rest))


def parsed(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Flags and words in any order. What comes after `--` is words, which argparse forgets when they are mixed."""
    at = argv.index("--") if "--" in argv else len(argv)
    words = argv[at + 1 :]
    stand_ins = {f"\0{number}": word for number, word in enumerate(words)}
    args = parser.parse_intermixed_args([*argv[:at], *stand_ins])
    if stand_ins:
        args.words = [stand_ins.get(word, word) for word in args.words]
    return args


GLOBAL_FLAGS = {
    "--memory": ("DIR", "the folder of notes"),
    "--model": ("NAME", "claude:MODEL, ollama:MODEL or recall"),
    "--embedding": ("NAME", "builtin or ollama:MODEL"),
    "--as-of": ("DATE", "take this for today"),
}
MESSAGE_VALUES = ("--resume",)


def split_command(argv: list[str]) -> tuple[str | None, list[str]]:
    """The command, if the first bare word is one, and the other arguments."""
    takes_value = False
    for at, word in enumerate(argv):
        if takes_value:
            takes_value = False
        elif word == "--":
            return None, argv
        elif word.startswith("-") and word != "-":
            takes_value = word in GLOBAL_FLAGS or word in MESSAGE_VALUES
        elif word in COMMANDS and word != "message":
            return word, argv[:at] + argv[at + 1 :]
        else:
            return None, argv
    return None, argv


# ---- talking


def message_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="MESSAGE")
    parser.add_argument("--json", action="store_true", help="print answer, citations, usage and model as JSON")
    parser.add_argument("--no-memory", action="store_true", help="neither read nor write memory")
    parser.add_argument("--no-save", action="store_true", help="keep no transcript and write no note")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="go on with the last conversation")
    parser.add_argument("--resume", metavar="ID", help="go on with this conversation")


def answer(args: argparse.Namespace) -> int:
    """Answer a message, or talk if there is none and this is a terminal."""
    text = message_text(args.words)
    if not text and not sys.stdin.isatty():
        raise UsageError('nothing to answer; try: tars "what do you know about me?", or tars --help')
    with open_app(args, lives=not text) as app:
        conversation = start_conversation(app, args)
        if not text:
            return talk(app, conversation)
        if args.json:
            return answer_json(conversation, text)
        return answer_once(conversation, text)


def start_conversation(app: App, args: argparse.Namespace) -> Conversation:
    from tars import sessions
    from tars.conversation import Conversation

    folder, memory = app.config.places.state / "sessions", str(app.config.memory_dir)
    session = None
    if args.resume:
        session = sessions.find_session(folder, args.resume, memory=memory)
    elif args.go_on:
        session = sessions.newest_session(folder, memory=memory)
    chosen = args.model or (session.model if session and app.config.model == "auto" else "")
    provider = app.provider(chosen)
    if not args.no_memory:
        refresh_or_warn(app)
    if provider.name == "recall" and not chosen and app.config.model == "auto":
        complain(NO_MODEL)
    return Conversation(app, provider, save=not args.no_save, use_memory=not args.no_memory, session=session)


def refresh_or_warn(app: App, *, to_search: bool = False) -> None:
    """An index that cannot be brought up to the notes is no reason not to talk, nor to search what it has."""
    try:
        refresh(app)
    except TarsError as error:
        if not app.config.memory_dir.is_dir() or (to_search and not app.has_index()):
            raise
        complain(f"{error}; searching what was indexed before" if to_search else str(error))


def answer_once(conversation: Conversation, text: str) -> int:
    """Stream one answer: as it is into a pipe, laid out on a terminal."""
    from tars.chat import Notice, Text
    from tars.core import ToolStarted
    from tars.display import describe
    from tars.markdown import neutral

    page = page_for(sys.stdout)
    with closing(conversation.ask(text)) as answering:
        for event in answering:
            if isinstance(event, Text):
                print(page.feed(event.text), end="", flush=True)
            elif isinstance(event, Notice):
                complain(neutral(event.text))
            elif isinstance(event, ToolStarted):
                # What comes after a tool's answer is not the same sentence.
                print(page.end(), end="", flush=True)
                if sys.stderr.isatty() and conversation.model != "recall":
                    complain(neutral(describe(event.call)))
    print(page.end(), end="", flush=True)
    for citation in conversation.untrue_citations():
        complain(f"{neutral(citation)} was cited but never read")
    return status_of(conversation)


def answer_json(conversation: Conversation, text: str) -> int:
    from tars.chat import Notice
    from tars.markdown import neutral

    with closing(conversation.ask(text)) as answering:
        for event in answering:
            if isinstance(event, Notice):
                complain(neutral(event.text))
    print_json(
        {
            "answer": conversation.last_answer(),
            "citations": conversation.citations(),
            "usage": asdict(conversation.usage),
            "model": conversation.model,
            "session": conversation.session.id if conversation.session and conversation.save else None,
        }
    )
    return status_of(conversation)


def status_of(conversation: Conversation) -> int:
    """A model always says something; without one, nothing found is nothing said."""
    return NOTHING_FOUND if conversation.model == "recall" and not conversation.results() else DONE


def talk(app: App, conversation: Conversation) -> int:
    from tars import repl
    from tars.config import terminal

    found = terminal()
    can = repl.Terminal(colour=found.colour, links=found.links, dumb=found.dumb, editor=app.config.editor)
    history = app.config.places.state / "history" if conversation.save else None
    repl.run(conversation, can, history=history)
    return DONE


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


def sessions_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def list_sessions(args: argparse.Namespace) -> int:
    """Earlier conversations, newest first. Go on with one: tars --resume ID."""
    from tars import sessions

    with open_app(args) as app:
        found = sessions.list_sessions(app.config.places.state / "sessions", memory=str(app.config.memory_dir))
    if args.json:
        rows = [{"id": s.id, "started": s.started, "model": s.model, "first_words": s.first_words} for s in found]
        print_json({"sessions": rows})
    else:
        for session in found:
            print(f"{session.id:20}  {printable(session.first_words)}")
    return DONE if found else NOTHING_FOUND


def remember_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="FACT")
    parser.add_argument("--section", metavar="NAME", help="the heading of Memory.md to put it under")


def remember(args: argparse.Namespace) -> int:
    """Write a fact to Memory.md; it is found at once."""
    with open_app(args) as app:
        written = app.remember(" ".join(args.words), args.section)
        if not written.changed:
            complain("that is remembered already")
        print(f"{written.path}:{written.line} {printable(written.text)}")
    return DONE


def forget_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="TEXT", help="all of the line's text, or PATH:LINE and its text")
    parser.add_argument("--in", dest="note", metavar="PATH", help="the note to look in (else Memory.md, Procedural.md)")
    parser.add_argument("--everywhere", action="store_true", help="find every copy of TEXT (- reads it) and remove all")
    parser.add_argument("--yes", action="store_true", help="with --everywhere: do not ask")


def forget(args: argparse.Namespace) -> int:
    """Remove the one line that says this. Nothing is removed if no line, or more than one, says just that.

    With --everywhere, every copy of the text in notes, conversations, history and index, after showing them.
    """
    from tars import sessions

    if args.everywhere:
        return forget_everywhere(args)
    if args.yes:
        raise UsageError("--yes is for --everywhere; without that nothing is asked")
    with open_app(args) as app:
        written = app.forget(" ".join(args.words), args.note)
        sessions.forget((app.config.places.state / "sessions").glob("*.jsonl"), [written.text])
        print(f"forgotten: {printable(written.before or written.text)} ({written.path}:{written.line})")
    return DONE


def forget_everywhere(args: argparse.Namespace) -> int:
    """Show every copy of a text, remove them if that is wanted, and search again for the proof."""
    from tars.everywhere import carry_out, find, out_of_reach
    from tars.output import show_plan, show_proof
    from tars.sought import FEWEST, Sought

    if args.note:
        raise UsageError("--everywhere looks in every note; leave --in out")
    sought = Sought(text_to_forget(args.words))
    if sought.length < FEWEST:
        raise UsageError(f"'{sought.text}' is too short to be looked for everywhere; give at least {FEWEST} characters")
    with open_app(args) as app:
        plan = find(app.config, sought)
    show_plan(plan)
    if not plan.changes:
        complain("nothing that tars may change holds it" if plan.left else f"no copy in {plan.files} files")
        return FAILED if plan.left else NOTHING_FOUND
    if not (args.yes or confirmed()):
        complain("nothing was removed" + ("" if sys.stdin.isatty() else "; there is nobody to ask, add --yes to do it"))
        return FAILED if sys.stdin.isatty() else USAGE
    # Opened anew: looking at the bytes of an open index would drop its locks.
    with open_app(args) as app:
        problems = carry_out(app, plan, sought)
    for problem in problems:
        complain(printable(problem))
    proof = find(app.config, sought)
    show_proof(plan, proof, out_of_reach(app.config))
    return FAILED if problems or proof.changes or proof.left else DONE


def text_to_forget(words: Sequence[str]) -> str:
    """The text, or with - what is typed or piped, so that no shell keeps it in its history."""
    if words != ["-"]:
        return " ".join(words)
    if sys.stdin.isatty():
        return input("text to forget: ")
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def confirmed() -> bool:
    """Whether the person says yes; nobody does where there is no terminal."""
    if not sys.stdin.isatty():
        return False
    try:
        return input("Remove all of this? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


# ---- index and search


def index_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="throw the index away and make it anew")
    parser.add_argument("--watch", action="store_true", help="stay, and take in changes as they happen")
    parser.add_argument("--json", action="store_true", help="print a report as JSON")
    parser.add_argument("--quiet", action="store_true", help="say nothing, not even what was skipped")
    parser.add_argument("--log", metavar="FILE", help="say nothing, and add a line about the run to FILE")


def index(args: argparse.Namespace) -> int:
    """Bring the index up to the notes. Ends with 4 if some files had to be skipped."""
    if args.log and args.watch:
        raise UsageError("--log is for a run that ends, and --watch stays; use one of them")
    if args.log:
        return index_into_log(args)
    with open_app(args, say=None if args.quiet else complain) as app:
        if args.watch:
            return follow(app, args)
        with progress_bar(sys.stderr.isatty() and not args.quiet) as progress:
            report = app.build(full=args.full, progress=progress)
        if report is None:
            return index_is_busy(app, args)
        if args.json:
            print_json({"memory": str(app.config.memory_dir), **asdict(report)})
        elif sys.stdout.isatty() and not args.quiet:
            print(summary(report))
        if not args.quiet:
            tell_problems(report)
        return SOME_SKIPPED if report.skipped else DONE


def index_is_busy(app: App, args: argparse.Namespace) -> int:
    """Another process looks at the folder once more for us; it does not make the index anew."""
    if args.json:
        print_json({"memory": str(app.config.memory_dir), "busy": True})
    if args.full:
        raise TarsError("another process is indexing this memory, so it was not made anew; try again when that is done")
    if not args.quiet:
        complain("another process is indexing this memory, and takes in what changed")
    return DONE


def index_into_log(args: argparse.Namespace) -> int:
    """As a scheduler runs it: behind everybody else, and whatever comes of it is a line in the log."""
    from pathlib import Path

    from tars.schedule import RunLog, describe, step_back

    step_back()
    log = RunLog(Path(args.log).absolute())
    try:
        with open_app(args, say=None) as app:
            report = app.build(full=args.full)
    except Exception as error:
        log.add("failed", str(error) if isinstance(error, TarsError) else f"{type(error).__name__}: {error}")
        if not isinstance(error, TarsError):
            raise  # a bug keeps its traceback
        return USAGE if isinstance(error, UsageError) else FAILED
    log.add(*describe(report))
    return SOME_SKIPPED if report and report.skipped else DONE


def follow(app: App, args: argparse.Namespace) -> int:
    """Index what changes until Ctrl-C, or quietly until SIGTERM."""
    import signal
    import threading

    from tars.output import Runs
    from tars.watch import Follower

    ended = threading.Event()

    def end(*_: object) -> None:
        ended.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    runs = Runs(str(app.config.memory_dir), as_json=args.json, quiet=args.quiet)
    if sys.stderr.isatty() and not args.quiet:
        complain(f"watching {app.config.memory_dir}; Ctrl-C ends it")
    try:
        Follower(app, tell=runs.tell).run(full=args.full)
    except KeyboardInterrupt:
        if not ended.is_set():
            raise
    return DONE


def search_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="QUERY", help="words, or - for one query per line of stdin")
    parser.add_argument("-n", type=int, default=0, metavar="N", help="at most N results (1 to 100; default 10)")
    parser.add_argument("--mode", default="", choices=("hybrid", "fts", "vec"), help="both (default), words, vectors")
    parser.add_argument("--min-score", type=float, metavar="X", help="leave out lower scores")
    parser.add_argument("--min-confidence", type=float, metavar="X", help="leave out less likely ones")
    parser.add_argument("--after", type=iso_day, metavar="DATE", help="dated on or after, e.g. 2026-03 or 2026-03-01")
    parser.add_argument("--before", type=iso_day_end, metavar="DATE", help="dated on or before")
    kinds = ("semantic", "procedural", "episodic", "daily", "note")
    parser.add_argument("--type", choices=kinds, help="kind of memory")
    parser.add_argument("--path", type=filled, metavar="GLOB", help="notes whose path matches, e.g. 'sessions/*'")
    parser.add_argument("--tag", type=filled, metavar="TAG", help="notes with this tag")
    preset_flag(parser)
    parser.add_argument("--about", default="", choices=("decisions", "changes", "how"), help="add the words for these")
    parser.add_argument("--hypothesis", default="", metavar="TEXT", help="what an answer might say, to search with too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--budget", type=int, default=0, metavar="CHARS", help="no more text than this, best first")
    parser.add_argument("--explain", action="store_true", help="show how each result came to its place")


def preset_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset", metavar="NAME", help="settings for notes of a kind: general, technical, personal, research"
    )


def search(args: argparse.Namespace) -> int:
    """Find passages. Without a query: what the filters leave, newest first."""
    batch = args.words == ["-"]
    with open_app(args, lives=batch) as app:
        refresh_or_warn(app, to_search=True)
        if batch:
            return search_lines(app, args)
        text = " ".join(args.words)
        outcome, took_ms = ask(app, args, text)
        for notice in outcome.notices:
            complain(notice)
        if args.json:
            print_json(search_json(outcome, text, took_ms=took_ms, explain=args.explain))
        elif outcome.empty_reason:
            complain(f"nothing found: {printable(outcome.empty_reason.message)}")
        else:
            if text and far_off(outcome, app):
                complain("your notes do not seem to say; these are the nearest passages")
            show_passages(outcome, explain=args.explain)
        return DONE if outcome.results else NOTHING_FOUND


def far_off(outcome: Outcome, app: App) -> bool:
    """Whether a chat would have called this nothing."""
    best = max(result.confidence for result in outcome.results)
    return 0 < best < app.config.agent.min_confidence  # 0 is said if nothing judged them


def search_lines(app: App, args: argparse.Namespace) -> int:
    """One query per line in, one JSON object per line out, at once."""
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    told: set[str] = set()
    for line in iter(sys.stdin.readline, ""):
        text = line.rstrip("\n")
        outcome, took_ms = ask(app, args, text)
        for notice in outcome.notices:
            if notice not in told:
                complain(notice)
                told.add(notice)
        print_json(search_json(outcome, text, took_ms=took_ms, explain=args.explain))
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
        budget=args.budget,
        explain=args.explain,
        hypothesis=args.hypothesis,
        about=args.about,
    )
    return outcome, (time.perf_counter() - start) * 1000


def filled(text: str) -> str:
    """A filter that was left empty, by a variable that is not set perhaps, would let everything through."""
    if not text.strip().lstrip("#"):
        raise argparse.ArgumentTypeError("is empty; give it a value, or leave the option out")
    return text


def iso_day(text: str) -> str:
    return iso_range(text)[0]


def iso_day_end(text: str) -> str:
    return iso_range(text)[1]


def iso_range(text: str) -> tuple[str, str]:
    """First and last day of an ISO day, month or year."""
    from tars.arguments import WrongCall, days

    try:
        return days("date", text)
    except WrongCall:
        raise argparse.ArgumentTypeError(f"'{text}' is not a date such as 2026-03-01, 2026-03 or 2026") from None


# ---- looking after it


def schedule_flags(parser: argparse.ArgumentParser) -> None:
    actions = ("install", "list", "test", "remove")
    parser.add_argument("action", choices=actions, metavar="|".join(actions))
    parser.add_argument("--every", default="30m", metavar="TIME", help="how often: 15m, 1h, daily (default 30m)")
    for name in ("cron", "systemd", "launchd"):
        parser.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=f"use {name}")
    parser.add_argument(
        "--print", dest="show", action="store_true", help="show what install would write, change nothing"
    )
    parser.add_argument("--all", action="store_true", help="remove the entries of every memory folder")
    parser.add_argument("--json", action="store_true", help="print JSON (list)")


def schedule(args: argparse.Namespace) -> int:
    """Let the machine's scheduler keep the index true: install, list, test (run it now as it would), remove."""
    actions = {"install": schedule_install, "list": schedule_list, "test": schedule_test, "remove": schedule_remove}
    with open_app(args) as app:
        return actions[args.action](app, args)


def schedule_install(app: App, args: argparse.Namespace) -> int:
    from tars import schedule

    entry = schedule.entry_for(app.config, schedule.parse_every(args.every))
    known = schedule.schedulers()
    if args.show:
        named = [scheduler for scheduler in known if scheduler.name == args.kind]
        show_rendered(named[0] if named else schedule.choose("", entry, known), entry)
        return DONE
    chosen = schedule.choose(args.kind or "", entry, known)
    schedule.install(entry, chosen, known, complain)
    complain(f"{chosen.name} runs `tars index` for {printable(entry.memory)} {entry.every}")
    if chosen.name == "systemd" and schedule.needs_linger():
        complain("it does so while you are logged in; `loginctl enable-linger` makes it always")
    complain("`tars schedule test` tries it now")
    return DONE


def show_rendered(scheduler: Scheduler, entry: Entry) -> None:
    for part in scheduler.render(entry):
        complain(f"{scheduler.name} would have in {printable(part.where)}:")
        print(part.content.decode(errors="surrogateescape"), end="", flush=True)


def schedule_list(app: App, args: argparse.Namespace) -> int:
    from tars import schedule

    rows = [entry.row(app.now()) for entry in schedule.installed(schedule.schedulers(), complain)]
    if args.json:
        print_json({"entries": [asdict(row) for row in rows]})
    else:
        show_schedule(rows)
    if not rows:
        complain("nothing is scheduled; `tars schedule install` does it")
    return DONE if rows else NOTHING_FOUND


def schedule_test(app: App, args: argparse.Namespace) -> int:
    found = own_entries(app)
    if not found:
        complain(f"nothing is scheduled for {printable(str(app.config.memory_dir))}; `tars schedule install` does it")
        return NOTHING_FOUND
    for one in found:
        before = one.last_run()
        fired = one.scheduler.fire(one.entry)
        line = one.last_run() if one.last_run() != before else None
        print(f"{one.scheduler.name}: exit status {fired.status}")
        print(printable(str(line)) if line else f"no line was added to {printable(str(one.entry.log.file))}")
        for said in fired.output.splitlines():
            print(printable(said))
        if fired.status not in (DONE, SOME_SKIPPED) or not line:
            return FAILED
    return fired.status


def schedule_remove(app: App, args: argparse.Namespace) -> int:
    found = own_entries(app, everybody=args.all)
    for one in found:
        one.scheduler.remove(one.entry.id)
        complain(f"{one.scheduler.name} no longer runs `tars index` for {printable(one.entry.memory)}")
    if not found:
        complain("there was nothing to remove; `tars schedule list` shows what there is")
    return DONE if found else NOTHING_FOUND


def own_entries(app: App, *, everybody: bool = False) -> list[Installed]:
    """The entries of this memory, or of all; that there are none is not said while a scheduler cannot be asked."""
    from tars import schedule

    trouble: list[str] = []
    there = list(schedule.installed(schedule.schedulers(), trouble.append))
    own = [one for one in there if everybody or one.entry.id == schedule.identifier(app.config)]
    if trouble and not own:
        raise TarsError("; ".join(trouble))
    for message in trouble:
        complain(message)
    return own


def plain_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def doctor_flags(parser: argparse.ArgumentParser) -> None:
    plain_flags(parser)
    parser.add_argument("--fix", action="store_true", help="put right what can be put right, then check")


def doctor(args: argparse.Namespace) -> int:
    """Check index, folder and backends, with remedies. Ends with 1 if something is wrong."""
    from tars.doctor import examine, mend

    with open_app(args) as app:
        for done in mend(app) if args.fix else []:
            complain(done)
        checks = examine(app)
    if args.json:
        rows = [{"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy} for c in checks]
        print_json({"checks": rows})
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {printable(check.found)}")
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
        print_json(table)
    else:
        width = max(map(len, table))
        for name, value in table.items():
            print(f"{name:{width}}  {value}")
    return DONE


def config_flags(parser: argparse.ArgumentParser) -> None:
    plain_flags(parser)
    preset_flag(parser)


def config(args: argparse.Namespace) -> int:
    """Every setting with its value and where it came from."""
    from tars.app import settings

    with open_app(args) as app:
        rows = settings(app)
    if args.json:
        print_json({"settings": [asdict(row) for row in rows]})
    else:
        width = max(len(row.key) for row in rows)
        for row in rows:
            print(f"{row.key:{width}}  {row.value}  ({row.origin})")
    return DONE


# ---- measuring


def bench_flags(parser: argparse.ArgumentParser) -> None:
    folder = "a folder with memory/ and questions.jsonl in it, or in folders below"
    parser.add_argument("folders", nargs="*", metavar="DIR", help=folder)
    parser.add_argument("--self", dest="own", action="store_true", help="ask your own memory what its links say")
    parser.add_argument("--ablate", action="store_true", help="what each stage is worth, with and without it")
    parser.add_argument("--stages", nargs="+", default=(), metavar="NAME", help="only these; a+b switches both at once")
    parser.add_argument("--calibration", action="store_true", help="whether confidence says the truth")
    parser.add_argument("--plot", action="store_true", help="draw recall against characters")
    parser.add_argument("--categories", action="store_true", help="a row per kind of question")
    modes = ("hybrid", "fts", "vec")
    parser.add_argument("--mode", action="append", default=[], choices=modes, help="several times to compare them")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="results per question (1 to 100; default 20)")
    parser.add_argument("--budget", type=int, default=0, metavar="CHARS", help="ask for no more text than this")
    preset_flag(parser)
    parser.add_argument("--clock", action="store_true", help="ask each question on its day (as_of), not today")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="at most N questions of each set")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="for another sample")
    parser.add_argument("--state", metavar="DIR", help="keep the indexes here (else they are thrown away)")
    parser.add_argument("--markdown", action="store_true", help="print tables in markdown")
    parser.add_argument("--json", action="store_true", help="print JSON")


def bench(args: argparse.Namespace) -> int:
    """Measure search: recall within 2k, 4k and 8k characters, recall at 5 and 10, MRR, latency, AUC of confidence."""
    import tempfile
    from pathlib import Path

    from tars.bench.report import Bench, Request

    request = Request(
        folders=tuple(map(Path, args.folders)),
        own=args.own,
        sample=args.sample,
        seed=args.seed,
        limit=args.n,
        modes=tuple(dict.fromkeys(args.mode)),
        clock=args.clock,
        budget=args.budget,
        categories=args.categories,
        ablate=args.ablate,
        stages=tuple(args.stages),
        calibration=args.calibration,
        plot=args.plot,
        markdown=args.markdown,
    )
    with (
        open_app(args) as app,
        tempfile.TemporaryDirectory(prefix="tars-bench-") as temporary,
        progress_bar(sys.stderr.isatty(), "questions") as progress,
    ):
        home = Path(args.state).absolute() if args.state else None if args.own else Path(temporary)
        found = Bench(app.config, home, progress, tell_problems)(request)
    if not found.questions:
        complain("there is nothing to ask" + ("; no link stands in a sentence that says enough" if args.own else ""))
        return NOTHING_FOUND
    if args.json:
        print_json(found.figures)
    else:
        print(found.text)
    return SOME_SKIPPED if found.skipped else DONE


Flags = Callable[[argparse.ArgumentParser], None]
COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], Flags]] = {
    "message": (answer, message_flags),
    "index": (index, index_flags),
    "search": (search, search_flags),
    "remember": (remember, remember_flags),
    "forget": (forget, forget_flags),
    "sessions": (list_sessions, sessions_flags),
    "schedule": (schedule, schedule_flags),
    "doctor": (doctor, doctor_flags),
    "stats": (stats, plain_flags),
    "config": (config, config_flags),
    "bench": (bench, bench_flags),
}


def open_app(args: argparse.Namespace, *, lives: bool = False, say: Callable[[str], None] | None = complain) -> App:
    from tars.app import App, quiet
    from tars.config import load, use_one_thread

    use_one_thread()
    flags = {"memory_dir": args.memory, "model": args.model, "embedding": args.embedding, "now": args.as_of}
    flags["preset"] = getattr(args, "preset", None)  # of the commands that search
    return App(load(flags), say=say or quiet, lives=lives)


def refresh(app: App) -> None:
    """Take in what changed before a question; what had to be skipped is told when something was read."""
    with progress_bar(sys.stderr.isatty()) as progress:
        report = app.refresh(progress)
    if report is not None:
        tell_problems(report)
