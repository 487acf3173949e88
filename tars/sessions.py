"""Conversations that last: transcripts written as they happen, resumed by id, compacted when long."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from tars.chat import Event, Message, Provider, Text, estimate_tokens, message_from_json, message_to_json
from tars.core import broken_off, well_formed
from tars.errors import TarsError, redact
from tars.memory import reason_of
from tars.notes import write_through
from tars.owner import make_durable, make_folder

KEPT_TURNS = 4  # of the person's at most, when older ones are summarised
NEARLY_FULL = 0.7  # of the model's context
KEPT_SHARE = 0.3  # of the model's context, for the turns that are kept
SUMMARISE = """\
Summarise the conversation so far for yourself, in at most 300 words: what the person wants, what was found out \
(with path:line where it came from a note), what was decided, what is open. Facts only, no preamble."""
SUMMARY = "Summary of the earlier part of this conversation:\n\n"
UNDERSTOOD = "I have it in mind."

FORGOTTEN = "[forgotten]"
TRIES = 10  # to take a text out of a transcript that another process writes to
SECOND = len("20260301-101500")  # of an id; behind it a number, for others of the same second

# What a row of a transcript holds under its key; a damaged one may hold anything.
SHAPES: dict[str, type] = {
    **dict.fromkeys(("start", "message", "ended"), dict),
    **dict.fromkeys(("compacted", "shown"), list),
    **dict.fromkeys(("partial", "model"), str),
    **dict.fromkeys(("kept", "private"), int),
}

Place = tuple[str, int, int]  # path, first and last line


@dataclass(slots=True)
class Session:
    """A conversation as it is kept."""

    id: str
    model: str
    system: str
    started: str
    messages: list[Message] = field(default_factory=list)
    shown: list[Place] = field(default_factory=list)
    private: bool = False  # something in it must not leave the machine
    noted: int = 0  # how many of the messages a note remembers already
    first: str = ""  # what it began with, also when that has been summarised
    memory: str = ""  # the folder that it quotes; it is not gone on with over another

    @property
    def first_words(self) -> str:
        return " ".join(self.first.split())[:70]

    def add(self, message: Message) -> None:
        self.messages.append(message)
        if message.role == "user":
            self.first = self.first or message.text

    def begin_with(self, messages: Sequence[Message]) -> None:
        """Be these messages from now on: the beginning was summarised, the end is the same."""
        unnoted = len(self.messages) - self.noted
        self.messages = list(messages)
        self.noted = max(0, len(messages) - unnoted)

    def keep(self, count: int) -> None:
        """Take back all but the first messages."""
        del self.messages[count:]
        self.noted = min(self.noted, count)


class Transcript:
    """An append-only file of one JSON object per line, readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begun = False

    def start(self, session: Session) -> None:
        about = {"id": session.id, "model": session.model, "started": session.started, "system": session.system}
        more = {"shown": session.shown, "private": session.private, "memory": session.memory}
        self.write({"start": {**about, **more}})

    def record(self, message: Message) -> None:
        self.write({"message": message_to_json(message)}, through=True)

    def partial(self, text: str) -> None:
        """A piece of an answer that is still arriving: after a crash, all that is left of it."""
        self.write({"partial": text})

    def compacted(self, messages: Sequence[Message]) -> None:
        """From here on, the conversation is these messages."""
        self.write({"compacted": [message_to_json(message) for message in messages]}, through=True)

    def kept(self, count: int) -> None:
        """From here on, the conversation is its first messages."""
        self.write({"kept": count})

    def showed(self, places: Sequence[Place]) -> None:
        if places:
            self.write({"shown": list(places)})

    def private(self) -> None:
        """Something private was shown: the conversation must stay on this machine."""
        self.write({"private": True})

    def model(self, name: str) -> None:
        self.write({"model": name})

    def ended(self, note: str | None) -> None:
        self.write({"ended": {"note": note}})

    def write(self, row: dict[str, Any], *, through: bool = False) -> None:
        """One write per line, so that a line is there or not, whatever happens; through to the disk if that matters.

        A killed process loses nothing that was written. A power cut takes what the system had not yet put on the disk:
        never a message that was said or answered, at most the last pieces of an answer that was still arriving. Keys
        are not kept.
        """
        line = json.dumps(reworded(row, redact), ensure_ascii=True).encode() + b"\n"
        try:
            make_folder(self.path.parent)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                if not self._begun and is_torn(handle):
                    line = b"\n" + line
                self._begun = True
                while line:
                    line = line[os.write(handle, line) :]
                if through:
                    os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            self._begun = False  # half a line may be there
            raise TarsError(
                f"cannot keep the conversation in {self.path}: {reason_of(error)}; --no-save goes without"
            ) from None


def is_torn(handle: int) -> bool:
    """Whether a crash left half a line at the end; what is written next must not become part of it."""
    if os.fstat(handle).st_size == 0:
        return False
    os.lseek(handle, -1, os.SEEK_END)  # writes go to the end all the same; Windows has no pread
    return os.read(handle, 1) != b"\n"


class NoTranscript(Transcript):
    """For a conversation that leaves nothing behind."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull))

    def write(self, row: dict[str, Any], *, through: bool = False) -> None:
        return


def new_id(now: datetime, folder: Path) -> str:
    """A name by time that no other conversation has, not even one of the same second."""
    try:
        make_folder(folder)
        for number in range(1, 1000):
            name = f"{now:%Y%m%d-%H%M%S}" + (f"-{number}" if number > 1 else "")
            with suppress(FileExistsError):
                os.close(os.open(folder / f"{name}.jsonl", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                make_durable(folder)
                return name
    except OSError as error:
        raise TarsError(
            f"cannot keep the conversation in {folder}: {reason_of(error)}; --no-save goes without"
        ) from None
    raise TarsError(f"cannot find a free name for a conversation in {folder}")


def load(path: Path) -> Session:
    """The conversation in a transcript, well-formed again if it broke off."""
    session: Session | None = None
    partial = ""
    for row in rows_of(path):
        if "start" in row:
            session = started(row["start"]) or session
        elif session is None:
            continue
        elif "partial" in row:
            partial += row["partial"]
        else:
            # The finished answer takes the place of its pieces. If it never came, they are all there is of it.
            if partial and not finishes(row):
                session.add(broken_off(partial))
            partial = ""
            with suppress(ValueError):  # of a row that is damaged; those around it still count
                take_in(session, row)
    if session is None:
        raise TarsError(f"{path.stem} holds no conversation")
    if partial:
        session.add(broken_off(partial))
    session.messages = well_formed(session.messages)
    return session


def started(about: dict[str, Any]) -> Session | None:
    """The conversation that a row begins; None if that is damaged."""
    said = {key: about.get(key) for key in ("id", "model", "system", "started")}
    if not all(isinstance(value, str) for value in said.values()):
        return None
    return Session(
        **said,  # type: ignore[arg-type]
        shown=places(about.get("shown")),
        private=bool(about.get("private")),
        memory=str(about.get("memory", "")),
    )


def places(rows: Any) -> list[Place]:
    """Those of the rows that name lines of a note."""
    return [tuple(row) for row in rows if is_place(row)] if isinstance(rows, list) else []


def is_place(row: Any) -> bool:
    return isinstance(row, list) and [type(part) for part in row] == [str, int, int]


def finishes(row: dict[str, Any]) -> bool:
    """Whether this row has the whole of the answer that was arriving before it."""
    return "compacted" in row or "kept" in row or row.get("message", {}).get("role") == "assistant"


def take_in(session: Session, row: dict[str, Any]) -> None:
    """One row of a transcript after its first."""
    if "message" in row:
        session.add(message_from_json(row["message"]))
    elif "compacted" in row or "kept" in row:
        # What was missing after a crash had been made up for when this was written.
        session.messages = well_formed(session.messages)
        if "kept" in row:
            session.keep(row["kept"])
        else:
            session.begin_with([message_from_json(message) for message in row["compacted"]])
    elif "shown" in row:
        session.shown += places(row["shown"])
    elif "private" in row:
        session.private = True
    elif "model" in row:
        session.model = row["model"]
    elif "ended" in row:
        session.noted = len(well_formed(session.messages))


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are whole; a crash can leave half of the last one, and a disk can spoil any."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TarsError(f"cannot read the conversation {path.stem}: {error.strerror}") from None
    for line in lines:
        try:
            row = json.loads(line) if line else None
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and all(isinstance(row[key], SHAPES[key]) for key in row.keys() & SHAPES.keys()):
            yield row


def list_sessions(folder: Path, *, memory: str | None = None) -> list[Session]:
    """All conversations over a memory in which something was said, the one that was gone on with last first."""
    return list(said_over(folder, memory))


def newest_session(folder: Path, *, memory: str | None = None) -> Session:
    """The last conversation over a memory in which something was said."""
    if session := next(said_over(folder, memory), None):
        return session
    raise TarsError("there is no earlier conversation over this memory to go on with")


def said_over(folder: Path, memory: str | None) -> Iterator[Session]:
    for path in newest_first(folder):
        session = load_or_none(path)
        if session and session.messages and is_over(session, memory):
            yield session


def is_over(session: Session, memory: str | None) -> bool:
    """Whether it quotes no other memory than this (None: any); older ones do not say which."""
    return memory is None or session.memory in ("", memory)


def newest_first(folder: Path) -> list[Path]:
    """By when they were last written to; a clock is too coarse to tell two apart that began together."""
    return sorted(folder.glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, in_order(path.stem)), reverse=True)


def in_order(name: str) -> tuple[str, int]:
    """
    >>> sorted(["20260301-101500-10", "20260301-101500-2", "20260301-101500"], key=in_order)
    ['20260301-101500', '20260301-101500-2', '20260301-101500-10']
    """
    number = name[SECOND:].lstrip("-")
    return name[:SECOND], int(number) if number.isdecimal() else 1


def load_or_none(path: Path) -> Session | None:
    try:
        return load(path)
    except TarsError:
        return None


def find_session(folder: Path, wanted: str, *, memory: str | None = None) -> Session:
    """By id or the beginning of one; a TarsError if it is over another memory."""
    names = sorted((path.stem for path in folder.glob("*.jsonl")), key=in_order)
    matching = [name for name in names if name == wanted] or [name for name in names if name.startswith(wanted)]
    if len(matching) == 1:
        session = load(folder / f"{matching[0]}.jsonl")
        if not is_over(session, memory):
            where = f"tars --memory {shlex.quote(session.memory)} --resume {session.id}"
            raise TarsError(f"{session.id} is about another memory; go on with it there: {where}")
        return session
    if matching:
        raise TarsError(f"'{wanted}' could be {', '.join(matching[-5:])}; give more of the id")
    hint = f"; the newest is {names[-1]}" if names else ""
    raise TarsError(f"no conversation '{wanted}'{hint}; see: tars sessions")


# ---- forgetting


def forget(paths: Iterable[Path], texts: Iterable[str]) -> None:
    """Take texts out of transcripts. One word alone is left: it says nothing, and is everywhere."""
    patterns = [as_written(text.split()) for text in texts if len(text.split()) > 1]
    if not patterns:
        return
    # In JSON inside of a text, the letter of an escaped line end may stand right before it.
    wanted = re.compile(rf"(?:(?<!\w)|(?<=\\[nt]))(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)
    for path in paths:
        try:
            done = any(reword_rows(path, lambda text: wanted.sub(FORGOTTEN, text)) for _ in range(TRIES))
        except OSError as error:
            raise TarsError(f"what was forgotten is still in {path}: {reason_of(error)}") from None
        if not done:
            raise TarsError(f"what was forgotten is still in {path}: another process goes on writing to it")


def reword_rows(path: Path, reword: Callable[[str], str]) -> bool:
    """Change all texts of a transcript in the same way; False if a conversation went on in it meanwhile."""
    size = path.stat().st_size
    before = list(whole_partials(rows_of(path)))
    after = [reworded(row, reword) for row in before]
    return after == before or replace_rows(path, after, size=size)


def as_written(words: Sequence[str]) -> str:
    """A pattern for words as they stand in a text, or in JSON inside of one."""
    inside = [json.dumps(word, ensure_ascii=False)[1:-1] for word in words]
    pairs = zip(map(re.escape, words), map(re.escape, inside), strict=True)
    return r"(?:\s|\\[nt])+".join(plain if plain == quoted else f"(?:{plain}|{quoted})" for plain, quoted in pairs)


def whole_partials(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows, with the pieces of an answer in one: a text can only be found whole."""
    for is_partial, group in groupby(rows, key=lambda row: "partial" in row):
        if is_partial:
            yield {"partial": "".join(row["partial"] for row in group)}
        else:
            yield from group


def reworded(value: Any, reword: Callable[[str], str]) -> Any:
    """A row of a transcript with all its texts changed in the same way."""
    if isinstance(value, str):
        return reword(value)
    if isinstance(value, list | tuple):
        return [reworded(item, reword) for item in value]
    if not isinstance(value, dict):
        return value
    new = {key: reworded(item, reword) for key, item in value.items()}
    # A provider signs what it wants back to the byte; changed, it must not get it back at all.
    return {**new, "raw": {}} if new.get("raw") != value.get("raw") else new


def replace_rows(path: Path, rows: Sequence[dict[str, Any]], *, size: int) -> bool:
    """The whole transcript anew, at once; it stays as old as it was. False if it is no longer of this size."""
    content = b"".join(json.dumps(row, ensure_ascii=True).encode() + b"\n" for row in rows)
    temporary = path.with_suffix(".tmp")
    times = path.stat()
    try:
        with suppress(FileNotFoundError):  # left by one who was killed
            temporary.unlink()
        write_through(temporary, content)
        os.utime(temporary, ns=(times.st_atime_ns, times.st_mtime_ns))
        if path.stat().st_size != size:  # as late as can be; what was added must not be lost
            return False
        temporary.replace(path)
        make_durable(path.parent)
        return True
    finally:
        with suppress(OSError):
            temporary.unlink()


# ---- compaction


def size_of(messages: Sequence[Message]) -> int:
    """About how many tokens these messages have in a request."""
    return sum(estimate_tokens(sent(message)) for message in messages)


def sent(message: Message) -> str:
    """What goes over the wire of a message, or so."""
    if message.raw:
        return json.dumps(message.raw.get("content"), ensure_ascii=False)
    calls = (f"{call.name}{call.arguments}" for call in message.calls)
    return "\n".join([message.text, *calls, *(answer.content for answer in message.answers)])


def nearly_full(provider: Provider, system: str, messages: Sequence[Message]) -> bool:
    return estimate_tokens(system) + size_of(messages) > NEARLY_FULL * provider.context_tokens


def compaction_cut(messages: Sequence[Message], *, context_tokens: int, kept_turns: int = KEPT_TURNS) -> int:
    """Where the part ends that a summary takes the place of; 0 if none would make the conversation shorter.

    A turn begins with the person, so tool calls and their answers stay together. The last turn is always kept.
    """
    starts = [at for at, message in enumerate(messages) if message.role == "user"][-kept_turns:]
    fitting = [at for at in starts if size_of(messages[at:]) <= KEPT_SHARE * context_tokens]
    cut = (fitting or starts[-1:] or [0])[0]
    only_summary = cut == 2 and is_summary(messages[0])
    return 0 if only_summary else cut


def compacted(summary: str, kept: Sequence[Message]) -> list[Message]:
    return [Message("user", SUMMARY + summary), Message("assistant", UNDERSTOOD, stop="end"), *kept]


def is_summary(message: Message) -> bool:
    return message.role == "user" and message.text.startswith(SUMMARY)


def asked_aside(
    provider: Provider, system: str, messages: Sequence[Message], request: str
) -> Generator[Event, None, str]:
    """What the model says to a request about the conversation that is no part of it; the text is not shown."""
    turns = plain_turns([*messages, Message("user", request)])
    parts: list[str] = []
    for event in provider.stream(system, turns, ()):
        if isinstance(event, Text):
            parts.append(event.text)
        else:
            yield event
    return "".join(parts).strip()


def plain_turns(messages: Sequence[Message]) -> list[Message]:
    """What was said in turns, without tool calls and their answers, which a request without tools must not hold."""
    said = (m for m in messages if m.role in ("user", "assistant") and m.text.strip())
    turns = groupby(said, key=lambda message: message.role)
    return [Message(role, "\n\n".join(message.text for message in group)) for role, group in turns]


def what_the_person_said(messages: Sequence[Message]) -> str:
    """A summary without a model."""
    said = [" ".join(m.text.split()) for m in messages if m.role == "user" and not is_summary(m)]
    earlier = [m.text[len(SUMMARY) :] for m in messages if is_summary(m)]
    return "\n".join([*earlier, *(f"- {text[:300]}" for text in said)])
