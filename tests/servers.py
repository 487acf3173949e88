"""Servers on loopback that play a script in Anthropic's or in Ollama's wire format and keep what they were sent.

    with ScriptedAnthropic([tool_use("memory_search", {"query": "boiler"}), reply("In ", "March.")]) as server:
        Claude(api_key="k", base_url=server.url)
    server.requests[0].body["messages"]

The script is the same for both: each request to the model takes the next step of it.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WHOLE, CUT, BROKEN, STALLED = "whole", "cut", "broken", "stalled"


@dataclass(frozen=True)
class Request:
    path: str
    body: dict[str, Any]
    headers: dict[str, str]  # names in lower case


@dataclass(frozen=True)
class Call:
    """What the scripted model wants done; arguments as a text go over the wire as they are."""

    name: str
    arguments: dict[str, Any] | str
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """A turn of the scripted model. Tokens that are None are left out of the wire."""

    texts: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    signature: str = "c2lnbmF0dXJl"
    stop: str = ""  # in the words of the wire; empty: what fits
    prompt: int | None = None  # tokens that were read; None: as many as were sent, or so
    output: int = 7
    cache_read: int = 0
    cache_write: int = 0
    ending: str = WHOLE  # CUT: ends politely but too early; BROKEN: hangs up; STALLED: goes silent
    delay: float = 0.0  # seconds before each piece


@dataclass(frozen=True)
class Status:
    """A refusal."""

    code: int
    message: str = ""
    kind: str = ""  # Anthropic's error type
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """A body as it is, with status 200; for answers that no model server gives."""

    body: str
    content_type: str = "text/event-stream"


@dataclass(frozen=True)
class HangUp:
    """The connection is closed before anything is said."""


Step = Reply | Status | Raw | HangUp
Script = Iterable[Step | Callable[[Request], Step]]


def reply(*texts: str, **more: Any) -> Reply:
    return Reply(texts=texts, **more)


def tool_use(name: str, arguments: dict[str, Any] | str, *texts: str, **more: Any) -> Reply:
    """One call, after some words perhaps. For several: `Reply(calls=(Call(...), Call(...)))`."""
    return Reply(texts=texts, calls=(Call(name, arguments),), **more)


def status(code: int, message: str = "", *, kind: str = "", **headers: str) -> Status:
    """Headers as keywords: `status(429, retry_after="2")`."""
    return Status(code, message, kind, {name.replace("_", "-"): value for name, value in headers.items()})


def broken(*texts: str) -> Reply:
    return Reply(texts=texts, ending=BROKEN)


def stalled(*texts: str) -> Reply:
    return Reply(texts=texts, ending=STALLED)


class Scripted:
    """The part that both wires share."""

    chat_path = ""
    content_type = ""

    def __init__(self, script: Script = (), *, delay: float = 0.0) -> None:
        self.requests: list[Request] = []  # to the model
        self.seen: list[str] = []  # everything that was asked, as "GET /path"
        self.hung_up = threading.Event()  # the client went away in the middle of an answer
        self.script = iter(script)
        self.delay = delay
        self.over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Any:
        self._http = _Server(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, method: str, request: Request) -> Step | bytes:
        """What a request gets; bytes are JSON with status 200."""
        with self._lock:
            self.seen.append(f"{method} {request.path}")
            if method != "POST" or request.path != self.chat_path:
                return self.aside(request)
            self.requests.append(request)
            step = next(self.script, status(400, "the script is over"))
        return step(request) if callable(step) else step

    def aside(self, request: Request) -> Step | bytes:
        raise NotImplementedError

    def pieces(self, turn: Reply, request: Request) -> Iterator[str]:
        """The body in the pieces that go over the wire; all but the last are also there when it is not whole."""
        raise NotImplementedError

    def error(self, step: Status) -> dict[str, Any]:
        raise NotImplementedError


class ScriptedAnthropic(Scripted):
    chat_path = "/v1/messages"
    content_type = "text/event-stream"

    def __init__(self, script: Script = (), *, delay: float = 0.0, models: Iterable[str] | None = None) -> None:
        super().__init__(script, delay=delay)
        self.models = models

    def aside(self, request: Request) -> Step | bytes:
        if request.path.startswith("/v1/models") and self.models is not None:
            rows = [{"id": name, "type": "model"} for name in self.models]
            return json.dumps({"data": rows, "has_more": False}).encode()
        return Status(404, "not found")

    def error(self, step: Status) -> dict[str, Any]:
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = step.kind or kinds.get(step.code, "api_error" if step.code >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": step.message}}

    def pieces(self, turn: Reply, request: Request) -> Iterator[str]:
        usage = {
            "input_tokens": size(request) if turn.prompt is None else turn.prompt,
            "cache_read_input_tokens": turn.cache_read,
            "cache_creation_input_tokens": turn.cache_write,
            "output_tokens": 1,
        }
        head = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request.body.get("model"),
            "content": [],
        }
        yield sse("message_start", message={**head, "stop_reason": None, "stop_sequence": None, "usage": usage})
        yield sse("ping")
        for index, (block, deltas) in enumerate(self.blocks(turn, len(self.requests))):
            yield sse("content_block_start", index=index, content_block=block)
            for delta in deltas:
                yield sse("content_block_delta", index=index, delta=delta)
            yield sse("content_block_stop", index=index)
        reason = turn.stop or ("tool_use" if turn.calls else "end_turn")
        yield sse(
            "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": turn.output}
        )
        yield sse("message_stop")

    def blocks(self, turn: Reply, number: int) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        if turn.thinking:
            deltas = [{"type": "thinking_delta", "thinking": text} for text in turn.thinking]
            deltas.append({"type": "signature_delta", "signature": turn.signature})
            yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
        if turn.texts:
            yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in turn.texts]
        for place, call in enumerate(turn.calls):
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            half = len(arguments) // 2
            identity = call.id or f"toolu_{number}_{place}"
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in ("", arguments[:half], arguments[half:])
            ]
            yield {"type": "tool_use", "id": identity, "name": call.name, "input": {}}, deltas


@dataclass(frozen=True)
class Installed:
    """A model that the scripted Ollama has."""

    capabilities: tuple[str, ...] | None = ("completion", "tools")  # None: a server too old to say
    context: int | None = 32_768
    family: str = "llama"
    template: str = ""
    remote_host: str = ""  # for a model that Ollama only passes on


class ScriptedOllama(Scripted):
    chat_path = "/api/chat"
    content_type = "application/x-ndjson"

    def __init__(
        self, script: Script = (), *, delay: float = 0.0, models: Mapping[str, Installed] | None = None
    ) -> None:
        super().__init__(script, delay=delay)
        self.models = {"llama3.2:latest": Installed()} if models is None else dict(models)

    def find(self, name: str) -> Installed | None:
        return self.models.get(name if ":" in name else f"{name}:latest")

    def answer(self, method: str, request: Request) -> Step | bytes:
        if request.path == self.chat_path and self.find(request.body.get("model", "")) is None:
            return self.missing(request)
        return super().answer(method, request)

    def aside(self, request: Request) -> Step | bytes:
        if request.path == "/api/tags":
            rows = [self.row(name, model) for name, model in self.models.items()]
            return json.dumps({"models": rows}).encode()
        if request.path == "/api/show":
            model = self.find(request.body.get("model", ""))
            return self.missing(request) if model is None else self.show(model)
        return Status(404, "404 page not found")

    def row(self, name: str, model: Installed) -> dict[str, Any]:
        row = {"name": name, "model": name, "details": {"family": model.family, "families": [model.family]}}
        return row | ({"remote_host": model.remote_host} if model.remote_host else {})

    def missing(self, request: Request) -> Status:
        return Status(404, f"model '{request.body.get('model')}' not found")

    def show(self, model: Installed) -> bytes:
        info: dict[str, Any] = {"general.architecture": model.family}
        if model.context is not None:
            info[f"{model.family}.context_length"] = model.context
        body: dict[str, Any] = {"model_info": info, "template": model.template, "details": {"family": model.family}}
        if model.capabilities is not None:
            body["capabilities"] = model.capabilities
        return json.dumps(body).encode()

    def error(self, step: Status) -> dict[str, Any]:
        return {"error": step.message}

    def pieces(self, turn: Reply, request: Request) -> Iterator[str]:
        for text in turn.thinking:
            yield ndjson(request, content="", thinking=text)
        for text in turn.texts:
            yield ndjson(request, content=text)
        for call in turn.calls:
            yield ndjson(
                request, content="", tool_calls=[{"function": {"name": call.name, "arguments": call.arguments}}]
            )
        # A prompt that the server has in its cache is not counted: -1 plays that.
        prompt = size(request) if turn.prompt is None else turn.prompt
        counts = {} if prompt < 0 else {"prompt_eval_count": prompt}
        yield ndjson(
            request, content="", done={"done_reason": turn.stop or "stop", "eval_count": turn.output, **counts}
        )


def size(request: Request) -> int:
    """About as many tokens as a request has."""
    return len(json.dumps(request.body.get("messages", []))) // 4


def sse(kind: str, **more: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"


def ndjson(request: Request, *, done: dict[str, Any] | None = None, **message: Any) -> str:
    head = {"model": request.body.get("model"), "created_at": "2026-03-01T10:00:00Z"}
    row = {**head, "message": {"role": "assistant", **message}, "done": done is not None, **(done or {})}
    return json.dumps(row) + "\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, scripted: Scripted) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripted = scripted

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that resets its connection is part of the play; anything else is a fault of the test."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def scripted(self) -> Scripted:
        return self.server.scripted

    def do_GET(self) -> None:
        self.play("GET", b"")

    def do_POST(self) -> None:
        self.play("POST", self.rfile.read(int(self.headers["Content-Length"])))

    def play(self, method: str, raw: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, json.loads(raw) if raw else {}, headers)
        step = self.scripted.answer(method, request)
        try:
            self.perform(step, request)
        except ConnectionError:
            self.scripted.hung_up.set()
            self.close_connection = True

    def perform(self, step: Step | bytes, request: Request) -> None:
        match step:
            case bytes():
                self.whole(200, step, "application/json")
            case Status():
                content = json.dumps(self.scripted.error(step)).encode()
                self.whole(step.code, content, "application/json", step.headers)
            case Raw():
                self.whole(200, step.body.encode(), step.content_type)
            case HangUp():
                self.close_connection = True
            case Reply():
                self.streamed(step, request)

    def whole(self, code: int, content: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def streamed(self, turn: Reply, request: Request) -> None:
        self.send_response(200)
        self.send_header("Content-Type", self.scripted.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = list(self.scripted.pieces(turn, request))
        for piece in pieces if turn.ending == WHOLE else unfinished(pieces, turn):
            time.sleep(turn.delay or self.scripted.delay)
            content = piece.encode()
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        if turn.ending == STALLED:
            self.scripted.over.wait(30)
        if turn.ending in (BROKEN, STALLED):
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def unfinished(pieces: list[str], turn: Reply) -> list[str]:
    """What goes out before the stream ends too early: nothing behind the last text."""
    if not turn.texts:
        return pieces[:-1][:1]
    wanted = json.dumps(turn.texts[-1])
    last = max(number for number, piece in enumerate(pieces) if wanted in piece)
    return pieces[: last + 1]


def finish(answering: Generator[Any, None, Any]) -> tuple[list[Any], Any]:
    """Everything a generator yields, and what it returns."""
    shown = []
    while True:
        try:
            shown.append(next(answering))
        except StopIteration as end:
            return shown, end.value


def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"
