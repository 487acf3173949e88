"""Conversations that last: transcripts written as they happen, resumed by id, compacted when long."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tars.chat import Message, Provider, Text, estimate_tokens, message_from_json, message_to_json
from tars.core import well_formed
from tars.errors import TarsError

KEPT_TURNS = 4  # of the person's, when older ones are summarised
NEARLY_FULL = 0.7  # of the model's context
SUMMARISE = """\
Summarise the conversation so far for yourself, in at most 300 words: what the person wants, what was found out \
(with path:line where it came from a note), what was decided, what is open. Facts only, no preamble."""
SUMMARY = "Summary of the earlier part of this conversation:\n\n"


@dataclass(slots=True)
class Session:
    """A conversation as it is kept."""

    id: str
    model: str
    system: str
    started: str
    messages: list[Message] = field(default_factory=list)
    shown: list[tuple[str, int, int]] = field(default_factory=list)
    private: bool = False  # something in it must not leave the machine

    @property
    def first_words(self) -> str:
        words = next((message.text for message in self.messages if message.role == "user"), "")
        return " ".join(words.split())[:70]


class Transcript:
    """An append-only file of one JSON object per line, readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, session: Session) -> None:
        about = {"id": session.id, "model": session.model, "started": session.started, "system": session.system}
        self._write({"start": {**about, "shown": session.shown, "private": session.private}})

    def record(self, message: Message) -> None:
        self._write({"message": message_to_json(message)})

    def partial(self, text: str) -> None:
        """A piece of an answer that is still arriving: after a crash, all that is left of it."""
        self._write({"partial": text})

    def compacted(self, messages: Sequence[Message]) -> None:
        """From here on, the conversation is these messages."""
        self._write({"compacted": [message_to_json(message) for message in messages]})

    def showed(self, places: Sequence[tuple[str, int, int]]) -> None:
        if places:
            self._write({"shown": list(places)})

    def private(self) -> None:
        """Something private was shown: the conversation must stay on this machine."""
        self._write({"private": True})

    def model(self, name: str) -> None:
        self._write({"model": name})

    def ended(self, note: str | None) -> None:
        self._write({"ended": {"note": note}})

    def _write(self, row: dict[str, Any]) -> None:
        """One write per line, so that a line is there or not, whatever happens."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = json.dumps(row, ensure_ascii=True).encode() + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)


class NoTranscript(Transcript):
    """For a conversation that leaves nothing behind."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull))

    def _write(self, row: dict[str, Any]) -> None:
        return


def new_id(now: datetime, folder: Path) -> str:
    """A name by time that no other conversation has, not even one of the same second."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in range(1, 1000):
        name = f"{now:%Y%m%d-%H%M%S}" + (f"-{number}" if number > 1 else "")
        try:
            os.close(os.open(folder / f"{name}.jsonl", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        return name
    raise TarsError(f"cannot find a free name for a conversation in {folder}")


def load(path: Path) -> Session:
    """The conversation in a transcript, well-formed again if it broke off."""
    session: Session | None = None
    partial: list[str] = []
    for row in rows_of(path):
        if "start" in row:
            about = row["start"]
            shown = [tuple(place) for place in about.get("shown", ())]
            session = Session(about["id"], about["model"], about["system"], about["started"], shown=shown)
            session.private = about.get("private", False)
        if session is None:
            continue
        if "partial" in row:
            partial.append(row["partial"])
        elif "message" in row:
            session.messages.append(message_from_json(row["message"]))
            partial = []
        elif "compacted" in row:
            session.messages = [message_from_json(message) for message in row["compacted"]]
        elif "shown" in row:
            session.shown += [tuple(place) for place in row["shown"]]
        elif "private" in row:
            session.private = True
        elif "model" in row:
            session.model = row["model"]
    if session is None:
        raise TarsError(f"{path.stem} holds no conversation")
    if partial:
        session.messages.append(Message("assistant", "".join(partial), stop="interrupted"))
    session.messages = well_formed(session.messages)
    return session


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are whole; a crash can leave half of the last one."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TarsError(f"cannot read the conversation {path.stem}: {error.strerror}") from None
    for line in lines:
        try:
            row = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def list_sessions(folder: Path) -> list[Session]:
    """All conversations in which something was said, newest first."""
    found = (load_or_none(path) for path in sorted(folder.glob("*.jsonl"), reverse=True))
    return [session for session in found if session and session.messages]


def newest_session(folder: Path) -> Session:
    """The last conversation in which something was said."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        session = load_or_none(path)
        if session and session.messages:
            return session
    raise TarsError("there is no earlier conversation to go on with")


def load_or_none(path: Path) -> Session | None:
    try:
        return load(path)
    except TarsError:
        return None


def find_session(folder: Path, wanted: str) -> Session:
    """By id or the beginning of one."""
    names = sorted(path.stem for path in folder.glob("*.jsonl"))
    matching = [name for name in names if name == wanted] or [name for name in names if name.startswith(wanted)]
    if len(matching) == 1:
        return load(folder / f"{matching[0]}.jsonl")
    if matching:
        raise TarsError(f"'{wanted}' could be {', '.join(matching[-5:])}; give more of the id")
    hint = f"; the newest is {names[-1]}" if names else ""
    raise TarsError(f"no conversation '{wanted}'{hint}; see: tars sessions")


# ---- compaction


def size_of(system: str, messages: Sequence[Message]) -> int:
    """About how many tokens a request with this history has."""
    return estimate_tokens(system) + sum(estimate_tokens(json.dumps(message_to_json(m))) for m in messages)


def needs_compaction(provider: Provider, system: str, messages: Sequence[Message]) -> bool:
    return size_of(system, messages) > NEARLY_FULL * provider.context_tokens


def compact(
    messages: Sequence[Message], summarise: Callable[[Sequence[Message]], str], *, kept_turns: int = KEPT_TURNS
) -> list[Message]:
    """A summary in place of all but the last turns; a turn begins with the person, so tool pairs stay whole."""
    starts = [at for at, message in enumerate(messages) if message.role == "user"]
    if len(starts) < 2:
        return list(messages)
    cut = starts[max(1, len(starts) - kept_turns)]
    summary = summarise(messages[:cut])
    opening = [Message("user", SUMMARY + summary), Message("assistant", "I have it in mind.", stop="end")]
    return [*opening, *messages[cut:]]


def summarise_with(provider: Provider, system: str, messages: Sequence[Message]) -> str:
    """The model's own summary, without tools."""
    request = [*plain_turns(messages), Message("user", SUMMARISE)]
    stream = provider.stream(system, request, ())
    parts: list[str] = []
    while True:
        try:
            event = next(stream)
        except StopIteration as stop:
            reply: Message = stop.value
            return reply.text or "".join(parts)
        if isinstance(event, Text):
            parts.append(event.text)


def plain_turns(messages: Sequence[Message]) -> list[Message]:
    """What was said, without tool calls and their answers, which a request without tools must not hold."""
    return [Message(m.role, m.text) for m in messages if m.role in ("user", "assistant") and m.text]


def what_the_person_said(messages: Sequence[Message]) -> str:
    """A summary without a model."""
    said = [" ".join(m.text.split()) for m in messages if m.role == "user" and not m.text.startswith(SUMMARY)]
    earlier = [m.text[len(SUMMARY) :] for m in messages if m.role == "user" and m.text.startswith(SUMMARY)]
    return "\n".join([*earlier, *(f"- {text[:300]}" for text in said)])


# ---- the note at the end

QUESTION = re.compile(
    r"\?\s*$|^(who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|tell|show|find|remind)\b",
    re.IGNORECASE,
)
NOTE = """\
Write the note that will remember this conversation: 1 to 8 short bullet points of what the person said, decided or \
asked to have done, in the third person, so that it is understood a year from now. Leave out greetings and whatever \
was only read from the notes: for that give just its path:line. If nothing is worth keeping write NOTHING."""
ECHO_WORDS = 6  # words in a row that a note may share with what was quoted from memory


def statements(messages: Sequence[Message]) -> list[str]:
    """What the person stated. A question is left out: as a note it would be found when it is asked again."""
    out: list[str] = []
    for message in messages:
        if message.role == "user" and not message.text.startswith(SUMMARY):
            for sentence in re.split(r"(?<=[.!?])\s+|\n+", message.text):
                if sentence.strip() and not QUESTION.search(sentence.strip()):
                    out.append(" ".join(sentence.split()))
    return list(dict.fromkeys(out))


def without_echo(lines: Sequence[str], quoted: str) -> list[str]:
    """Lines that do not repeat what was quoted from memory, or memory would feed on itself."""
    known = grams(quoted)
    return [line for line in lines if not grams(line) & known]


def grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + ECHO_WORDS]) for at in range(len(words) - ECHO_WORDS + 1)}


def note_text(session: Session, lines: Sequence[str], citations: Sequence[str], now: datetime) -> str:
    """The session as a note of the memory folder."""
    bullets = "\n".join(line if line.startswith("- ") else f"- {line}" for line in lines)
    sources = f"\n\nNotes used: {', '.join(citations)}" if citations else ""
    front = f'---\ndate: {now:%Y-%m-%d}\ntime: "{now:%H:%M}"\nsession: {session.id}\n---\n\n'
    return f"{front}# {now:%A} {now.day} {now:%B %Y}, {now:%H:%M}\n\n{bullets}{sources}\n"
