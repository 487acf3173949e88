"""The prompt over a conversation that is made up: run by test_repl.py in a pseudo-terminal.

    python repl_driver.py FOLDER [colour] [links] [dumb] [goes-on] [editor=COMMAND]

What the conversation was told is appended to FOLDER/told, one line each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tars.chat import Notice, Text, Thinking, ToolAnswer, ToolCall, Usage
from tars.citations import Citation, resolve
from tars.core import AgentEvent, Answering, ToolDone, ToolStarted
from tars.errors import TarsError
from tars.repl import Terminal, run

SHOWN = {"home/boiler.md": [(10, 20)]}
LONG = " ".join(f"word{n}" for n in range(120))
RICH = """\
## Boiler

The **service** is due on `12 March` (home/boiler.md:14), not in home/boiler.md:99.

- one item which is long enough that it has to be broken at the end of a line of eighty columns
- two

> quoted

```
code  **as it is**
```
"""


class MadeUp:
    """Answers by what is asked for, slowly enough to be interrupted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "notes"
        self.model, self.usage, self.memories = "claude:made-up", Usage(), 0
        self._asked: list[str] = []
        self._answered = ""

    def told(self, what: str) -> None:
        with (self.folder.parent / "told").open("a") as file:
            file.write(what.replace("\n", "⏎") + "\n")

    def ask(self, text: str) -> Answering:
        self.told(f"ask {text}")
        self._asked.append(text)
        return self._answer(text)

    def _answer(self, text: str) -> Answering:
        self._answered = ""
        try:
            for event in script(text):
                if isinstance(event, Text):
                    self._answered += event.text
                yield event
            self.usage += Usage(input=1_000, output=234, cache_read=9_000)
            self.memories = 5
        except (KeyboardInterrupt, GeneratorExit):
            self.told("interrupted")
            if text == "long and stubborn":
                time.sleep(0.5)
                self.told("tidied up")
            raise

    def retry(self) -> Answering:
        if not self._asked:
            raise TarsError("there is no message to ask again")
        self.told("retry")
        return self._answer(self._asked[-1])

    def last_question(self) -> str:
        return self._asked[-1] if self._asked else ""

    def last_answer(self) -> str:
        return self._answered

    def cited(self, citation: Citation) -> Citation | None:
        return resolve(citation, SHOWN)

    def why(self, which: str) -> str:
        return f"1. home/boiler.md:10-20 by its words {which}"

    def search(self, query: str) -> str:
        time.sleep(5 if "slow" in query else 0.4)
        return f"**home/boiler.md:10-20**\n\n> about {query} \x1b[2Jdone"

    def remember(self, fact: str) -> str:
        self.told(f"remember {fact}")
        return "remembered in Memory.md"

    def forget(self, text: str) -> str:
        self.told(f"forget {text}")
        return "forgotten: 1 line of Memory.md"

    def memory(self) -> str:
        return "# Memory\n\n- likes tea"

    def models(self) -> list[str]:
        return ["claude:made-up", "ollama:other", "recall"]

    def set_model(self, name: str) -> None:
        if name not in self.models():
            raise TarsError(f"no model '{name}'")
        self.model = name

    def sessions(self) -> list[tuple[str, str]]:
        return [("20260301-a", "the boiler again"), ("20260201-b", "a trip")]

    def resume(self, session_id: str) -> None:
        self.told(f"resume {session_id}")
        self._asked, self._answered = ["the boiler again"], "It is *due*."

    def clear(self) -> None:
        self.told("clear")

    def index(self) -> str:
        return "3 indexed, 0 unchanged"

    def note_paths(self) -> list[str]:
        return ["home/boiler.md", "home/roof.md", "trips/lisbon.md"]

    def idle(self, stopped: Callable[[], bool]) -> None:
        idle = self.folder.parent / "idle"
        idle.write_text("yes")
        while not stopped():
            time.sleep(0.01)
        idle.write_text("no")

    def close(self) -> Answering:
        time.sleep(0.1)
        self.told("closed")
        yield Notice("wrote sessions/2026-03-01.md")


def script(text: str) -> Iterator[AgentEvent]:
    if "long" in text:
        for word in LONG.split():
            time.sleep(0.015)
            yield Text(f"{word} ")
    elif "tool" in text:
        call = ToolCall("1", "memory_search", {"query": "boiler"})
        yield Thinking("I should look it up.")
        yield ToolStarted(call)
        time.sleep(3 if "slow" in text else 0.5)
        yield ToolDone(call, ToolAnswer("1", "memory_search", "{}"))
        yield Text("Found it.")
    elif "failing" in text:
        call = ToolCall("1", "memory_read", {"path": "../x.md"})
        yield ToolStarted(call)
        yield ToolDone(call, ToolAnswer("1", "memory_read", '{"error": "outside of memory"}', is_error=True))
        yield Text("No.")
    elif "error" in text:
        yield Text("Half an ans")
        raise TarsError("the connection broke off")
    elif "rich" in text:
        for c in RICH:
            yield Text(c)
    elif "evil" in text:
        yield Text("before \x1b[2J\x1b]0;title\x07 after")
    else:
        time.sleep(0.1)
        yield Notice("the prompt was cut")
        yield Text(f"You said: {text}")


if __name__ == "__main__":
    base, flags = Path(sys.argv[1]), sys.argv[2:]
    terminal = Terminal(
        colour="colour" in flags,
        links="links" in flags,
        dumb="dumb" in flags,
        editor=next((flag.removeprefix("editor=") for flag in flags if flag.startswith("editor=")), ""),
    )
    made_up = MadeUp(base)
    if "goes-on" in flags:
        made_up.resume("20260301-a")
    run(made_up, terminal, history=base / "state" / "history")
    made_up.told("left")
