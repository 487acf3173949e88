"""A model that runs in Ollama, through the official client and the native `/api/chat`."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tars.chat import Event, Message, Notice, Text, Thinking, ToolAnswer, ToolCall, ToolSpec, Usage, estimate_tokens
from tars.errors import ChatError, TooLongError
from tars.wire import OLLAMA, Server, encodable, nearest, one_line, server

if TYPE_CHECKING:
    import ollama

_SMALLEST_CONTEXT = 4_096
_UNKNOWN_CONTEXT = 8_192
# Tokens kept free for the answer, thinking included.
_ROOM = 2_048
# No tokenizer makes fewer tokens of running text than one per so many bytes.
_BYTES_PER_TOKEN_AT_MOST = 6
_EMBEDDERS = re.compile(r"embed|minilm|\bbge\b|\be5\b|\bgte\b|rerank", re.IGNORECASE)
_EMBEDDING_FAMILIES = {"bert", "nomic-bert", "nomic-bert-moe", "xlm-roberta", "gemma-embedding"}
_QUICK = 0.3
_PATIENT = 2.0


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the server says of a model."""

    chat: bool
    tools: bool
    thinking: bool
    context: int


class OllamaChat:
    """A `Provider`; the server is asked what the model can do when that is first needed."""

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        keep_alive: str = "30m",
        max_num_ctx: int = 32_768,
        think: bool = True,
        connect_timeout: float = 5.0,
        stall_timeout: float = 300.0,
    ) -> None:
        self._model = model
        self._server = server(host or OLLAMA, problem=ChatError)
        self._keep_alive = keep_alive
        self._max_num_ctx = max_num_ctx
        self._think = think
        self._connect_timeout = connect_timeout
        self._stall_timeout = stall_timeout
        self._client: ollama.Client | None = None
        self._known: Abilities | None = None
        self._elsewhere: bool | None = None
        self._num_ctx = 0

    @property
    def name(self) -> str:
        return f"ollama:{self._model}"

    @property
    def leaves_machine(self) -> bool:
        """Also for a model that the server on this machine only passes on to ollama.com."""
        if self._elsewhere is None:
            self._elsewhere = not self._server.loopback or _passes_on(self._server, self._model)
        return self._elsewhere

    @property
    def context_tokens(self) -> int:
        return min(self._abilities().context, self._max_num_ctx)

    @property
    def uses_tools(self) -> bool:
        return self._abilities().tools

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Generator[Event, None, Message]:
        request = to_wire(system, messages, tools, with_tools=self.uses_tools)
        self._num_ctx = max(self._num_ctx, fitting(most_tokens(request) + _ROOM, self.context_tokens))
        shown = False
        try:
            with contextlib.closing(self._arriving(request, len(messages))) as arriving:
                for item in arriving:
                    if isinstance(item, Message):
                        return item
                    shown = True
                    yield item
        except ChatError as error:
            if shown:
                raise ChatError(f"the answer broke off: {error}; ask again") from None
            raise
        raise AssertionError("from_wire ends with a message or an error")

    def _arriving(self, request: dict[str, Any], number: int) -> Generator[Event | Message, None, None]:
        with self._explained():
            pieces = self._connected().chat(
                model=self._model,
                stream=True,
                think=self._think if self._abilities().thinking else None,
                keep_alive=self._keep_alive,
                options={"num_ctx": self._num_ctx},
                **request,
            )
            with contextlib.closing(pieces):  # type: ignore[type-var]  # it is a generator, typed as less
                for item in from_wire((piece.model_dump() for piece in pieces), number):
                    if isinstance(item, Message) and was_cut(request, item.usage.input):
                        yield Notice(self._cut(request, item.usage.input))
                    yield item

    def _cut(self, request: dict[str, Any], read: int) -> str:
        sent = least_tokens(request)
        return (
            f"Ollama cut the conversation: {self._model} read {read:,} tokens of at least {sent:,}, the oldest are "
            f"missing (context {self._num_ctx:,}); start a new conversation or choose a model with a larger context"
        )

    def _abilities(self) -> Abilities:
        if self._known is None:
            with self._explained():
                self._known = abilities(self._connected().show(self._model))
        if not self._known.chat:
            raise ChatError(f"the model {self._model} only embeds; choose another with TARS_MODEL")
        return self._known

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn everything that can go wrong on the way into a ChatError."""
        import httpx
        import ollama

        where = self._server.url
        try:
            yield
        except (ConnectionError, httpx.ConnectError, httpx.ConnectTimeout):
            remedy = "start it with `ollama serve`, or choose another model with TARS_MODEL"
            raise ChatError(f"Ollama does not answer at {where}; {remedy}") from None
        except httpx.TimeoutException:
            raise ChatError(f"nothing from Ollama at {where} for {self._stall_timeout:g} s") from None
        except httpx.HTTPError as error:
            raise ChatError(f"Ollama at {where} hung up ({self._said(error)})") from None
        except EOFError:
            raise ChatError(f"Ollama at {where} hung up") from None
        except ollama.ResponseError as error:
            raise self._refused(error) from None
        except (ValueError, TypeError, AttributeError) as error:
            # The client builds its answers straight from the JSON: none, no object, or another shape.
            what = f"{type(error).__name__}; is another program there?"
            raise ChatError(f"what {where} sends is not what Ollama sends ({what})") from None

    def _refused(self, error: ollama.ResponseError) -> ChatError:
        said = self._said(error.error)
        if error.status_code == 404 and "model" in said:
            return self._missing()
        if error.status_code == 404:
            return ChatError(f"no chat at {self._server.url} (404); is another program there?")
        if "context" in said and "exceed" in said:
            remedy = "start a new conversation or say less at once"
            return TooLongError(f"the conversation is too long for {self._model} ({said}); {remedy}")
        status = f" ({error.status_code})" if error.status_code > 0 else ""
        return ChatError(f"Ollama at {self._server.url} failed{status}: {said}")

    def _missing(self) -> ChatError:
        text = f"Ollama has no model {self._model}; run `ollama pull {self._model}`"
        near = nearest(self._model, _chat_models(self._server) or [])
        return ChatError(f"{text}, or choose one that it has: {', '.join(near)}" if near else text)

    def _said(self, text: object) -> str:
        return one_line(text)

    def _connected(self) -> ollama.Client:
        if self._client is None:
            import ollama

            silence = self._stall_timeout
            self._client = ollama.Client(
                host=self._server.url,
                timeout=(self._connect_timeout, silence, silence, silence),
                headers=self._server.headers,
                **self._server.options,
            )
        return self._client


def to_wire(
    system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], *, with_tools: bool = True
) -> dict[str, Any]:
    """The request's body but for model and settings. Without tools, earlier answers of tools become plain text."""
    rows = [{"role": "system", "content": system}] if system else []
    for message in messages:
        rows += _rows(message, with_tools)
    request: dict[str, Any] = {"messages": rows}
    if tools and with_tools:
        request["tools"] = [_tool(tool) for tool in tools]
    cleaned: dict[str, Any] = encodable(request)
    return cleaned


def _rows(message: Message, with_tools: bool) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [_answer(answer, with_tools) for answer in message.answers]
    if message.role == "user":
        return [{"role": "user", "content": message.text}]
    if not with_tools:
        return [{"role": "assistant", "content": message.text}] if message.text else []
    if message.raw.get("provider") == "ollama":
        return [message.raw["content"]]
    row: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.calls:
        row["tool_calls"] = [_function(call.name, call.arguments) for call in message.calls]
    return [row]


def _answer(answer: ToolAnswer, with_tools: bool) -> dict[str, Any]:
    if with_tools:
        return {"role": "tool", "content": answer.content, "tool_name": answer.name}
    return {"role": "user", "content": f"{answer.name} gave:\n{answer.content}"}


def _function(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": dict(arguments)}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def from_wire(pieces: Iterable[Mapping[str, Any]], number: int) -> Iterator[Event | Message]:
    """What is to be shown, as it arrives, and the finished turn as the last item.

    Ollama gives calls no ids: theirs are made from the turn's `number`, so that they are the same every time.
    Raises EOFError if the pieces end before the turn does.
    """
    text, thinking = "", ""
    functions: list[dict[str, Any]] = []
    for piece in map(encodable, pieces):
        message = piece["message"]
        if thought := message.get("thinking"):
            thinking += thought
            yield Thinking(thought)
        if words := message.get("content"):
            text += words
            yield Text(words)
        functions += [call["function"] for call in message.get("tool_calls") or []]
        if piece.get("done"):
            yield _message(text, thinking, functions, number, piece)
            return
    raise EOFError


def _message(
    text: str, thinking: str, functions: list[dict[str, Any]], number: int, last: Mapping[str, Any]
) -> Message:
    content: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        content["thinking"] = thinking
    if functions:
        content["tool_calls"] = [_function(function["name"], function["arguments"]) for function in functions]
    stop = "tools" if functions else "length" if last.get("done_reason") == "length" else "end"
    return Message(
        role="assistant",
        text=text,
        calls=tuple(
            ToolCall(f"call_{number}_{place}", function["name"], dict(function["arguments"]))
            for place, function in enumerate(functions)
        ),
        raw={"provider": "ollama", "content": content},
        usage=Usage(input=last.get("prompt_eval_count") or 0, output=last.get("eval_count") or 0),
        stop=stop,
    )


def abilities(shown: ollama.ShowResponse) -> Abilities:
    """From `/api/show`. Servers before 0.6.4 name no capabilities; then the template tells whether it takes tools."""
    lengths = [value for key, value in (shown.modelinfo or {}).items() if key.endswith(".context_length")]
    context = next((length for length in lengths if isinstance(length, int) and length > 0), _UNKNOWN_CONTEXT)
    can = shown.capabilities
    if can is None:
        return Abilities(chat=True, tools=".Tools" in (shown.template or ""), thinking=False, context=context)
    return Abilities("completion" in can, "tools" in can, "thinking" in can, context)


def fitting(tokens: int, limit: int) -> int:
    """The smallest step of context that holds so many tokens, up to the limit: each change makes Ollama load again.

    >>> fitting(5_000, 40_960), fitting(99_000, 40_960)
    (8192, 40960)
    """
    step = _SMALLEST_CONTEXT
    while step < min(tokens, limit):
        step *= 2
    return min(step, limit)


def most_tokens(request: Mapping[str, Any]) -> int:
    return estimate_tokens(json.dumps(request, ensure_ascii=False))


def least_tokens(request: Mapping[str, Any]) -> int:
    """What the messages come to at the very least; runs of one sign, which some tokenizers take whole, count once."""
    texts = "\n".join(row.get("content") or "" for row in request["messages"])
    return len(re.sub(r"(\W)\1+", r"\1", texts).encode()) // _BYTES_PER_TOKEN_AT_MOST


def was_cut(request: Mapping[str, Any], read: int) -> bool:
    """Whether the server read less than was sent.

    It says nothing when it cuts, and keeps about half of its context (ollama/ollama#17427). Without a count, as some
    versions answer a cached prompt, nothing is known.
    """
    return 0 < read < least_tokens(request)


def list_models(host: str | None = None) -> list[str] | None:
    """The chat models that run on an Ollama server, newest first; None, and at once, if no server answers."""
    return _chat_models(server(host or OLLAMA, problem=ChatError))


def _chat_models(where: Server) -> list[str] | None:
    """Models that the server passes on to another machine are not offered: they have to be asked for by name."""
    rows = _installed(where)
    return None if rows is None else [row["model"] for row in rows if _chats(row) and not _is_remote(row)]


def _installed(where: Server) -> list[dict[str, Any]] | None:
    """The rows of `/api/tags`. Asked without the client, whose import costs more than the whole answer."""
    parts = urlsplit(where.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_QUICK)
    try:
        connection.connect()
        connection.sock.settimeout(_PATIENT)
        connection.request("GET", f"{parts.path}/api/tags", headers=where.headers)
        rows = json.loads(connection.getresponse().read())["models"]
        return [{**row, "model": str(row.get("model") or row["name"])} for row in rows]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return None  # nobody there, or somebody else
    finally:
        connection.close()


def _chats(row: Mapping[str, Any]) -> bool:
    """Newer servers name capabilities here; for others the family and the name tell."""
    if isinstance(row.get("capabilities"), list) and row["capabilities"]:
        return "completion" in row["capabilities"]
    details = row.get("details") or {}
    families = {details.get("family"), *(details.get("families") or [])}
    return not families & _EMBEDDING_FAMILIES and not _EMBEDDERS.search(row["model"])


def _passes_on(where: Server, model: str) -> bool:
    rows = [row for row in _installed(where) or [] if row["model"] == _tagged(model)]
    return any(map(_is_remote, [*rows, {"model": model}]))


def _is_remote(row: Mapping[str, Any]) -> bool:
    return bool(row.get("remote_host")) or _tagged(str(row["model"])).endswith((":cloud", "-cloud"))


def _tagged(model: str) -> str:
    return model if ":" in model.rpartition("/")[2] else f"{model}:latest"
