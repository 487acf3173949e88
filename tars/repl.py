"""The conversation in a terminal: a prompt, slash commands, and answers as they arrive."""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from tars.chat import Usage
from tars.citations import Citation
from tars.core import Answering
from tars.display import Display, Hangup, shorten
from tars.errors import TarsError, redact
from tars.markdown import neutral
from tars.output import A_MODEL
from tars.owner import make_folder

PROMPT, CONTINUED = "> ", "  "
HISTORY_ENTRIES = 5_000
COMPLETIONS = 50  # more than anyone reads
MENU_LINES = 6
EDITORS = ("sensible-editor", "nano", "vi")  # when neither VISUAL nor EDITOR is set
GONE = (errno.EIO, errno.ENXIO, errno.EBADF, errno.EPIPE)  # what a terminal answers that is no more
HINT = "Ctrl-D or /quit leaves"
NO_OTHER = f"there is no other; to have one {A_MODEL}"
KEYS = """\
Enter      send                     Ctrl-R         search what you typed
Alt-Enter  new line (also Ctrl-J)   Ctrl-X Ctrl-E  write in your editor
Tab        complete                 Ctrl-C         stop, or clear the line
Up, Down   what you typed before    Ctrl-D         leave"""


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the terminal can do, and what the person set; found out by whoever may read the environment."""

    colour: bool = True
    links: bool = False  # OSC 8
    dumb: bool = False  # no escape codes at all
    editor: str = ""


class Conversation(Protocol):
    """What the prompt needs of a conversation. Texts it gives back are markdown and may hold anything.

    The iterators run in the main thread. Closing one stops the answer; so does KeyboardInterrupt, which Ctrl-C
    raises anywhere inside. Either way the history stays well-formed. Every method may raise TarsError.
    """

    @property
    def model(self) -> str:
        """As in the setting: claude:MODEL, ollama:MODEL or recall."""

    @property
    def folder(self) -> Path:
        """The memory folder, for links."""

    @property
    def usage(self) -> Usage:
        """The tokens of the conversation so far."""

    @property
    def memories(self) -> int:
        """How many passages were used so far."""

    def ask(self, text: str) -> Answering: ...

    def retry(self) -> Answering:
        """Ask the last message again; its answer is dropped. TarsError if there is none."""

    def last_question(self) -> str:
        """Empty if there is none."""

    def last_answer(self) -> str:
        """Empty if there is none."""

    def cited(self, citation: Citation) -> Citation | None:
        """The citation with its full path if the model was shown these lines, else None."""

    def why(self, which: str) -> str:
        """Which memories were shown and why: empty for all in short, a number for one in full, `all` for all."""

    def search(self, query: str) -> str: ...

    def remember(self, fact: str) -> str:
        """Where it went, for the person."""

    def forget(self, text: str) -> str: ...

    def memory(self) -> str:
        """What is always known: Memory.md, and an overview of the folder."""

    def models(self) -> list[str]:
        """Quick and remembered: asked while the person types."""

    def set_model(self, name: str) -> None: ...

    def sessions(self) -> list[tuple[str, str]]:
        """Id and first line of earlier conversations, newest first."""

    def resume(self, session_id: str) -> None: ...

    def clear(self) -> None:
        """Start a new conversation; the old one is kept among the sessions."""

    def index(self) -> str: ...

    def note_paths(self) -> list[str]:
        """Quick: asked when the person completes a word."""

    def idle(self, stopped: Callable[[], bool]) -> None:
        """What can be got ready while nobody asks; in a thread of its own, quiet, and soon over once `stopped`."""

    def close(self) -> Answering:
        """The end: write the session's note. Always run to its end, unless the person interrupts."""


def run(conversation: Conversation, terminal: Terminal, *, history: Path | None, out: TextIO = sys.stdout) -> None:
    """Talk until the person leaves or the terminal goes away; then close the conversation."""
    display = Display(out, colour=terminal.colour and not terminal.dumb, animated=not terminal.dumb)
    with Signals() as signals:
        repl = Repl(conversation, terminal, InputHistory(history), display, signals)
        try:
            repl.show_last()
            repl.loop()
        except Hangup:
            # Nobody reads what is still in the buffer, and the interpreter would complain at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            for _ in conversation.close():
                pass
        else:
            repl.answer(conversation.close(), waiting="saving the session", stopped="stopped")


class Repl:
    """The loop, and one method for each slash command."""

    def __init__(
        self,
        conversation: Conversation,
        terminal: Terminal,
        history: InputHistory,
        display: Display,
        signals: Signals,
    ) -> None:
        self.conversation, self.terminal, self.history = conversation, terminal, history
        self.display, self.signals = display, signals
        self.read = self._plain_line if terminal.dumb else Prompt(self).read

    def loop(self) -> None:
        """Until Ctrl-D, /quit or the end of the terminal."""
        while True:
            try:
                with Meanwhile(self.conversation.idle):
                    text = self.read().strip()
                if text:
                    self.obey(text)
            except EOFError:
                return
            except KeyboardInterrupt:
                self.display.say(f"stopped; {HINT}")
            except TarsError as error:
                self.display.complain(str(error))

    def obey(self, text: str) -> None:
        """A slash command, or a message. A path such as /etc/hosts begins a message."""
        found = re.match(r"(/[A-Za-z]+)(?:\s+(.*))?$", text, re.DOTALL)
        if not found:
            self.answer(self.conversation.ask(text))
            return
        command = NAMED.get(found[1].lower())
        if command is None:
            near = difflib.get_close_matches(found[1].lower(), NAMED, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "/help lists them"
            raise TarsError(f"no command {found[1]}; {hint}")
        rest = (found[2] or "").strip()
        if command.argument.isupper() and not rest:
            raise TarsError(f"{command.name} needs more: {command.name} {command.argument}")
        command.obey(self, rest)

    def answer(
        self,
        events: Answering,
        *,
        waiting: str = "thinking",
        stopped: str = "stopped; /retry asks again",
    ) -> None:
        """Show an answer; Ctrl-C stops it and nothing else."""
        try:
            with self.signals.one_interrupt(), quiet_keyboard(self.display, dumb=self.terminal.dumb):
                try:
                    self.display.show(events, self._cited, waiting=waiting)
                finally:
                    events.close()
        except KeyboardInterrupt:
            self.display.blank()
            self.display.say(stopped)
        self.display.blank()

    def _plain_line(self) -> str:
        try:
            text = input(PROMPT)
        except KeyboardInterrupt:
            self.display.write("\n")
            self.display.say(HINT)
            return ""
        if text.strip():
            self.history.append_string(text)
        return text

    # ---- citations

    def _cited(self, citation: Citation) -> str | None:
        shown = self.conversation.cited(citation)
        return None if shown is None else self._address(shown)

    def _address(self, citation: Citation) -> str:
        if not self.terminal.links:
            return ""
        return f"{(self.conversation.folder / citation.path).as_uri()}#L{citation.start}"

    # ---- slash commands

    def _text(self, text: str) -> None:
        self.display.text(text, self._address)
        self.display.blank()

    def _slow_text(self, make: Callable[[], str], label: str) -> None:
        with quiet_keyboard(self.display, dumb=self.terminal.dumb), self.display.busy(label):
            text = make()
        self._text(text)

    def help(self, rest: str) -> None:
        width = max(len(f"{c.name} {c.argument}") for c in COMMANDS)
        rows = [f"{f'{c.name} {c.argument}':{width}}  {c.help}" for c in COMMANDS]
        self.display.lines([*rows, "", *KEYS.splitlines(), ""])

    def search(self, rest: str) -> None:
        self._slow_text(lambda: self.conversation.search(rest), "searching")

    def remember(self, rest: str) -> None:
        self._slow_text(lambda: self.conversation.remember(rest), "remembering")

    def forget(self, rest: str) -> None:
        """Also what was typed: it would come back with the next arrow up."""
        self._slow_text(lambda: self.conversation.forget(rest), "forgetting")
        self.history.forget(rest)

    def memory(self, rest: str) -> None:
        self._text(self.conversation.memory())

    def why(self, rest: str) -> None:
        self._text(self.conversation.why(rest))

    def model(self, rest: str) -> None:
        if rest:
            self.conversation.set_model(rest)
            self.display.say(f"the model is now {self.conversation.model}")
            return
        now = self.conversation.model
        rows = [f"{'*' if name == now else ' '} {name}" for name in sorted({now, *self.conversation.models()})]
        self.display.lines([*rows, "", "/model NAME takes another" if len(rows) > 1 else NO_OTHER, ""])

    def usage(self, rest: str) -> None:
        usage = self.conversation.usage
        cached = f", {cache_share(usage)} of them from the cache" if usage.prompt else ""
        rows = [
            f"model     {self.conversation.model}",
            f"read      {usage.prompt:,} tokens{cached}",
            f"written   {usage.output:,} tokens",
            f"memories  {self.conversation.memories}",
        ]
        self.display.lines([*rows, ""])

    def retry(self, rest: str) -> None:
        self.answer(self.conversation.retry())

    def edit(self, rest: str) -> None:
        """Write the next message in the editor, beginning with the last one."""
        before = rest or self.conversation.last_question()
        text = self.edited(before).strip()
        if not text or (text == before.strip() and not rest):
            self.display.say("nothing new to send" + ("; /retry asks the last message again" if text else ""))
            return
        self.history.append_string(text)
        self.display.lines([f"{PROMPT if at == 0 else CONTINUED}{line}" for at, line in enumerate(text.splitlines())])
        self.answer(self.conversation.ask(text))

    def edited(self, text: str) -> str:
        """The text as it comes back from the person's editor."""
        editor = self.terminal.editor or next(filter(shutil.which, EDITORS), "")
        with tempfile.TemporaryDirectory(prefix="tars-") as folder, self.signals.left_to_child():
            path = Path(folder) / "message.md"
            path.write_text(text, encoding="utf-8")
            try:
                status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
            except (OSError, ValueError) as error:
                raise TarsError(f"cannot start the editor '{editor}': {error}; set EDITOR") from None
            if status:
                raise TarsError(f"the editor '{editor}' ended with status {status}; nothing was sent")
            return path.read_text(encoding="utf-8", errors="replace")

    def sessions(self, rest: str) -> None:
        room = self.display.width()
        rows = [f"{name}  {shorten(first, room - len(name) - 2)}" for name, first in self.conversation.sessions()]
        self.display.lines([*rows, "", "/resume ID goes on with one", ""] if rows else ["no earlier conversations", ""])

    def resume(self, rest: str) -> None:
        self.conversation.resume(rest)
        self.show_last()

    def show_last(self) -> None:
        """Where a conversation that goes on had come to; nothing for a new one."""
        question, answer = self.conversation.last_question(), self.conversation.last_answer()
        if question:
            self.display.lines([f"{PROMPT}{shorten(question, self.display.width() - 2)}"])
        if answer:
            self.display.text(answer, self._cited)
        if question or answer:
            self.display.blank()

    def clear(self, rest: str) -> None:
        self.conversation.clear()
        self.display.say("a new conversation; the last one is among the /sessions")

    def index(self, rest: str) -> None:
        self._slow_text(self.conversation.index, "indexing")

    def quit(self, rest: str) -> None:
        raise EOFError


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command; an argument in capitals cannot be left out."""

    name: str
    argument: str
    help: str
    obey: Callable[[Repl, str], None]


COMMANDS = (
    Command("/help", "", "this list", Repl.help),
    Command("/search", "QUERY", "passages of memory, without asking the model", Repl.search),
    Command("/remember", "FACT", "write a fact into memory", Repl.remember),
    Command("/forget", "TEXT", "take a fact out of memory, and out of what you typed", Repl.forget),
    Command("/memory", "", "what is always known", Repl.memory),
    Command("/why", "[number]", "which memories were shown, and why; with a number, one in full", Repl.why),
    Command("/model", "[name]", "which models there are; with a name, take that one", Repl.model),
    Command("/usage", "", "tokens so far, and how many came from the cache", Repl.usage),
    Command("/retry", "", "ask the last message again", Repl.retry),
    Command("/edit", "[text]", "write a message in your editor, beginning with the last one", Repl.edit),
    Command("/sessions", "", "earlier conversations", Repl.sessions),
    Command("/resume", "ID", "go on with one of them", Repl.resume),
    Command("/clear", "", "begin a new conversation", Repl.clear),
    Command("/index", "", "bring the index up to the notes", Repl.index),
    Command("/quit", "", "leave", Repl.quit),
)
NAMED = {command.name: command for command in COMMANDS}


# ---- the prompt


class Meanwhile:
    """Something that runs beside the person's typing, until it is done or no longer wanted.

    It begins after a moment: whoever pastes or types ahead is not waiting.
    """

    PAUSE = 0.2  # seconds

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        self._work, self._stop = work, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        if not self._stop.wait(self.PAUSE):
            self._work(self._stop.is_set)


class Prompt:
    """Reads what the person types, with a status line below."""

    def __init__(self, repl: Repl) -> None:
        self._repl = repl
        self._hint = ""
        self._session: PromptSession[str] = PromptSession(
            message=[("class:prompt", PROMPT)],
            history=repl.history,
            completer=Completions(repl.conversation),
            complete_while_typing=Condition(lambda: get_app().current_buffer.text.startswith("/")),
            reserve_space_for_menu=MENU_LINES,
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=CONTINUED,
            bottom_toolbar=self._status,
            enable_suspend=True,
            style=Style.from_dict({"prompt": "bold", "bottom-toolbar": "noreverse ansibrightblack"}),
            color_depth=None if repl.terminal.colour else ColorDepth.DEPTH_1_BIT,
        )

    def read(self) -> str:
        self._hint = ""
        try:
            return self._session.prompt()
        except OSError as error:
            if error.errno in GONE:
                raise Hangup from None
            raise

    def _status(self) -> str:
        return f" {neutral(self._hint or status(self._repl.conversation))}"

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)  # not while searching in the history

        @keys.add("enter", filter=typing)
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=typing)
        @keys.add("c-j", filter=typing)
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=typing)
        def clear(event: KeyPressEvent) -> None:
            self._hint = "" if event.current_buffer.text else HINT
            event.current_buffer.reset()

        @keys.add("tab", filter=typing)
        def complete(event: KeyPressEvent) -> None:
            complete_now(event.current_buffer)

        @keys.add("c-x", "c-e", filter=typing)
        async def edit(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            try:
                text = await run_in_terminal(lambda: self._repl.edited(buffer.text))
            except TarsError as error:
                self._hint = str(error)
            else:
                buffer.document = Document(text.rstrip("\n"))

        return keys


def complete_now(buffer: Buffer) -> None:
    """Complete as far as there is no choice, then offer the choices, then go through them.

    Prompt-toolkit's own Tab is lost if it comes while the choices for the last letter are still being looked up.
    """
    offered = buffer.complete_state
    if offered and offered.complete_index is not None:
        buffer.complete_next()
        return
    choices = list(buffer.completer.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
    if len(choices) == 1:
        buffer.apply_completion(choices[0])
    elif suffix := get_common_complete_suffix(buffer.document, choices):
        buffer.insert_text(suffix)
    elif offered:
        buffer.complete_next()
    else:
        buffer.start_completion()


class Completions(Completer):
    """Commands as they are typed; models, sessions and notes where they fit."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        typed = document.text_before_cursor
        command, space, rest = typed.partition(" ")
        word = document.get_word_before_cursor(WORD=True)
        if not space and command.startswith("/") and command.count("/") == 1:
            yield from self._commands(command)
        elif command == "/model":
            yield from named(rest, ((name, "") for name in self._asked(self._conversation.models)))
        elif command == "/resume":
            yield from named(rest, self._asked(self._conversation.sessions))
        elif word and complete_event.completion_requested:
            yield from named(word, ((path, "") for path in self._asked(self._conversation.note_paths)))

    def _commands(self, typed: str) -> Iterator[Completion]:
        for command in COMMANDS:
            if command.name.startswith(typed.lower()):
                text = command.name + (" " if command.argument else "")
                yield Completion(text, -len(typed), display=command.name, display_meta=command.help)

    def _asked(self, ask: Callable[[], list[Any]]) -> list[Any]:
        try:
            return ask()
        except TarsError:  # nothing to complete from; the command itself will say why
            return []


def named(typed: str, choices: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    """Those that begin with what was typed, or whose file's name does, each with what it is about."""
    low = typed.lower()
    matching = (c for c in choices if c[0].lower().startswith(low) or Path(c[0]).name.lower().startswith(low))
    for (text, about), _ in zip(matching, range(COMPLETIONS), strict=False):
        yield Completion(text, -len(typed), display=neutral(text), display_meta=neutral(shorten(about, 50)))


class InputHistory(History):
    """What was typed before, oldest first, one JSON text per line of a file that only its owner reads."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        self._entries = self._stored()

    async def load(self) -> AsyncGenerator[str, None]:
        for entry in reversed(self._entries):
            yield entry

    def get_strings(self) -> list[str]:
        return self._entries

    def append_string(self, string: str) -> None:
        self._entries.append(string)
        self.store_string(string)

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._entries)

    def store_string(self, string: str) -> None:
        # A full disk is no reason to lose the message that was just typed.
        with contextlib.suppress(OSError):
            if self._path is not None:
                with owners_file(self._path, os.O_APPEND) as file:
                    file.write(json.dumps(redact(string)) + "\n")

    def forget(self, text: str) -> None:
        """Every entry that holds the text; other processes may have added some."""
        self._entries = [entry for entry in self._stored() or self._entries if text.lower() not in entry.lower()]
        if self._path is not None:
            try:
                self._rewrite(self._path)
            except OSError as error:
                raise TarsError(f"what you typed is still in {self._path}: {error}") from None

    def _rewrite(self, path: Path) -> None:
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        with owners_file(temporary, os.O_TRUNC) as file:
            file.writelines(json.dumps(entry) + "\n" for entry in self._entries)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _stored(self) -> list[str]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines() if self._path else []
        except OSError:  # none yet, or not for us to read
            return []
        return [entry for line in lines[-HISTORY_ENTRIES:] if (entry := history_entry(line))]


def history_entry(line: str) -> str:
    """Empty for a line that was cut off or is not ours."""
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry if isinstance(entry, str) else ""


def owners_file(path: Path, flag: int) -> TextIO:
    make_folder(path.parent)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600), "w", encoding="utf-8")


def status(conversation: Conversation) -> str:
    """Model, tokens, cache share and memories used, for the line below the prompt."""
    usage, memories = conversation.usage, conversation.memories
    parts = [conversation.model]
    if usage.prompt or usage.output:
        parts.append(f"{thousands(usage.prompt)} in, {thousands(usage.output)} out")
    if usage.prompt:
        parts.append(f"cache {cache_share(usage)}")
    parts.append(f"{memories} {'memory' if memories == 1 else 'memories'}")
    return " · ".join(parts)


def cache_share(usage: Usage) -> str:
    return f"{100 * usage.cache_read // max(usage.prompt, 1)} %"


def thousands(number: int) -> str:
    """
    >>> [thousands(n) for n in (999, 1234, 123456)]
    ['999', '1.2k', '123k']
    """
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 100_000 else f"{number // 1000}k"


# ---- the terminal and its signals


class Signals:
    """Ctrl-C interrupts; a terminal that goes away, or a wish to end, raises Hangup."""

    def __init__(self) -> None:
        self._presses, self._once, self._ignored = 0, False, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        for name in ("SIGHUP", "SIGTERM"):  # there is no SIGHUP on Windows
            if number := getattr(signal, name, None):
                self._before[number] = signal.signal(number, self._hang_up)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def one_interrupt(self) -> Iterator[None]:
        """The second Ctrl-C must not disturb what the first one made tidy up; the third may."""
        self._presses, self._once = 0, True
        try:
            yield
        finally:
            self._once = False

    @contextlib.contextmanager
    def left_to_child(self) -> Iterator[None]:
        """For as long as another program has the terminal."""
        self._ignored = True
        try:
            yield
        finally:
            self._ignored = False

    def _interrupt(self, number: int, frame: object) -> None:
        self._presses += 1
        if not self._ignored and not (self._once and self._presses == 2):
            raise KeyboardInterrupt

    def _hang_up(self, number: int, frame: object) -> None:
        # Once: what runs now is the end.
        signal.signal(number, signal.SIG_IGN)
        raise Hangup


@contextlib.contextmanager
def quiet_keyboard(display: Display, *, dumb: bool) -> Iterator[None]:
    """What is typed while an answer runs is not echoed into it, and waits for the next prompt as it was typed."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    quiet = termios.tcgetattr(sys.stdin)
    quiet[3] &= ~termios.ECHO
    if not dumb:
        quiet[0] &= ~termios.ICRNL  # Enter stays Enter, and is no Ctrl-J
        quiet[3] &= ~termios.ICANON
        display.write("\x1b[?2004h")  # a text pasted now stays one text
    try:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
        if not dumb:
            display.write("\x1b[?2004l")
