"""Chat with Ollama through the official client, against a server on loopback that follows a script."""

from __future__ import annotations

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
    Installed,
    Raw,
    Reply,
    ScriptedOllama,
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
from tars.chat.ollama import OllamaChat, fitting, from_wire, list_models, to_wire
from tars.errors import ChatError, TooLongError

SEARCH = ToolSpec(
    "memory_search",
    "Finds notes.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
HELLO = [Message("user", "hello")]
PLAIN = Installed(("completion",))


def at(server: ScriptedOllama, model: str = "llama3.2", **settings: Any) -> OllamaChat:
    return OllamaChat(model, host=server.url, **settings)


def ask(script: Iterable[Step], messages: list[Message] = HELLO, **settings: Any) -> tuple[list[Any], Message]:
    with ScriptedOllama(script) as server:
        return finish(at(server, **settings).stream("You are tars.", messages, [SEARCH]))


def notices(events: list[Any]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


# ---- what is sent


CALL = {"function": {"name": "memory_search", "arguments": {"query": "boiler"}}}
ASKED = Message("assistant", "I look.", calls=(ToolCall("toolu_1", "memory_search", {"query": "boiler"}),))
ANSWERED = Message("tool", answers=(ToolAnswer("toolu_1", "memory_search", "[]"),))
OWN = {"role": "assistant", "content": "b", "thinking": "hm"}

WIRE: dict[str, tuple[list[Message], bool, list[dict[str, Any]]]] = {
    "a question": (HELLO, True, [{"role": "user", "content": "hello"}]),
    "a call and its answer, of another provider": (
        [ASKED, ANSWERED],
        True,
        [
            {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
            {"role": "tool", "content": "[]", "tool_name": "memory_search"},
        ],
    ),
    "the same for a model without tools": (
        [ASKED, ANSWERED],
        False,
        [
            {"role": "assistant", "content": "I look."},
            {"role": "user", "content": "memory_search gave:\n[]"},
        ],
    ),
    "a turn of its own, as it came": (
        [Message("assistant", "b", raw={"provider": "ollama", "content": OWN})],
        True,
        [OWN],
    ),
    "half a face": ([Message("user", "a \ud83d b")], True, [{"role": "user", "content": "a ? b"}]),
}


@pytest.mark.parametrize(("messages", "with_tools", "wire"), WIRE.values(), ids=WIRE.keys())
def test_messages_become_rows(messages: list[Message], with_tools: bool, wire: list[Any]) -> None:
    assert to_wire("", messages, [], with_tools=with_tools) == {"messages": wire}


def test_the_system_prompt_is_the_first_row() -> None:
    assert to_wire("You are tars.", HELLO, [])["messages"][0] == {"role": "system", "content": "You are tars."}


def test_the_request_has_its_context_its_tools_and_how_long_to_stay_loaded() -> None:
    with ScriptedOllama([reply("hi")]) as server:
        finish(at(server, keep_alive="1h").stream("You are tars.", HELLO, [SEARCH]))

    (request,) = server.requests
    assert request.body["options"] == {"num_ctx": 4096}
    assert request.body["keep_alive"] == "1h"
    assert request.body["tools"][0]["function"]["name"] == "memory_search"
    assert request.body["tools"][0]["function"]["parameters"]["required"] == ["query"]
    assert "think" not in request.body


def test_earlier_rows_are_the_same_bytes_in_every_request() -> None:
    script = [
        tool_use("memory_search", {"query": "Grüße"}, "I look.", thinking=("hm",)),
        reply("In March."),
        reply("Yes."),
    ]
    with ScriptedOllama(script, models={"qwen3:latest": Installed(("completion", "tools", "thinking"))}) as server:
        chat = at(server, "qwen3")
        messages = [*HELLO]
        for _ in script:
            messages.append(finish(chat.stream("You are tars.", messages, [SEARCH]))[1])
            messages = [message_from_json(json.loads(json.dumps(message_to_json(message)))) for message in messages]
            answers = tuple(ToolAnswer(call.id, call.name, "found") for call in messages[-1].calls)
            messages.append(Message("tool", answers=answers) if answers else Message("user", "and then?"))

    sent = [json.dumps(request.body["messages"]) for request in server.requests]
    assert sent[1].startswith(sent[0][:-1]) and sent[2].startswith(sent[1][:-1])
    assert server.requests[1].body["messages"][2]["thinking"] == "hm"
    assert len({json.dumps(request.body["tools"]) for request in server.requests}) == 1


# ---- what arrives


def row(content: str = "", *, done: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **more}, "done": done is not None, **(done or {})}


END = {"done_reason": "stop", "prompt_eval_count": 30, "eval_count": 4}
ARRIVING: dict[str, tuple[list[dict[str, Any]], list[Any], dict[str, Any]]] = {
    "text": ([row("Hel"), row("lo"), row(done=END)], [Text("Hel"), Text("lo")], {"text": "Hello", "stop": "end"}),
    "text in the last piece": ([row("Hello", done=END)], [Text("Hello")], {"text": "Hello"}),
    "thinking": (
        [row(thinking="h"), row(thinking="m"), row("so"), row(done=END)],
        [Thinking("h"), Thinking("m"), Text("so")],
        {"raw": {"provider": "ollama", "content": {"role": "assistant", "content": "so", "thinking": "hm"}}},
    ),
    "calls get ids from their place": (
        [row(tool_calls=[CALL, CALL]), row(tool_calls=[CALL]), row(done=END)],
        [],
        {
            "calls": tuple(ToolCall(f"call_5_{place}", "memory_search", {"query": "boiler"}) for place in range(3)),
            "stop": "tools",
        },
    ),
    "usage": ([row("a", done=END)], [Text("a")], {"usage": Usage(input=30, output=4)}),
    "a cached prompt": ([row("a", done={"eval_count": 4})], [Text("a")], {"usage": Usage(output=4)}),
    "a full context": ([row("a", done={"done_reason": "length"})], [Text("a")], {"stop": "length"}),
}


@pytest.mark.parametrize(("wire", "shown", "fields"), ARRIVING.values(), ids=ARRIVING.keys())
def test_pieces_become_what_is_shown_and_a_turn(wire: list[Any], shown: list[Any], fields: dict[str, Any]) -> None:
    *pieces, turn = from_wire(wire, 5)

    assert pieces == shown
    assert isinstance(turn, Message)
    assert {name: getattr(turn, name) for name in fields} == fields


def test_the_whole_way_from_request_to_turn() -> None:
    calls = (Call("memory_search", {"query": "x"}), Call("memory_search", {"query": "y"}))

    shown, turn = ask([Reply(("I ", "look."), ("hm",), calls)])

    assert shown == [Thinking("hm"), Text("I "), Text("look.")]
    assert [(call.id, call.arguments["query"]) for call in turn.calls] == [("call_1_0", "x"), ("call_1_1", "y")]
    assert turn.stop == "tools" and turn.usage.output == 7 and turn.usage.input > 0


def test_an_answer_arrives_piece_by_piece() -> None:
    with ScriptedOllama([reply("one", "two", delay=0.05)]) as server:
        answering = at(server).stream("", HELLO, [])
        first = next(answering)
        begun = time.monotonic()
        finish(answering)

    assert first == Text("one")
    assert time.monotonic() - begun > 0.05


# ---- what the model can do


def test_a_model_without_tools_still_gets_its_context() -> None:
    with ScriptedOllama([reply("hi")], models={"gemma:latest": PLAIN}) as server:
        gemma = at(server, "gemma")
        finish(gemma.stream("You know: boiler in March.", HELLO, [SEARCH]))

    assert gemma.uses_tools is False
    assert server.requests[0].body.get("tools", []) == []
    assert server.requests[0].body["messages"][0]["content"] == "You know: boiler in March."


@pytest.mark.parametrize(("template", "tools"), [("{{ if .Tools }}…{{ end }}", True), ("{{ .Prompt }}", False)])
def test_a_server_too_old_to_name_capabilities_is_judged_by_the_template(template: str, tools: bool) -> None:
    with ScriptedOllama(models={"llama3.2:latest": Installed(None, template=template)}) as server:
        assert at(server).uses_tools is tools


@pytest.mark.parametrize("think", [True, False])
def test_only_a_model_that_thinks_is_told_whether_to(think: bool) -> None:
    with ScriptedOllama([reply("hi")], models={"qwen3:latest": Installed(("completion", "thinking"))}) as server:
        finish(at(server, "qwen3", think=think).stream("", HELLO, []))

    assert server.requests[0].body["think"] is think


def test_the_model_is_looked_up_once() -> None:
    with ScriptedOllama([reply("hi"), reply("ho")]) as server:
        chat = at(server)
        finish(chat.stream("", HELLO, []))
        finish(chat.stream("", HELLO, []))

        assert (chat.uses_tools, chat.context_tokens) == (True, 32_768)
    assert server.seen.count("POST /api/show") == 1


@pytest.mark.parametrize(("context", "known"), [(2_048, 2_048), (40_960, 32_768), (None, 8_192)])
def test_the_context_is_that_of_the_model_up_to_the_limit(context: int | None, known: int) -> None:
    with ScriptedOllama(models={"llama3.2:latest": Installed(context=context)}) as server:
        assert at(server, max_num_ctx=32_768).context_tokens == known


@pytest.mark.parametrize(
    ("tokens", "limit", "step"),
    [
        (0, 32_768, 4_096),
        (4_096, 32_768, 4_096),
        (4_097, 32_768, 8_192),
        (9_000, 40_960, 16_384),
        (33_000, 40_960, 40_960),
        (99_999, 40_960, 40_960),
        (10, 2_048, 2_048),
        (5_000, 2_048, 2_048),
    ],
)
def test_the_context_is_the_smallest_step_that_fits(tokens: int, limit: int, step: int) -> None:
    assert fitting(tokens, limit) == step


def test_the_context_grows_with_the_conversation_and_never_shrinks() -> None:
    with ScriptedOllama([reply("hi")] * 3) as server:
        chat = at(server)
        for words in (1, 3_000, 1):
            finish(chat.stream("", [Message("user", "word " * words)], []))

    assert [request.body["options"]["num_ctx"] for request in server.requests] == [4_096, 8_192, 8_192]


# ---- a prompt that was cut


LONG = [Message("user", "The boiler was serviced in March by the firm from the next village. " * 3_000)]


def test_a_prompt_that_the_server_cut_is_noticed() -> None:
    shown, turn = ask([reply("hm", prompt=16_386)], LONG)

    (said,) = notices(shown)
    assert said.startswith("Ollama cut the conversation: llama3.2 read 16,386 tokens of at least 34,")
    assert "(context 32,768)" in said
    assert turn.text == "hm"


@pytest.mark.parametrize("prompt", [45_000, -1], ids=["all of it", "unknown, as with a cached prompt"])
def test_nothing_is_said_of_a_prompt_that_was_read_or_not_counted(prompt: int) -> None:
    assert notices(ask([reply("hm", prompt=prompt)], LONG)[0]) == []


@pytest.mark.parametrize(
    ("text", "prompt"),
    [("=" * 20_000, 400), ("\n" * 20_000, 400), ("word " * 4_000, 4_000)],
    ids=["rule", "gap", "words"],
)
def test_text_that_makes_few_tokens_is_not_taken_for_cut(text: str, prompt: int) -> None:
    assert notices(ask([reply("hm", prompt=prompt)], [Message("user", text)])[0]) == []


# ---- what the person can put right


def test_a_missing_model_is_answered_with_the_pull_line_and_the_nearest_names() -> None:
    models = {"llama3.2:latest": Installed(), "qwen3:8b": Installed(), "nomic-embed-text:latest": Installed()}
    with ScriptedOllama(models=models) as server, pytest.raises(ChatError) as caught:
        finish(at(server, "qwen3:4b").stream("", HELLO, []))

    assert str(caught.value) == (
        "Ollama has no model qwen3:4b; run `ollama pull qwen3:4b`, or choose one that it has: qwen3:8b"
    )


def test_a_missing_model_where_there_is_none() -> None:
    with ScriptedOllama(models={}) as server, pytest.raises(ChatError, match=r"run `ollama pull llama3\.2`$"):
        finish(at(server).stream("", HELLO, []))


def test_a_model_that_only_embeds_is_named() -> None:
    models = {"bge-m3:latest": Installed(("embedding",), family="bert")}
    with ScriptedOllama(models=models) as server, pytest.raises(ChatError, match="the model bge-m3 only embeds"):
        finish(at(server, "bge-m3").stream("", HELLO, []))


def test_no_server_is_said_at_once_with_what_to_start() -> None:
    url = nobody()

    with pytest.raises(ChatError) as caught:
        finish(OllamaChat("llama3.2", host=url).stream("", HELLO, []))

    assert str(caught.value) == (
        f"Ollama does not answer at {url}; start it with `ollama serve`, or choose another model with TARS_MODEL"
    )


FAILURES: dict[str, tuple[Step, str]] = {
    "500": (status(500, "llama runner\nexited"), r"failed \(500\): llama runner exited"),
    "no such path": (status(404, "404 page not found"), r"no chat at .* \(404\)"),
    "error in the stream": (Raw('{"error": "out of memory"}\n'), "failed: out of memory"),
    "hung up": (HangUp(), "hung up"),
    "broken before a word": (broken(), "^Ollama at .* hung up"),
    "broken": (broken("par", "tial"), "the answer broke off: Ollama at .* hung up"),
    "ended too early": (Reply(("partial",), ending=CUT), "the answer broke off: Ollama at .* hung up"),
    "stalled before a word": (stalled(), r"^nothing from Ollama at .* for 0\.3 s"),
    "stalled": (stalled("partial"), r"the answer broke off: nothing from Ollama at .* for 0\.3 s; ask again"),
    "malformed": (Raw('{"message": '), r"is not what Ollama sends \(JSONDecodeError"),
    "another shape": (Raw('{"done": true}\n'), "is not what Ollama sends"),
    "no object": (Raw("[]\n"), "is not what Ollama sends"),
    "a web page": (Raw("<html>hello</html>", "text/html"), "is not what Ollama sends"),
    "arguments that are no object": (tool_use("memory_search", "boiler"), "is not what Ollama sends"),
    "redirected": (status(307, location="http://localhost:9/"), r"failed \(307\)"),
}


@pytest.mark.parametrize(("failure", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_is_one_line(failure: Step, said: str) -> None:
    with pytest.raises(ChatError, match=said) as caught:
        ask([failure], stall_timeout=0.3)

    assert "\n" not in str(caught.value)


def test_a_conversation_that_the_server_refuses_as_too_long_has_an_error_of_its_own() -> None:
    with pytest.raises(TooLongError, match=r"too long for llama3\.2 \(request \(20001 tokens\) exceeds"):
        ask([status(400, "request (20001 tokens) exceeds the available context size (8192 tokens), try increasing it")])


def test_credentials_reach_the_server_and_no_error() -> None:
    with ScriptedOllama([reply("hi"), status(500, "Basic aW5lczpwQHNz refused")]) as server:
        chat = OllamaChat("llama3.2", host=server.url.replace("://", "://ines:p%40ss@"))
        finish(chat.stream("", HELLO, []))
        with pytest.raises(ChatError) as caught:
            finish(chat.stream("", HELLO, []))

    assert server.requests[0].headers["authorization"] == "Basic aW5lczpwQHNz"
    assert "aW5l" not in str(caught.value) and "ines" not in str(caught.value)


# ---- being a provider


@pytest.mark.parametrize("host", ["192.168.1.20", "https://ollama.example", "http://127.0.0.1.evil.example"])
def test_another_machine_is_another_machine(host: str) -> None:
    assert OllamaChat("llama3.2", host=host).leaves_machine is True


def test_loopback_stays_here_but_for_models_that_are_passed_on() -> None:
    models = {"llama3.2:latest": Installed(), "mine:latest": Installed(remote_host="https://ollama.com:443")}
    with ScriptedOllama(models=models) as server:
        leaves = {
            name: at(server, name).leaves_machine for name in ("llama3.2", "mine", "gpt-oss:120b-cloud", "glm:cloud")
        }

    assert leaves == {"llama3.2": False, "mine": True, "gpt-oss:120b-cloud": True, "glm:cloud": True}


def test_a_proxy_is_not_asked_for_what_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    assert ask([reply("hi")])[1].text == "hi"


def test_closing_the_answer_hangs_up() -> None:
    with ScriptedOllama([reply(*(["word "] * 500), delay=0.01)]) as server:
        answering = at(server).stream("", HELLO, [])
        next(answering)
        answering.close()

        assert server.hung_up.wait(3)


def test_the_chat_models_are_listed_without_embedders_and_without_what_runs_elsewhere() -> None:
    models = {
        "llama3.2:latest": Installed(),
        "nomic-embed-text:latest": Installed(family="nomic-bert"),
        "qwen3-embedding:0.6b": Installed(family="qwen3"),
        "all-minilm:latest": Installed(family="bert"),
        "gpt-oss:120b-cloud": Installed(remote_host="https://ollama.com:443"),
        "qwen3:8b": Installed(family="qwen3"),
    }
    with ScriptedOllama(models=models) as server:
        assert list_models(server.url) == ["llama3.2:latest", "qwen3:8b"]


def test_where_nobody_answers_there_is_no_list_and_no_wait() -> None:
    begun = time.monotonic()

    assert list_models(nobody()) is None
    assert time.monotonic() - begun < 0.3


def test_another_program_at_the_address_has_no_list() -> None:
    with ScriptedOllama() as server:
        assert list_models(server.url + "/elsewhere") is None


def test_the_client_is_imported_only_when_a_request_is_made() -> None:
    script = (
        "import sys; from tars.chat.ollama import OllamaChat, list_models\n"
        "OllamaChat('plain', host='127.0.0.1:9').leaves_machine; list_models('127.0.0.1:9')\n"
        "sys.exit('ollama' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
