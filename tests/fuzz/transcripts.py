"""Transcripts that a crash or a disk has damaged."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tars import sessions
from tars.chat import Message, ToolAnswer, ToolCall, Usage, message_to_json
from tars.errors import TarsError
from tars.sessions import Session, Transcript

WORDS = st.text(max_size=12)
MESSAGES = st.one_of(
    st.builds(Message, st.just("user"), WORDS),
    st.builds(
        Message,
        st.just("assistant"),
        WORDS,
        calls=st.lists(
            st.builds(ToolCall, WORDS, st.just("memory_search"), st.just({"query": "tea", "limit": 5})), max_size=2
        ).map(tuple),
        raw=st.sampled_from([{}, {"provider": "claude", "content": [{"type": "text", "text": "x"}]}]),
        usage=st.builds(Usage, st.integers(0, 9)),
    ),
    st.builds(
        Message, st.just("tool"), answers=st.lists(st.builds(ToolAnswer, WORDS, WORDS, WORDS), max_size=2).map(tuple)
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 9), WORDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("id role text calls".split()), inner)
    ),
    max_leaves=6,
)
ROWS = st.one_of(
    MESSAGES.map(lambda message: {"message": message_to_json(message)}),
    st.builds(lambda text: {"partial": text}, WORDS),
    st.builds(lambda count: {"kept": count}, st.integers(0, 6)),
    st.lists(MESSAGES, max_size=3).map(lambda found: {"compacted": [message_to_json(m) for m in found]}),
    st.sampled_from([{"shown": [["a.md", 1, 2]]}, {"private": True}, {"model": "recall"}, {"ended": {"note": None}}]),
    st.dictionaries(st.sampled_from("start message partial compacted kept shown private model ended".split()), JSON),
)
DAMAGE = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, 3000), st.just(0)),
    st.tuples(st.just("flip"), st.integers(0, 3000), st.integers(0, 7)),
    st.tuples(st.just("put"), st.integers(0, 3000), st.sampled_from([0, 10, 13, 34, 91, 123, 125, 255])),
)
TRANSCRIPTS = st.tuples(st.lists(ROWS, max_size=8), st.lists(DAMAGE, max_size=2))


def transcript_holds(given: tuple[list[dict[str, Any]], list[tuple[str, int, int]]]) -> None:
    """It is read as far as it is whole: what was said before the damage is there, and can be gone on with."""
    rows, damage = given
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "20260301-101500.jsonl"
        transcript = Transcript(path)
        transcript.start(Session(path.stem, "recall", "system", "2026-03-01"))
        for row in rows:
            transcript.write(row)
        before = path.read_bytes()
        after = before
        for kind, at, value in damage:
            after = damaged(after, kind, at, value)
        path.write_bytes(after)

        session = loaded(path)
        sessions.list_sessions(Path(folder))
        sessions.forget([path], ["nothing of that"])
        if session is None:
            return
        assert [type(message) for message in session.messages] == [Message] * len(session.messages)
        for message in session.messages:
            assert isinstance(message.text, str) and isinstance(message.raw, dict)
            sessions.sent(message)
        for message, following in zip(session.messages, [*session.messages[1:], Message("user")], strict=False):
            assert [call.id for call in message.calls] == [answer.call_id for answer in following.answers]
            assert (following.role == "tool") == bool(message.calls)
        assert not session.messages or session.messages[0].role != "tool"
        assert all(isinstance(p, str) and isinstance(a, int) and isinstance(b, int) for p, a, b in session.shown)
        assert session.first_words is not None
        sessions.what_the_person_said(session.messages)
        same = next(
            (at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
        )
        whole = before[:same].rpartition(b"\n")[0]
        path.write_bytes(whole + b"\n" if whole else b"")
        earlier = loaded(path)
        if earlier and not any(key in row for row in rows for key in ("kept", "compacted", "start")):
            said = [message.text for message in earlier.messages if message.role == "user"]
            assert [message.text for message in session.messages if message.role == "user"][: len(said)] == said


def loaded(path: Path) -> Session | None:
    try:
        return sessions.load(path)
    except TarsError:
        return None


def damaged(content: bytes, kind: str, at: int, value: int) -> bytes:
    at = min(at, max(0, len(content) - 1))
    if kind == "cut" or not content:
        return content[:at]
    changed = content[at] ^ (1 << value) if kind == "flip" else value
    return content[:at] + bytes([changed]) + content[at + 1 :]
