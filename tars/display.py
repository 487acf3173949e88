"""An answer on the terminal as it arrives: text, thinking and asides apart, a sign of life while nothing comes."""

from __future__ import annotations

import json
import shutil
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from tars.chat import Notice, Text, Thinking, ToolCall
from tars.core import AgentEvent, ToolDone, ToolStarted
from tars.markdown import DIM, Cite, Markdown, columns, neutral
from tars.output import broken

LINE_COLUMNS = 100  # a longer line is hard to read, however wide the window
LABEL_CHARS = 60


class Hangup(SystemExit):
    """The terminal is gone. A SystemExit, because an event loop lets nothing else out of a signal's handler."""


def line_width() -> int:
    return min(shutil.get_terminal_size().columns, LINE_COLUMNS)


class Display:
    """Writes to a terminal; `animated` means that it can go back to the start of a line and erase it."""

    def __init__(self, out: TextIO, *, colour: bool, animated: bool, width: Callable[[], int] = line_width) -> None:
        self._out, self.width, self._animated = out, width, animated
        # Bullets and bars need more than ASCII, and so does whoever would rather see marks than escapes.
        self._styled = colour and speaks_unicode(out)
        self._spinner = Spinner(out, width)
        self._block: Markdown | None = None  # what is being written, and of which kind
        self._kind = ""

    def show(self, events: Iterable[AgentEvent], cite: Cite | None = None, *, waiting: str = "thinking") -> None:
        """Everything that arrives, to its end. However that comes, the cursor is at the start of a line then."""
        try:
            self._wait(waiting)
            for event in events:
                self._spinner.stop()
                self._show(event, cite)
        finally:
            self._spinner.stop()
            self._close()
            self._kind = ""

    def text(self, text: str, cite: Cite | None = None) -> None:
        """A whole markdown text, apart from what came before."""
        self.show([Text(text)], cite)

    def lines(self, lines: Iterable[str]) -> None:
        """Lines as they are."""
        self.write("\n" + "".join(f"{neutral(line)}\n" for line in lines))

    def say(self, text: str) -> None:
        """One line beside the conversation."""
        self.write(self._aside(text))

    def blank(self) -> None:
        self.write("\n")

    def complain(self, text: str) -> None:
        self.write(broken(f"tars: {neutral(text)}", self.width()) + "\n")

    def busy(self, label: str) -> Spinner:
        """A sign of life for as long as the context lasts."""
        self._wait(label)
        return self._spinner

    # ---- events

    def _show(self, event: AgentEvent, cite: Cite | None) -> None:
        match event:
            case Text(text):
                self._stream("text", text, lambda: self._markdown(cite))
            case Thinking(text):
                self._stream("thinking", text, lambda: self._markdown(None, base=DIM, margin="  "))
            case Notice(text):
                self._apart("aside", self._aside(text))
                self._wait("thinking")
            case ToolStarted(call):
                if not self._animated:
                    self._apart("aside", self._aside(describe(call)))
                self._close()
                self._wait(describe(call))
            case ToolDone(call, answer):
                failed = f" failed: {problem(answer.content)}" if answer.is_error else ""
                if failed or self._animated:
                    self._apart("aside", self._aside(shorten(describe(call) + failed, 200)))
                self._wait("thinking")

    def _stream(self, kind: str, text: str, new_block: Callable[[], Markdown]) -> None:
        if self._kind != kind or self._block is None:
            if not text.strip():
                self._wait("thinking")
                return
            self._apart(kind, "")
            self._block = new_block()
        self.write(self._block.feed(text))

    def _apart(self, kind: str, text: str) -> None:
        """Begin a block of this kind, with an empty line before it if the last was of another."""
        self._close()
        self.write(("\n" if kind != self._kind else "") + text)
        self._kind = kind

    def _close(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            self.write(block.end())

    def _aside(self, text: str) -> str:
        mark = "· " if speaks_unicode(self._out) else "- "
        lines = textwrap.wrap(neutral(text), self.width(), initial_indent=mark, subsequent_indent="  ")
        return "".join(f"\x1b[{DIM}m{line}\x1b[0m\n" if self._styled else f"{line}\n" for line in lines)

    def _markdown(self, cite: Cite | None, *, base: str = "", margin: str = "") -> Markdown:
        return Markdown(width=self.width, styled=self._styled, cite=cite, base=base, margin=margin)

    def _wait(self, label: str) -> None:
        if self._animated and self._block is None:
            self._spinner.start(label)

    def write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            raise Hangup from None


class Spinner:
    """A line that moves while something is waited for, and leaves nothing behind.

    Each step rewrites one character, and the seconds once a second: a slow line has better things to carry.
    """

    DELAY, STEP = 0.3, 0.2  # seconds

    def __init__(self, out: TextIO, width: Callable[[], int] = line_width) -> None:
        self._out, self.width = out, width
        self._frames = "⠋⠙⠸⠴⠦⠇" if speaks_unicode(out) else "|/-\\"
        self._thread: threading.Thread | None = None
        self._done = threading.Event()
        self._drawn = False

    def __enter__(self) -> Spinner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, label: str) -> None:
        self.stop()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(shorten(neutral(label), LABEL_CHARS),), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Erase the line. May be called again after it was itself interrupted."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._drawn:
            self._drawn = False
            self._draw("\r\x1b[K")

    def _run(self, label: str) -> None:
        done, began, step, seconds = self._done, time.monotonic(), 0, -1
        pause = self.DELAY
        while not done.wait(pause):
            pause, step = self.STEP, step + 1
            frame = self._frames[step % len(self._frames)]
            now = int(time.monotonic() - began)
            self._drawn = True
            self._draw(f"\r{frame}" if now == seconds else f"\r{self._line(frame, label, now)}")
            seconds = now

    def _line(self, frame: str, label: str, seconds: int) -> str:
        line = f"{frame} {label}" + (f" {seconds} s" if seconds > 1 else "")
        while line and columns(line) >= self.width():  # a line that wraps could not be erased
            line = line[:-1]
        return line

    def _draw(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:  # the terminal is gone; whoever writes the next word will notice
            self._done.set()


def speaks_unicode(out: TextIO) -> bool:
    return (out.encoding or "").lower().replace("-", "") == "utf8"


def describe(call: ToolCall) -> str:
    """What a tool was asked to do, on one line.

    >>> describe(ToolCall("1", "memory_search", {"query": "boiler", "limit": 5}))
    'memory_search: boiler, 5'
    """
    arguments = ", ".join(str(value) for value in call.arguments.values()) or call.malformed
    return shorten(f"{call.name}: {arguments}" if arguments else call.name, LABEL_CHARS)


def problem(content: str) -> str:
    """What went wrong, out of a tool's answer: {"error": ...}, or any text."""
    try:
        answer = json.loads(content)
    except ValueError:
        return content
    return str(answer["error"]) if isinstance(answer, dict) and "error" in answer else content


def shorten(text: str, chars: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars else text[: chars - 1] + "…"
