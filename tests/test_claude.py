"""Claude through the official SDK, against a server on loopback that follows a script."""

from __future__ import annotations

import email.utils
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import pytest
from servers import (
    CUT,
    Call,
    HangUp,
    Raw,
    Reply,
    ScriptedAnthropic,
    Step,
    broken,
    finish,
    nobody,
    reply,
    stalled,
    status,
    tool_use,
)

from tars.chat import (
    Message,
    Notice,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    ToolSpec,
    Usage,
    message_from_json,
    message_to_json,
)
from tars.chat.claude import Claude, from_wire, to_wire, wait_asked
from tars.errors import ChatError, TooLongError, keep_secret, redact

KEY = "sk-ant-api03-very-secret"
SEARCH = ToolSpec("memory_search", "Finds notes.", {"type": "object", "properties": {"query": {"type": "string"}}})
READ = ToolSpec("memory_read", "Reads a note.", {"type": "object", "properties": {}})
MARK = {"cache_control": {"type": "ephemeral"}}
HELLO = [Message("user", "hello")]


def at(server: ScriptedAnthropic, model: str = "claude-sonnet-5-5", **settings: Any) -> Claude:
    """A Claude at the scripted server that does not wait between attempts."""
    return Claude(model, api_key=KEY, base_url=server.url, **{"sleep": lambda seconds: None, **settings})


def ask(script: Iterable[Step], messages: list[Message] = HELLO, **settings: Any) -> tuple[list[Any], Message]:
    with ScriptedAnthropic(script) as server:
        return finish(at(server, **settings).stream("You are tars.", messages, [SEARCH]))


def error(script: Iterable[Step], **settings: Any) -> str:
    with pytest.raises(ChatError) as caught:
        ask(script, **settings)
    assert "\n" not in str(caught.value) and "very-secret" not in str(caught.value)
    return str(caught.value)


def notices(events: list[Any]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


# ---- what is sent


WIRE = {
    "a question": (
        [Message("user", "hello")],
        [{"role": "user", "content": [{"type": "text", "text": "hello", **MARK}]}],
    ),
    "a call and its answer, of another provider": (
        [
            Message("user", "when?"),
            Message("assistant", "I look.", calls=(ToolCall("call_1_0", "memory_search", {"query": "boiler"}),)),
            Message("tool", answers=(ToolAnswer("call_1_0", "memory_search", "[]", is_error=True),)),
        ],
        [
            {"role": "user", "content": [{"type": "text", "text": "when?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1_0", "name": "memory_search", "input": {"query": "boiler"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1_0", "content": "[]", "is_error": True, **MARK}
                ],
            },
        ],
    ),
    "a turn of its own, as it came": (
        [
            Message("user", "a"),
            Message(
                "assistant", "b", raw={"provider": "claude", "content": [{"type": "redacted_thinking", "data": "x"}]}
            ),
            Message("user", "c"),
        ],
        [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
            {"role": "user", "content": [{"type": "text", "text": "c", **MARK}]},
        ],
    ),
    "a turn without words is left out, which the API would refuse": (
        [Message("user", "a"), Message("assistant", " "), Message("user", "b")],
        [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": [{"type": "text", "text": "b", **MARK}]},
        ],
    ),
    "half a face": (
        [Message("user", "a \ud83d b")],
        [{"role": "user", "content": [{"type": "text", "text": "a ? b", **MARK}]}],
    ),
}


@pytest.mark.parametrize(("messages", "wire"), WIRE.values(), ids=WIRE.keys())
def test_messages_become_blocks_with_the_mark_on_the_newest_turn(messages: list[Message], wire: list[Any]) -> None:
    assert to_wire("", messages, []) == {"messages": wire}


def test_the_last_tool_and_the_system_prompt_carry_a_mark() -> None:
    request = to_wire("You are tars.", HELLO, [SEARCH, READ])

    assert request["system"] == [{"type": "text", "text": "You are tars.", **MARK}]
    assert request["tools"] == [
        {"name": "memory_search", "description": "Finds notes.", "input_schema": SEARCH.schema},
        {"name": "memory_read", "description": "Reads a note.", "input_schema": READ.schema, **MARK},
    ]


def test_marks_are_three_however_long_the_conversation() -> None:
    turns = [Message("user", "hello"), Message("assistant", "hi")] * 10 + HELLO

    assert json.dumps(to_wire("You are tars.", turns, [SEARCH, READ])).count("cache_control") == 3


def test_translating_leaves_the_messages_as_they_were() -> None:
    raw = {"provider": "claude", "content": [{"type": "text", "text": "hi"}]}
    messages = [Message("user", "hello"), Message("assistant", "hi", raw=raw)]
    before = json.dumps([message_to_json(message) for message in messages])
    to_wire("You are tars.", messages, [SEARCH])

    assert json.dumps([message_to_json(message) for message in messages]) == before
    assert SEARCH.schema.keys() == {"type", "properties"}


def test_the_request_names_model_and_limit_and_carries_the_key() -> None:
    with ScriptedAnthropic([reply("hi")]) as server:
        finish(at(server, "claude-haiku-5-5", max_tokens=77).stream("You are tars.", HELLO, [SEARCH]))

    (request,) = server.requests
    assert request.body["model"] == "claude-haiku-5-5"
    assert request.body["max_tokens"] == 77
    assert request.body["stream"] is True
    assert KEY in request.headers["authorization"] + request.headers.get("x-api-key", "")


def test_a_turn_is_sent_again_to_the_byte_also_after_a_transcript() -> None:
    script = [
        tool_use("memory_search", {"query": "Grüße", "limit": 3}, "I ", "look.", thinking=("hm", " so")),
        reply("In March."),
        reply("Yes."),
    ]
    with ScriptedAnthropic(script) as server:
        claude = at(server)
        messages = [*HELLO]
        for words in ("and then?", "sure?", ""):
            messages.append(finish(claude.stream("You are tars.", messages, [SEARCH]))[1])
            messages = [message_from_json(json.loads(json.dumps(message_to_json(message)))) for message in messages]
            if calls := messages[-1].calls:
                messages.append(
                    Message("tool", answers=tuple(ToolAnswer(call.id, call.name, "found") for call in calls))
                )
            else:
                messages.append(Message("user", words))

    sent = [
        json.dumps(request.body["messages"]).replace(f", {json.dumps(MARK)[1:-1]}", "") for request in server.requests
    ]
    assert sent[1].startswith(sent[0][:-1]) and sent[2].startswith(sent[1][:-1])
    thinking = server.requests[2].body["messages"][1]["content"][0]
    assert thinking == {"type": "thinking", "thinking": "hm so", "signature": "c2lnbmF0dXJl"}
    assert len({json.dumps([request.body["system"], request.body["tools"]]) for request in server.requests}) == 1


# ---- what arrives


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def events(*blocks: list[dict[str, Any]], stop: str = "end_turn") -> list[dict[str, Any]]:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {"usage": usage}},
        *(event for block in blocks for event in block),
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9, "input_tokens": None}},
        {"type": "message_stop"},
    ]


def text(*pieces: str, index: int = 0) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def call(*pieces: str, index: int = 0, **more: Any) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": "toolu_1", "name": "memory_search", "input": {}, **more}
    return block(index, start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


ARRIVING: dict[str, tuple[list[dict[str, Any]], list[Any], dict[str, Any]]] = {
    "text": (events(text("Hel", "lo")), [Text("Hel"), Text("lo")], {"text": "Hello", "stop": "end"}),
    "two texts": (events(text("a"), text("b", index=1)), [Text("a"), Text("b")], {"text": "ab"}),
    "thinking": (
        events(
            block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "hm"},
                {"type": "signature_delta", "signature": "c2ln"},
            ),
            text("so", index=1),
        ),
        [Thinking("hm"), Text("so")],
        {
            "text": "so",
            "raw": {
                "provider": "claude",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "text", "text": "so"},
                ],
            },
        },
    ),
    "a call": (
        events(call('{"query": "bo', 'iler"}'), stop="tool_use"),
        [],
        {"calls": (ToolCall("toolu_1", "memory_search", {"query": "boiler"}),), "stop": "tools"},
    ),
    "a call without arguments": (events(call()), [], {"calls": (ToolCall("toolu_1", "memory_search", {}),)}),
    "arguments in one piece with the block": (
        events(call(input={"query": "x"})),
        [],
        {"calls": (ToolCall("toolu_1", "memory_search", {"query": "x"}),)},
    ),
    "arguments that break off": (
        events(call('{"query": "bo'), stop="max_tokens"),
        [],
        {"calls": (ToolCall("toolu_1", "memory_search", {}, malformed='{"query": "bo'),), "stop": "length"},
    ),
    "arguments that are no object": (
        events(call("[1]")),
        [],
        {"calls": (ToolCall("toolu_1", "memory_search", {}, malformed="[1]"),)},
    ),
    "arguments with what is no JSON": (
        events(call('{"limit": NaN}')),
        [],
        {"calls": (ToolCall("toolu_1", "memory_search", {}, malformed='{"limit": NaN}'),)},
    ),
    "an empty text is not kept, which the API would refuse": (
        events(text(""), call("{}", index=1)),
        [],
        {"raw": {"provider": "claude", "content": [call()[0]["content_block"]]}},
    ),
    "events and pieces of a kind not known yet": (
        events(text("a"), [{"type": "news", "x": 1}], block(1, {"type": "novelty"}, {"type": "novelty_delta"})),
        [Text("a")],
        {"text": "a"},
    ),
    "usage": (events(text("a")), [Text("a")], {"usage": Usage(input=3, output=9, cache_read=20, cache_write=100)}),
    "a full context": (events(text("a"), stop="model_context_window_exceeded"), [Text("a")], {"stop": "length"}),
    "a refusal": (events(stop="refusal"), [], {"stop": "refused", "text": ""}),
}


@pytest.mark.parametrize(("wire", "shown", "fields"), ARRIVING.values(), ids=ARRIVING.keys())
def test_events_become_what_is_shown_and_a_turn(wire: list[Any], shown: list[Any], fields: dict[str, Any]) -> None:
    *pieces, turn = from_wire(wire)

    assert pieces == shown
    assert isinstance(turn, Message)
    assert {name: getattr(turn, name) for name in fields} == fields


@pytest.mark.parametrize(
    "wire",
    [
        [5],
        [None],
        [{"type": "message_start"}],
        [{"type": "content_block_start", "index": "0", "content_block": {}}],
        [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}],
        [],
    ],
)
def test_events_of_another_shape_are_an_error(wire: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"an event|a piece|no message"):
        list(from_wire(wire))


def test_an_answer_arrives_piece_by_piece() -> None:
    with ScriptedAnthropic([reply("one", "two", delay=0.05)]) as server:
        answering = at(server).stream("", HELLO, [])
        first = next(answering)
        begun = time.monotonic()
        finish(answering)

    assert first == Text("one")
    assert time.monotonic() - begun > 0.05


def test_the_whole_way_from_request_to_turn() -> None:
    shown, turn = ask(
        [Reply(("I look.",), ("hm",), (Call("memory_search", {"query": "x"}), Call("memory_read", {})), cache_read=50)]
    )

    assert shown == [Thinking("hm"), Text("I look.")]
    assert [(call.name, call.arguments) for call in turn.calls] == [
        ("memory_search", {"query": "x"}),
        ("memory_read", {}),
    ]
    assert turn.stop == "tools" and turn.usage.cache_read == 50 and turn.usage.output == 7


def test_a_refusal_is_said_and_leaves_a_turn() -> None:
    shown, turn = ask([reply(stop="refusal")])

    assert notices(shown) == ["claude-sonnet-5-5 declines to answer this"]
    assert turn.stop == "refused"


# ---- trying again


PASSING: dict[str, Step] = {
    "429": status(429, "slow down"),
    "500": status(500, "oops"),
    "503": status(503, "later"),
    "529": status(529, "Overloaded", kind="overloaded_error"),
    "hung up": HangUp(),
    "broken before a word": broken(),
    "ended before a word": Reply(ending=CUT),
    "stalled before a word": stalled(),
    "overloaded in the stream": Raw(
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    ),
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
def test_what_passes_is_followed_by_another_attempt_that_is_announced(failure: Step) -> None:
    pauses: list[float] = []

    shown, turn = ask([failure, failure, reply("hi")], sleep=pauses.append, stall_timeout=0.3)

    assert turn.text == "hi"
    assert pauses == [1.0, 2.0]
    assert [said[said.index("; ") :] for said in notices(shown)] == [
        "; trying again in 1 s (1 of 3)",
        "; trying again in 2 s (2 of 3)",
    ]


def test_attempts_are_bounded() -> None:
    with ScriptedAnthropic([status(529, "Overloaded")] * 9) as server, pytest.raises(ChatError) as caught:
        finish(at(server, retries=2).stream("", HELLO, []))

    assert str(caught.value) == "Anthropic is overloaded (529): Overloaded; tried 3 times"
    assert len(server.requests) == 3


def test_the_wait_is_the_one_that_the_server_asks_for() -> None:
    pauses: list[float] = []
    soon = email.utils.formatdate(time.time() + 30, usegmt=True)

    ask([status(429, retry_after="7"), status(529, retry_after=soon), reply("hi")], sleep=pauses.append)

    assert pauses[0] == 7.0
    assert 25 < pauses[1] <= 30


def test_a_wait_beyond_patience_is_said_instead_of_slept() -> None:
    pauses: list[float] = []

    said = error([status(429, "slow", retry_after="3600"), reply("hi")], sleep=pauses.append)

    assert said == "Anthropic limits the rate of requests (429): slow; it asks to wait 3600 s"
    assert pauses == []


def test_a_server_that_says_not_to_retry_is_believed() -> None:
    assert "tried" not in error([status(429, "spend limit", x_should_retry="false"), reply("hi")])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
    ]
    + [(odd, None) for odd in ("", "soon", "nan", "inf")],
)
def test_a_wait_is_read_from_a_number_or_a_date(header: str, seconds: float | None) -> None:
    assert wait_asked({"retry-after": header}, now=10.0) == seconds


@pytest.mark.parametrize("failure", [broken("par", "tial"), Reply(("partial",), ending=CUT), stalled("partial")])
def test_nothing_is_asked_again_after_the_first_words(failure: Reply) -> None:
    with ScriptedAnthropic([failure, reply("hi")]) as server, pytest.raises(ChatError, match="the answer broke off: "):
        finish(at(server, stall_timeout=0.3).stream("", HELLO, []))

    assert len(server.requests) == 1


def test_thinking_counts_as_words() -> None:
    failure = Reply(thinking=("hm",), texts=("so",), ending=CUT)

    assert error([failure, reply("hi")]).startswith("the answer broke off: ")


# ---- what the person can put right


def test_a_wrong_key_is_said_without_the_key() -> None:
    said = error([status(401, f"invalid x-api-key {KEY}"), reply("hi")])

    assert said.endswith(" (401); check ANTHROPIC_API_KEY")


@pytest.mark.parametrize("key", [None, "", " \n"])
def test_a_missing_key_is_said_before_anything_is_sent(key: str | None) -> None:
    with pytest.raises(ChatError, match="set ANTHROPIC_API_KEY"):
        Claude(api_key=key)


@pytest.mark.parametrize("key", ["sk-ünlike", "sk-two words", "sk-\x00-nul"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ChatError, match="characters that no key has") as caught:
        Claude(api_key=key)

    assert "sk-" not in str(caught.value)


def test_an_unknown_model_is_answered_with_the_nearest_names() -> None:
    with ScriptedAnthropic([status(404, "model: claude-sonet-5")]) as server, pytest.raises(ChatError) as caught:
        finish(at(server, "claude-sonet-5").stream("", HELLO, []))

    assert f"no model 'claude-sonet-5' at {server.url}; there are: claude-sonnet-5-5, " in str(caught.value)


def test_the_nearest_names_are_also_those_of_the_server() -> None:
    models = ["smollm2-135m", "mistral-7b"]
    script = [status(404, "model: smollm2")]
    with ScriptedAnthropic(script, models=models) as server, pytest.raises(ChatError, match="there are: smollm2-135m"):
        finish(at(server, "smollm2").stream("", HELLO, []))

    assert server.seen[-1].startswith("GET /v1/models")


def test_another_kind_of_404_is_not_taken_for_a_missing_model() -> None:
    assert "no /v1/messages at " in error([status(404, "nginx", kind="nothing_here")])


def test_an_overlong_prompt_has_an_error_of_its_own() -> None:
    with pytest.raises(
        TooLongError, match=r"too long for claude-sonnet-5-5 \(prompt is too long: 9 tokens > 8 maximum\)"
    ):
        ask([status(400, "prompt is too long: 9 tokens > 8 maximum")])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            status(400, "Your credit balance is too low"),
            "Anthropic wants payment first: Your credit balance is too low",
        ),
        (status(403, "not yours"), "the key may not use claude-sonnet-5-5 (403): not yours"),
        (status(413, "big"), "the conversation is too long for "),
        (status(400, f"odd\nrequest by {KEY}"), "Anthropic refused the request (400): odd request by [key]"),
        (status(307, location="http://localhost:9/v1/messages"), "Anthropic refused the request (307)"),
        (Raw("event: message_start\ndata: {bad\n\n"), "is not what Anthropic sends (Expecting"),
        (Raw('event: message_start\ndata: "x"\n\n'), "is not what Anthropic sends (an event x)"),
        (Raw("<html>sign in here</html>", "text/html"), "whether the network wants a sign-in"),
        (Raw(""), "is not what Anthropic sends (no message)"),
        (Raw(b"event: message_start\ndata: \xff\n\n".decode("latin-1")), "is not what Anthropic sends"),
    ],
)
def test_other_refusals_and_answers_are_one_line(answer: Step, said: str) -> None:
    assert said in error([answer])


def test_no_server_is_said_after_a_few_attempts() -> None:
    url = nobody()
    claude = Claude(api_key=KEY, base_url=url, retries=1, sleep=lambda seconds: None)

    with pytest.raises(ChatError) as caught:
        finish(claude.stream("", HELLO, []))

    assert str(caught.value).startswith(f"cannot reach {url} (")
    assert str(caught.value).endswith("; tried 2 times; is the server running?")


@pytest.mark.parametrize("url", ["localhost:80", "ftp://x", "http://a b", "https://me:pass@box", "http://box:port"])
def test_what_is_no_base_url_is_said_at_once(url: str) -> None:
    with pytest.raises(ChatError, match="ANTHROPIC_BASE_URL") as caught:
        Claude(api_key=KEY, base_url=url)

    assert "pass@" not in str(caught.value)


def test_keys_are_taken_out_of_any_text() -> None:
    keep_secret("s3cret-word", "t")
    said = redact("Authorization: Bearer abc.def-123456, sk-ant-api03-xyz12345 and tiny and s3cret-word")

    assert said == "Authorization: Bearer [key], [key] and tiny and [key]"


# ---- being a provider


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:8080", "http://localhost.evil.example"])
def test_claude_is_another_machine_even_behind_a_proxy_on_this_one(url: str | None) -> None:
    assert Claude(api_key=KEY, base_url=url).leaves_machine


def test_the_environment_of_the_sdk_cannot_send_it_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_BASE_URL", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")

    assert ask([reply("hi")])[1].text == "hi"


def test_closing_the_answer_hangs_up() -> None:
    with ScriptedAnthropic([reply(*(["word "] * 500), delay=0.01)]) as server:
        answering = at(server).stream("", HELLO, [])
        next(answering)
        answering.close()

        assert server.hung_up.wait(3)


def test_ctrl_c_hangs_up() -> None:
    with ScriptedAnthropic([reply(*(["word "] * 500), delay=0.01)]) as server:
        answering = at(server).stream("", HELLO, [])
        next(answering)
        with pytest.raises(KeyboardInterrupt):
            answering.throw(KeyboardInterrupt)

        assert server.hung_up.wait(3)


def test_the_sdk_is_imported_only_when_a_request_is_made() -> None:
    script = (
        "import sys; from tars.chat.claude import Claude\n"
        "c = Claude(api_key='k'); c.leaves_machine, c.context_tokens, c.name, c.uses_tools\n"
        "sys.exit('anthropic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
