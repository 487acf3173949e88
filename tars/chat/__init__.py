"""One request to one model: messages in, what arrives as it arrives, the finished reply at the end.

A provider knows no memory, no tools' insides and no terminal. There is one loop for all of them, in `tars.core`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


ROLES = ("user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model wants done. `malformed` has the text of arguments that were no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any]
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    call_id: str
    name: str
    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input` counts what was neither read from nor written to the provider's cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    @property
    def prompt(self) -> int:
        """Everything the model read."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of the conversation, the same for every provider and in the transcript.

    role "user": `text`; role "assistant": `text` and `calls`; role "tool": `answers`, one for each call before it.
    """

    role: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: tuple[ToolAnswer, ...] = ()
    # What the provider needs to send this turn again to the byte (thinking with its signature, for one):
    # {"provider": ..., "content": ...}; another provider ignores it.
    raw: dict[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    stop: str = ""  # why an assistant's turn ended: "end", "tools", "length", "refused", "interrupted"


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of what the model says to itself; shown apart, never part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know: a retry, a prompt that was cut."""

    text: str


Event = Text | Thinking | Notice


class Provider(Protocol):
    @property
    def name(self) -> str:
        """As in the setting: claude:MODEL, ollama:MODEL or recall."""

    @property
    def leaves_machine(self) -> bool:
        """Whether what is sent goes to another machine, where private passages must not go."""

    @property
    def context_tokens(self) -> int:
        """How much the model can read and write together."""

    @property
    def uses_tools(self) -> bool: ...

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Generator[Event, None, Message]:
        """Make one request, yield what arrives, return the assistant's turn.

        Raises ChatError for what the person can put right. Closing the generator cancels the request.
        """


def message_to_json(message: Message) -> dict[str, Any]:
    """For the transcript; what is empty is left out."""
    return {key: value for key, value in asdict(message).items() if value and value != asdict(Usage())}


def message_from_json(row: dict[str, Any]) -> Message:
    """A turn out of a transcript; ValueError if that is no turn, as damage to the file leaves it."""
    try:
        message = Message(
            role=row["role"],
            text=row.get("text", ""),
            calls=tuple(ToolCall(**call) for call in row.get("calls", ())),
            answers=tuple(ToolAnswer(**answer) for answer in row.get("answers", ())),
            raw=row.get("raw", {}),
            usage=Usage(**row.get("usage", {})),
            stop=row.get("stop", ""),
        )
    except (AttributeError, KeyError, TypeError):
        raise ValueError("not a message") from None
    parts = [(message, Message("")), (message.usage, Usage())]
    parts += [(call, ToolCall("", "", {})) for call in message.calls]
    parts += [(answer, ToolAnswer("", "", "")) for answer in message.answers]
    if message.role not in ROLES or not all(of_same_types(*pair) for pair in parts):
        raise ValueError("not a message")
    return message


def of_same_types(value: Any, example: Any) -> bool:
    return all(type(getattr(value, f.name)) is type(getattr(example, f.name)) for f in fields(example))


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: on the high side, for budgets."""
    return len(text.encode(errors="replace")) // 3 + 1
