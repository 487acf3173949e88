"""The prompt in a real pseudo-terminal: keys go in, and what the screen shows is read off a terminal emulator."""

from __future__ import annotations

import errno
import io
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals on Windows", allow_module_level=True)

import fcntl
import termios

import pyte

from tars.display import Display, Hangup
from tars.errors import TarsError
from tars.repl import COMMANDS, InputHistory

DRIVER = Path(__file__).with_name("repl_driver.py")
ENTER, ALT_ENTER, CTRL_C, CTRL_D, CTRL_J, CTRL_R, TAB, UP = "\r", "\x1b\r", "\x03", "\x04", "\n", "\x12", "\t", "\x1b[A"
EDITOR = "\x18\x05"
LINKED = "\x1b]8;;file://"


class Screen(pyte.Screen):
    """A screen that answers where its cursor is, as terminals do."""

    def __init__(self, columns: int, lines: int, answer: Callable[[bytes], object]) -> None:
        super().__init__(columns, lines)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data.encode())


class Tty:
    """The driver in a pseudo-terminal of its own."""

    def __init__(self, folder: Path, *flags: str, columns: int = 80, lines: int = 30, **environ: str) -> None:
        self.folder, self.dumb = folder, "dumb" in flags
        self.master, slave = os.openpty()
        self.screen = Screen(columns, lines, lambda data: os.write(self.master, data))
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.resize(columns, lines)
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), *flags],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**inherited, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environ},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(slave)

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def paste(self, text: str) -> None:
        """As a terminal does it: marked if that was asked for, and with Enter at the end of each line."""
        marked = 2004 << 5 in self.screen.mode  # as pyte keeps what was set by ?2004h
        keys = text.replace("\n", ENTER)
        self.type(f"\x1b[200~{keys}\x1b[201~" if marked else keys)

    def read(self, seconds: float = 0.05) -> None:
        if not select.select([self.master], [], [], seconds)[0]:
            return
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            data = b""
        self.raw += data
        self.stream.feed(data)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, *wanted: str | Callable[[str], bool], seconds: float = 15) -> str:
        """Wait for the screen to show all of these."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            if all(want(self.text) if callable(want) else want in self.text for want in wanted):
                return self.text
        raise AssertionError(f"never saw {wanted} on:\n{self.text}")

    def prompt(self, **more: float) -> str:
        """Wait until an empty prompt is the last on the screen, but for the status line."""
        status = "" if self.dumb else r"\n+ claude:[^\n]*"
        return self.until(lambda text: bool(re.search(rf"(^|\n)>{status}\n*$", text)), **more)

    def ask(self, keys: str) -> str:
        self.type(keys + ENTER)
        time.sleep(0.05)
        return self.prompt()

    def waits_for(self, happened: Callable[[], bool], seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"never happened\n{self.text}"
            self.read()

    def told(self) -> list[str]:
        path = self.folder / "told"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def until_told(self, line: str, seconds: float = 15) -> list[str]:
        end = time.monotonic() + seconds
        while line not in self.told():
            assert time.monotonic() < end, f"never told {line!r}: {self.told()}\n{self.text}"
            self.read()
        return self.told()

    def end(self) -> int:
        """Wait for the process to end, as a terminal that still reads."""
        end = time.monotonic() + 15
        while self.process.poll() is None:
            assert time.monotonic() < end, f"did not end:\n{self.text}"
            self.read()
        self.read()
        return self.process.returncode


@pytest.fixture
def open_tty(tmp_path: Path) -> Iterator[Callable[..., Tty]]:
    opened: list[Tty] = []

    def open_one(*flags: str, **more: object) -> Tty:
        opened.append(Tty(tmp_path, *flags, **more))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for tty in opened:
        tty.process.kill()
        tty.process.wait()
        os.close(tty.master)


def asked(tty: Tty) -> list[str]:
    return [line.removeprefix("ask ") for line in tty.told() if line.startswith("ask ")]


def test_a_conversation_is_typed_answered_and_left(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour")
    tty.prompt()
    assert "claude:made-up · 0 memories" in tty.text

    screen = tty.ask("hello there")

    assert screen.startswith("> hello there\n\n· the prompt was cut\n\nYou said: hello there\n\n>\n")
    assert "claude:made-up · 10.0k in, 234 out · cache 90 % · 5 memories" in screen
    assert asked(tty) == ["hello there"]

    tty.type(CTRL_D)

    assert tty.end() == 0
    assert tty.told()[-2:] == ["closed", "left"]
    assert "wrote sessions/2026-03-01.md" in tty.text
    assert "claude:made-up" not in tty.text  # the status line goes with the prompt
    assert 2004 << 5 not in tty.screen.mode  # the shell finds its terminal as it was


def test_markdown_is_drawn_once_and_citations_are_links_or_marked(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour", "links")
    tty.prompt()

    screen = tty.ask("rich")

    assert "The service is due on 12 March (home/boiler.md:14), not in home/boiler.md:99[?].\n" in screen
    assert (
        "• one item which is long enough that it has to be broken at the end of a line of\n  eighty columns\n" in screen
    )
    assert "│ quoted" in screen and "code  **as it is**" in screen
    assert all(screen.count(line) == 1 for line in ("Boiler\n", "• two", "quoted", "as it is"))
    assert tty.screen.buffer[2][0].bold and tty.screen.buffer[4][4].bold and not tty.screen.buffer[4][0].bold
    assert tty.raw.decode().count(LINKED) == 1
    assert f"{LINKED}{tty.folder}/notes/home/boiler.md#L14" in tty.raw.decode()


def test_a_message_of_several_lines_is_one_message(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.type("one" + ALT_ENTER + "two" + CTRL_J + "three")
    tty.until("> one\n  two\n  three")
    tty.ask("")

    assert asked(tty) == ["one⏎two⏎three"]


def test_pasted_lines_are_not_sent_one_by_one(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.paste("first\nsecond")
    tty.until("> first\n  second")
    assert asked(tty) == []
    tty.ask("")
    tty.type("long" + ENTER)
    tty.until("word9 ")
    tty.paste("while\nit answers")
    tty.type("!")
    tty.until("word119")

    tty.until("> while\n  it answers!")
    assert asked(tty) == ["first⏎second", "long"]


def test_commands_models_sessions_and_notes_are_completed(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.type("/re")
    tty.until("/remember  write a fact", "/resume    go on")
    tty.type("t" + TAB)
    tty.until("> /retry")
    tty.type(CTRL_C + "/model oll" + TAB)
    tty.until("> /model ollama:other")
    tty.type(CTRL_C + "/resume ")
    tty.until("20260301-a", "the boiler again")
    tty.type(CTRL_C + "see lis" + TAB)
    tty.until("> see trips/lisbon.md")
    tty.type(CTRL_C + "in home/" + TAB)
    tty.until("home/boiler.md", "home/roof.md")
    tty.type(TAB)
    tty.until("> in home/boiler.md")
    tty.type(TAB)
    tty.until("> in home/roof.md")


def test_what_was_typed_is_found_again_by_the_next_process(open_tty: Callable[..., Tty], tmp_path: Path) -> None:
    tty = open_tty()
    tty.prompt()
    tty.ask("about the boiler")
    tty.ask("about the roof")
    tty.type(CTRL_D)
    tty.end()

    tty = open_tty()
    tty.prompt()
    tty.type(UP)
    tty.until("> about the roof")
    tty.type(UP)
    tty.until("> about the boiler")
    tty.type(CTRL_C)
    tty.prompt()
    tty.type(CTRL_R + "boil")
    tty.until("> about the boiler", "boil")
    tty.type(ENTER)
    tty.ask("")

    assert asked(tty)[2:] == ["about the boiler"]
    assert (tmp_path / "state" / "history").stat().st_mode & 0o777 == 0o600


def test_forgetting_takes_the_words_out_of_the_history(open_tty: Callable[..., Tty], tmp_path: Path) -> None:
    tty = open_tty()
    tty.prompt()
    tty.ask("/remember my PIN is 1234")
    tty.ask("hello")
    tty.ask("/forget pin is 1234")

    assert "forgotten: 1 line" in tty.text
    assert "1234" not in (tmp_path / "state" / "history").read_text()
    tty.type(UP)
    tty.until(lambda text: text.count("> hello") == 2)


def test_ctrl_c_stops_the_answer_and_the_conversation_goes_on(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour")
    tty.prompt()

    tty.type("long" + ENTER)
    tty.until("word20 ")
    tty.type(CTRL_C)
    screen = tty.prompt()

    assert "\n\n· stopped; /retry asks again\n\n>" in screen
    assert "word110" not in screen
    assert tty.told() == ["ask long", "interrupted"]
    assert "You said: and now" in tty.ask("and now")


def test_a_second_ctrl_c_does_not_disturb_what_the_first_made_tidy_up(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.type("long and stubborn" + ENTER)
    tty.until("word9 ")
    tty.type(CTRL_C)
    tty.until_told("interrupted")
    tty.type(CTRL_C)

    tty.until("stopped; /retry asks again")
    assert tty.told()[1:] == ["interrupted", "tidied up"]


def test_ctrl_c_stops_a_command(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.type("/search slow" + ENTER)
    tty.until(" searching")
    tty.type(CTRL_C)

    assert "> /search slow\n· stopped; Ctrl-D or /quit leaves\n>" in tty.prompt(seconds=3)


def test_ctrl_c_stops_a_tool(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour")
    tty.prompt()

    tty.type("slow tool" + ENTER)
    tty.until(lambda text: bool(re.search(r"\S memory_search: boiler", text)))
    tty.type(CTRL_C)
    screen = tty.prompt(seconds=2.5)

    assert "  I should look it up.\n\n· stopped" in screen  # the line that moved is gone
    assert tty.told()[-1] == "interrupted"


def test_a_tool_is_named_after_it_ran_and_thinking_stands_apart(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour")
    tty.prompt()

    screen = tty.ask("tool")

    assert screen.startswith("> tool\n\n  I should look it up.\n\n· memory_search: boiler\n\nFound it.\n\n>")
    assert "\n· memory_read: ../x.md failed: outside of memory\n\nNo.\n" in tty.ask("failing")


def test_ctrl_c_at_the_prompt_clears_the_line_and_says_how_to_leave(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.type("never mind")
    tty.until("> never mind")
    tty.type(CTRL_C)
    tty.until(lambda text: text.startswith(">\n"))
    tty.type(CTRL_C)

    tty.until("Ctrl-D or /quit leaves")
    assert "You said: hi" in tty.ask("hi")


def test_a_narrower_window_is_noticed_in_the_middle_of_an_answer(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour", lines=60)
    tty.prompt()

    tty.type("long" + ENTER)
    tty.until("word20 ")
    tty.resize(50, 60)
    screen = tty.prompt()

    after = screen[screen.index("word60") :].split("\n\n")[0].splitlines()
    assert len(after) > 5 and all(30 < len(line) <= 50 for line in after[1:-1])
    # Words that were shown before are cut by this emulator, which does not reflow; none comes twice.
    words = re.findall(r"word\d+(?=\s)", screen[screen.index("word60") :])
    assert words == [f"word{n}" for n in range(60, 120)]


def test_what_is_typed_during_an_answer_waits_for_the_prompt(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    tty.type("long" + ENTER)
    tty.until("word9 ")
    tty.type("early" + ENTER)

    screen = tty.until("You said: early")
    assert "early" not in screen.split("> early")[0]


def test_every_slash_command_does_its_work(open_tty: Callable[..., Tty], tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf " and more" >> "$1"\n')
    script.chmod(0o700)
    tty = open_tty(f"editor={script}", lines=60)
    tty.prompt()
    expected = {
        "/help": ["/search QUERY   passages", "Alt-Enter  new line"],
        "/search the boiler": ["home/boiler.md:10-20", "> about the boiler \\x1b[2Jdone"],
        "/remember I like tea": ["remembered in Memory.md"],
        "/forget coffee": ["forgotten: 1 line of Memory.md"],
        "/memory": ["- likes tea"],
        "/model": ["* claude:made-up", "  ollama:other"],
        "/model recal": ["tars: no model 'recal'"],
        "/usage": ["read      0 tokens", "memories  0"],
        "/retry": ["tars: there is no message to ask again"],
        "/edit this": ["> this and more", "You said: this and more"],
        "/sessions": ["20260301-a  the boiler again"],
        "/resume": ["tars: /resume needs more: /resume ID"],
        "/resume 20260301-a": ["> the boiler again\n\nIt is *due*."],
        "/clear": ["a new conversation"],
        "/index": ["3 indexed"],
        "/why": ["1. home/boiler.md:10-20 by its words"],
        "/why 2": ["1. home/boiler.md:10-20 by its words 2"],
        "/recal": ["tars: no command /recal; did you mean /"],
        "/etc/hosts?": ["You said: /etc/hosts?"],
    }

    for typed, wanted in expected.items():
        tty.type(typed + ENTER)
        tty.until(*wanted)
        tty.prompt()
        tty.type("\x0c")  # Ctrl-L, so that nothing is seen twice
        tty.until(lambda text: text.startswith(">\n"))
    tty.type("draft" + EDITOR)
    tty.until("> draft and more")
    tty.type(CTRL_C + "/quit" + ENTER)

    assert tty.end() == 0
    assert {typed.split()[0] for typed in expected} | {"/quit"} >= {command.name for command in COMMANDS}
    assert tty.told() == [
        "remember I like tea",
        "forget coffee",
        "ask this and more",
        "resume 20260301-a",
        "clear",
        "ask /etc/hosts?",
        "closed",
        "left",
    ]


def test_an_error_is_one_line_and_the_loop_goes_on(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("colour")
    tty.prompt()

    assert "Half an ans\ntars: the connection broke off\n>" in tty.ask("error")
    assert "before \\x1b[2J\\x1b]0;title\\x07 after" in tty.ask("evil")


def test_a_dumb_terminal_gets_no_escape_codes(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("dumb", "colour", TERM="dumb", lines=60)
    tty.prompt()
    tty.ask("rich")
    tty.ask("tool")
    tty.type("slow tool" + ENTER)
    tty.until(lambda text: text.count("· memory_search: boiler") == 2)
    tty.type(CTRL_C)
    tty.until("stopped; /retry")
    tty.prompt()
    tty.type("oops" + CTRL_C)
    tty.until("Ctrl-D or /quit leaves")
    tty.prompt()
    tty.type(CTRL_D)

    assert tty.end() == 0
    assert b"\x1b" not in tty.raw
    assert "The **service** is due on `12 March` (home/boiler.md:14), not in" in tty.text
    assert tty.told()[-2:] == ["closed", "left"]


def test_without_colour_there_is_none(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty()
    tty.prompt()

    screen = tty.ask("rich")

    assert "## Boiler\n" in screen and "The **service**" in screen
    coloured = re.compile(rb"\x1b\[[0-9;]*?(?:3[0-79]|4[0-7]|9[0-7]|10[0-7]|[34]8;[0-9;]*)m")
    assert {code for code in coloured.findall(tty.raw) if code not in (b"\x1b[39m", b"\x1b[0;39m")} == set()


@pytest.mark.parametrize("where", ["at the prompt", "in an answer"])
def test_a_terminal_that_goes_away_ends_it_quietly(open_tty: Callable[..., Tty], where: str) -> None:
    tty = open_tty()
    tty.prompt()
    if where == "in an answer":
        tty.type("long" + ENTER)
        tty.until("word9 ")

    tty.process.send_signal(signal.SIGHUP)

    assert tty.end() == 0
    assert tty.told()[-2:] == ["closed", "left"]
    assert "Traceback" not in tty.text


@pytest.mark.parametrize("where", ["at the prompt", "in an answer"])
def test_a_closed_window_ends_it_too(open_tty: Callable[..., Tty], where: str) -> None:
    tty = open_tty()
    tty.prompt()
    if where == "in an answer":
        tty.type("long" + ENTER)
        tty.until("word9 ")

    os.close(tty.master)
    status = tty.process.wait(timeout=15)
    tty.master = os.open(os.devnull, os.O_RDONLY)

    assert status == 0
    assert tty.told()[-2:] == ["closed", "left"]


def test_a_terminal_that_takes_nothing_more_is_gone() -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(Hangup):
        Display(Gone(), colour=True, animated=False).text("hello")


def test_help_fits_into_eighty_columns(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty(columns=120)
    tty.prompt()

    assert max(map(len, tty.ask("/help").splitlines())) <= 80


def test_the_history_survives_a_line_that_was_cut_off_and_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "history").write_text('"one"\n"two\\nlines"\n{"not": "ours"}\n"cut o')
    (tmp_path / "file").write_text("")

    assert InputHistory(tmp_path / "history").get_strings() == ["one", "two\nlines"]
    unwritable = InputHistory(tmp_path / "file" / "history")
    unwritable.append_string("three")
    assert unwritable.get_strings() == ["three"]
    with pytest.raises(TarsError, match="still in"):
        unwritable.forget("three")


def test_what_is_got_ready_while_the_person_types_is_over_before_the_answer_begins(
    open_tty: Callable[..., Tty],
) -> None:
    tty = open_tty()
    idle = tty.folder / "idle"
    tty.prompt()
    tty.waits_for(lambda: idle.exists() and idle.read_text() == "yes")
    tty.type("still typing")
    tty.until("> still typing")
    assert idle.read_text() == "yes"

    tty.type(ENTER)
    tty.until("You said: still typing")
    assert idle.read_text() == "no"


def test_a_conversation_that_goes_on_shows_where_it_was(open_tty: Callable[..., Tty]) -> None:
    tty = open_tty("goes-on")

    assert "> the boiler again\n\nIt is *due*." in tty.prompt()


def test_an_error_is_broken_between_words_and_a_command_in_it_nowhere() -> None:
    out = io.StringIO()
    Display(out, colour=False, animated=False, width=lambda: 30).complain("no conversation yet; `tars sessions` lists")

    assert out.getvalue() == "tars: no conversation yet;\n  `tars sessions` lists\n"
