"""Conversations that last: transcripts on disk, what a crash leaves of them, and how they are found again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import write
from histories import assert_same_beginning, assert_well_formed, prompt, texts
from servers import ScriptedAnthropic, ScriptedOllama, finish, reply, tool_use

from tars import sessions
from tars.app import App
from tars.chat import Message, ToolAnswer, ToolCall, Usage
from tars.chat.claude import Claude
from tars.chunker import read_note
from tars.conversation import Conversation
from tars.errors import TarsError
from tars.memory import decode
from tars.session_note import asks, note_text, points, statements, worth_keeping
from tars.sessions import SUMMARY, Session, Transcript, compacted, compaction_cut, plain_turns

NOW = datetime(2026, 3, 1, 10, 15)
CALL = ToolCall("1", "memory_search", {"query": "x"})


def begin(folder: Path, *messages: Message, now: datetime = NOW) -> Transcript:
    session = Session(sessions.new_id(now, folder), "recall", "prompt", now.isoformat())
    transcript = Transcript(folder / f"{session.id}.jsonl")
    transcript.start(session)
    for message in messages:
        transcript.record(message)
    return transcript


def turn(number: int, size: int = 1) -> list[Message]:
    answers = (ToolAnswer("1", "memory_search", "found " * size),)
    return [
        Message("user", f"question {number}"),
        Message("assistant", "", (CALL,)),
        Message("tool", answers=answers),
        Message("assistant", f"answer {number}"),
    ]


def test_a_transcript_gives_back_what_was_recorded(tmp_path: Path) -> None:
    whole = [*turn(1), Message("assistant", "ü\ud800", raw={"provider": "claude", "content": [{"type": "text"}]}, usage=Usage(1, 2, 3, 4), stop="end")]  # fmt: skip
    transcript = begin(tmp_path / "s", *whole)
    transcript.showed([("a.md", 1, 2)])
    transcript.model("claude:x")

    session = sessions.load(transcript.path)

    assert session.messages == whole
    assert (session.shown, session.model, session.private) == ([("a.md", 1, 2)], "claude:x", False)


def test_a_transcript_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        transcript = begin(tmp_path / "s", *turn(1))
    finally:
        os.umask(before)

    assert transcript.path.stat().st_mode & 0o777 == 0o600
    assert transcript.path.parent.stat().st_mode & 0o777 == 0o700


def test_conversations_of_the_same_second_have_files_of_their_own_in_order(tmp_path: Path) -> None:
    names = [begin(tmp_path, *turn(number)).path.stem for number in range(11)]
    for path in tmp_path.glob("*"):
        os.utime(path, ns=(0, 0))

    assert len(set(names)) == 11 and names[1] == "20260301-101500-2"
    assert [session.id for session in sessions.list_sessions(tmp_path)] == names[::-1]
    assert sessions.newest_session(tmp_path).id == "20260301-101500-11"


def test_the_newest_is_the_one_that_was_gone_on_with_last(tmp_path: Path) -> None:
    old, new = begin(tmp_path, *turn(1)), begin(tmp_path, *turn(2), now=NOW.replace(hour=11))
    os.utime(new.path, ns=(0, 1_000))
    os.utime(old.path, ns=(0, 2_000))

    assert sessions.newest_session(tmp_path).id == old.path.stem


def test_half_a_line_at_the_end_is_passed_over_and_what_follows_is_not_lost(tmp_path: Path) -> None:
    transcript = begin(tmp_path, *turn(1))
    with transcript.path.open("ab") as file:
        file.write(b'{"message": {"role": "user", "te')
    resumed = Transcript(transcript.path)
    resumed.record(Message("user", "again"))
    resumed.record(Message("assistant", "yes"))

    assert [m.text for m in sessions.load(transcript.path).messages][-3:] == ["answer 1", "again", "yes"]


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_damaged_row_costs_no_other_and_the_conversation_can_be_gone_on_with(tmp_path: Path, lost: int) -> None:
    transcript = begin(tmp_path / "s", *turn(1), *turn(2))
    rows = transcript.path.read_bytes().split(b"\n")
    rows[lost] = rows[lost].replace(b'"role"', b'"rolf"')
    transcript.path.write_bytes(b"\n".join(rows))

    messages = sessions.load(transcript.path).messages

    assert messages[-4:] == turn(2)
    assert ("question 1" in [message.text for message in messages]) == (lost != 1)
    for message, following in pairwise(messages):
        assert [call.id for call in message.calls] == [answer.call_id for answer in following.answers]


def test_pieces_of_an_answer_count_only_as_long_as_it_is_not_finished(tmp_path: Path) -> None:
    transcript = begin(tmp_path, Message("user", "q"))
    for piece in ("Half ", "an"):
        transcript.partial(piece)
    broken = sessions.load(transcript.path).messages
    transcript.record(Message("user", "go on"))
    transcript.partial("Who")
    transcript.record(Message("assistant", "Whole."))

    assert [m.text for m in broken] == ["q", "Half an"] and broken[-1].stop == "interrupted"
    assert [m.text for m in sessions.load(transcript.path).messages] == ["q", "Half an", "go on", "Whole."]


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")

    with pytest.raises(TarsError, match="cannot keep the conversation"):
        Transcript(tmp_path / "s" / "x.jsonl").record(Message("user", "q"))


def test_a_conversation_is_found_by_the_beginning_of_its_id_if_that_is_clear(tmp_path: Path) -> None:
    first, second = begin(tmp_path, *turn(1)), begin(tmp_path, *turn(2))
    other = begin(tmp_path, *turn(3), now=NOW.replace(day=2))

    assert sessions.find_session(tmp_path, first.path.stem).first_words == "question 1"
    assert sessions.find_session(tmp_path, "20260302").id == other.path.stem
    with pytest.raises(TarsError, match=second.path.stem):
        sessions.find_session(tmp_path, "20260301")
    with pytest.raises(TarsError, match=f"no conversation 'x'; the newest is {other.path.stem}"):
        sessions.find_session(tmp_path, "x")


def test_files_that_hold_no_conversation_are_passed_over(tmp_path: Path) -> None:
    sessions.new_id(NOW, tmp_path)
    (tmp_path / "zzz.jsonl").write_bytes(b"\xff\x00 nonsense\n[1]\n")
    begin(tmp_path)

    assert sessions.list_sessions(tmp_path) == []
    with pytest.raises(TarsError, match="no earlier conversation"):
        sessions.newest_session(tmp_path)


# ---- compaction


def test_compaction_keeps_the_last_turns_whole_and_as_many_as_fit() -> None:
    messages = [message for number in range(8) for message in turn(number, size=100)]

    roomy, tight = (compaction_cut(messages, context_tokens=tokens) for tokens in (100_000, 1_500))
    after = compacted("it was about x", messages[roomy:])

    assert messages[roomy].text == "question 4" and messages[tight].text in ("question 6", "question 7")
    assert [m.text for m in after[:3]] == [SUMMARY + "it was about x", "I have it in mind.", "question 4"]
    assert len(after) < len(messages)


def test_there_is_nothing_to_compact_in_one_turn_nor_in_a_summary() -> None:
    summarised = compacted("x", turn(1, size=5_000))

    assert compaction_cut(turn(1, size=5_000), context_tokens=1_000) == 0
    assert compaction_cut(summarised, context_tokens=1_000) == 0
    assert compaction_cut([*summarised, *turn(2)], context_tokens=1_000) == len(summarised)


def test_turns_without_their_tools_still_alternate() -> None:
    said = plain_turns(
        [Message("user", "q"), Message("assistant", "I look.", (CALL,)), *turn(1)[2:], Message("user", " ")]
    )

    assert [(m.role, m.text) for m in said] == [("user", "q"), ("assistant", "I look.\n\nanswer 1")]
    assert not any(m.calls for m in said)


def test_a_compacted_conversation_knows_what_its_note_has_already(tmp_path: Path) -> None:
    transcript = begin(tmp_path, *turn(1), *turn(2))
    transcript.ended("sessions/x.md")
    for message in turn(3):
        transcript.record(message)
    transcript.compacted(compacted("x", [*turn(2), *turn(3)]))

    session = sessions.load(transcript.path)

    assert session.messages[session.noted].text == "question 3"
    assert session.first_words == "question 1"


# ---- the lines of a note


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("When is it due?", True), ("what about tea", True), ("Tell me more", True), ("Really? ", True),
        ("The person asked when the boiler is due.", True), ("They wanted to know the time.", True),
        ("The person asked to have the lead taken out.", False), ("She asked tars to write it down.", False),
        ("I like tea.", False), ("Whatever happens, we leave at nine.", False), ("Island life suits us.", False),
    ],
)  # fmt: skip
def test_questions_are_told_from_statements(line: str, asked: bool) -> None:
    assert asks(line) == asked


def test_a_line_is_an_echo_if_it_has_six_words_in_a_row_of_a_note() -> None:
    quoted = "The next service is due by 14 October 2026, says the plate."
    five, six = "The next service is due soon.", "So: the next **service** is due by then."

    assert worth_keeping([five, six], quoted=quoted, forgotten=[]) == [five]


def test_points_have_no_marks_and_no_headings() -> None:
    assert points("# Note\n\n- one\n* two\n2. three\n\n---\nfour") == ["one", "two", "three", "four"]


def test_no_control_character_makes_a_note_that_cannot_be_read() -> None:
    said = worth_keeping(["I like \0tea\ud800", "\x07"], quoted="", forgotten=[])
    note = note_text("x", said, ["\x7fa.md:1", "\uffffb.md:2"], NOW, private=True)

    assert said == ["I like tea"]
    assert read_note(decode(note.encode())).properties == "10:15 x a.md:1 \uffffb.md:2"


def test_a_page_that_was_pasted_does_not_fill_the_note() -> None:
    lines = statements([Message("user", "\n".join(f"line {n} of the page says that " + "x" * 900 for n in range(500)))])
    kept = worth_keeping(lines, quoted="", forgotten=[])

    assert len(kept) == 8 and max(map(len, kept)) == 300


# ---- kill -9


def test_kill_9_in_the_middle_of_an_answer_loses_nothing_that_was_on_the_screen(
    make_app: Callable[..., App], environ: dict[str, str], vault: Path
) -> None:
    write(vault, {"Memory.md": "# Memory\n\n- I drink green tea.\n"})
    slow = reply(*(f"word{n} " for n in range(200)), delay=0.02)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_"))}
    with ScriptedOllama([tool_use("memory_search", {"query": "tea"}, "I look. "), slow]) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "tars", "which tea do I drink?"],
            env={**clean, **environ, "OLLAMA_HOST": server.url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert process.stdout
        screen = process.stdout.read(60)
        os.kill(process.pid, signal.SIGKILL)
        screen += process.stdout.read()
        process.wait()
    with ScriptedAnthropic([reply("On."), reply("And on.")]) as other:
        for text in ("go on", "and on"):
            app = make_app()
            session = sessions.newest_session(app.config.places.state / "sessions")
            provider = Claude("test", api_key="k", base_url=other.url)
            finish(Conversation(app, provider, session=session).ask(text))

    question, looked, found, half, *rest = texts(other.requests[0])
    assert (question, looked, rest) == ("which tea do I drink?", "I look. ", ["go on"]) and "green tea" in found
    assert screen.decode().startswith("I look. \n\nword0 word1 ")
    assert half.startswith(screen.decode().removeprefix("I look. \n\n")) and "word199" not in half
    assert prompt(other.requests[0]) == server.requests[0].body["messages"][0]["content"]
    assert_same_beginning(other.requests)
    assert_well_formed(other.requests[-1])


def test_every_row_is_written_before_the_next_event(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "tea"})
    app = make_app()
    app.refresh()
    with ScriptedAnthropic([tool_use("memory_read", {"path": "a.md"}), reply("One ", "two.")]) as server:
        conversation = Conversation(app, Claude("test", api_key="k", base_url=server.url))
        kinds = []
        for _ in conversation.ask("hello"):
            (path,) = (app.config.places.state / "sessions").glob("*.jsonl")
            kinds.append([next(iter(json.loads(line))) for line in path.read_text().splitlines()])

    first = ["start", "message", "message"]
    assert kinds == [
        first, first,  # the tool begins, and is done
        [*first, "shown", "message", "partial"],
        [*first, "shown", "message", "partial", "partial"],
    ]  # fmt: skip


def test_what_is_said_while_a_text_is_taken_out_of_a_transcript_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "20260301-101500.jsonl"
    transcript = sessions.Transcript(path)
    transcript.start(sessions.Session(path.stem, "m", "s", "2026-03-01"))
    transcript.record(Message("user", "the old door code"))

    def going_on(text: str) -> str:
        transcript.record(Message("assistant", "meanwhile"))
        return text.replace("door code", sessions.FORGOTTEN)

    assert not sessions.reword_rows(path, going_on)
    sessions.forget([path], ["door code"])
    kept = path.read_text()

    assert "door code" not in kept and "meanwhile" in kept and sessions.FORGOTTEN in kept
