"""Claude, through the official SDK and Anthropic's `/v1/messages`."""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tars.chat import Event, Message, Notice, Text, Thinking, ToolCall, ToolSpec, Usage
from tars.errors import ChatError, TooLongError, keep_secret
from tars.wire import Server, encodable, guard_logs, nearest, one_line, server

if TYPE_CHECKING:
    import anthropic

DEFAULT_MODEL = "claude-sonnet-5-5"
KNOWN_MODELS = (DEFAULT_MODEL, "claude-opus-5-5", "claude-haiku-5-5")
DEFAULT_URL = "https://api.anthropic.com"

_MARK = {"cache_control": {"type": "ephemeral"}}
_STOPS = {
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
# An error that comes in mid-stream has no status of its own, only a type; the stream had 200.
_STATUS_OF = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_PASSING = {408, 409, 429}
# The events that must have their known shape; others are skipped.
_TOLD = {"message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop"}
_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_COUNTS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


class Claude:
    """A `Provider` whose model runs at Anthropic, or at a server that speaks as Anthropic does."""

    uses_tools = True
    leaves_machine = True  # also from an address of this machine, where a proxy may listen that passes everything on

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        api_key: str | None,
        base_url: str | None = None,
        max_tokens: int = 16_000,
        context_tokens: int = 200_000,
        retries: int = 3,
        longest_wait: float = 60.0,
        connect_timeout: float = 10.0,
        stall_timeout: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._key = usable_key(api_key)
        keep_secret(self._key)
        self._server = _at(base_url or DEFAULT_URL)
        self._where = self._server.url.removesuffix(":443")
        self._max_tokens = max_tokens
        self._context_tokens = context_tokens
        self._retries = retries
        self._longest_wait = longest_wait
        self._connect_timeout = connect_timeout
        self._stall_timeout = stall_timeout
        self._sleep = sleep
        self._client: anthropic.Anthropic | None = None

    @property
    def name(self) -> str:
        return f"claude:{self._model}"

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Generator[Event, None, Message]:
        request = to_wire(system, messages, tools)
        attempt = 0
        while True:
            attempt += 1
            shown = False
            try:
                with contextlib.closing(self._arriving(request)) as arriving:
                    for item in arriving:
                        if isinstance(item, Message):
                            return item
                        shown = True
                        yield item
            except _Failed as error:
                failed = error
            # What was shown cannot be taken back: an answer after half an answer would be two.
            pause = None if shown else self._pause(failed, attempt)
            if pause is None:
                raise self._final(failed, attempt, shown)
            yield Notice(f"{failed.text}; trying again in {pause:.3g} s ({attempt} of {self._retries})")
            self._sleep(pause)

    def _pause(self, failed: _Failed, attempt: int) -> float | None:
        """Seconds until the next attempt; None if there is to be none."""
        if not failed.passes or attempt > self._retries:
            return None
        if failed.wait is None:
            return float(2 ** (attempt - 1))
        # Asking before the time that the server named would only be refused again.
        return failed.wait if failed.wait <= self._longest_wait else None

    def _final(self, failed: _Failed, attempt: int, shown: bool) -> ChatError:
        text = failed.text
        if shown:
            text = f"the answer broke off: {text}; ask again"
        elif failed.wait is not None and failed.wait > self._longest_wait:
            text += f"; it asks to wait {failed.wait:.0f} s"
        elif attempt > 1:
            text += f"; tried {attempt} times"
        return failed.kind(text + failed.remedy)

    def _arriving(self, request: dict[str, Any]) -> Generator[Event | Message, None, None]:
        """One attempt; everything that can go wrong on the way is a _Failed."""
        import anthropic
        import httpx2

        try:
            with self._connected().messages.create(
                model=self._model, max_tokens=self._max_tokens, stream=True, **request
            ) as response:
                for item in from_wire(_plain(event) for event in response):
                    if isinstance(item, Message) and item.stop == "refused":
                        yield Notice(f"{self._model} declines to answer this")
                    yield item
        except anthropic.APIStatusError as error:
            raise self._refused(error) from None
        except anthropic.APITimeoutError as error:
            connecting = isinstance(error.__cause__, httpx2.ConnectTimeout)
            raise self._unreachable("no connection") if connecting else self._stalled() from None
        except anthropic.APIConnectionError as error:
            raise self._unreachable(str(error.__cause__ or error)) from None
        except httpx2.TimeoutException:
            raise self._stalled() from None
        except httpx2.HTTPError as error:
            raise self._failed(f"{self._where} hung up ({one_line(error)})", passes=True) from None
        except EOFError:
            raise self._failed(f"{self._where} hung up", passes=True) from None
        except (ValueError, anthropic.APIResponseValidationError) as error:
            raise self._malformed(error) from None

    def _connected(self) -> anthropic.Anthropic:
        if self._client is None:
            guard_logs()
            import anthropic
            import httpx2

            timeout = anthropic.Timeout(self._stall_timeout, connect=self._connect_timeout)
            # The SDK's own HTTP client takes the proxies of the environment whatever it is told; a plain one does not.
            plain = httpx2.Client(timeout=timeout, **self._server.options) if self._server.loopback else None
            # The SDK's own retries would be silent; those of `stream` are announced.
            self._client = anthropic.Anthropic(
                api_key=self._key, base_url=self._server.url, max_retries=0, timeout=timeout, http_client=plain
            )
        return self._client

    def _failed(self, text: str, **more: Any) -> _Failed:
        return _Failed(one_line(text), **more)

    def _unreachable(self, reason: str) -> _Failed:
        remedy = "; is the server running?" if self._server.loopback else "; check the network"
        return self._failed(f"cannot reach {self._where} ({one_line(reason)})", passes=True, remedy=remedy)

    def _stalled(self) -> _Failed:
        return self._failed(f"nothing from {self._where} for {self._stall_timeout:g} s", passes=True)

    def _malformed(self, error: Exception) -> _Failed:
        what = f"what {self._where} sends is not what Anthropic sends ({one_line(error)})"
        return self._failed(what, remedy="; check ANTHROPIC_BASE_URL, or whether the network wants a sign-in")

    def _refused(self, error: anthropic.APIStatusError) -> _Failed:
        """The failure for a status, or for an error in mid-stream."""
        status = error.status_code
        if status < 400:
            status = _STATUS_OF.get(str(error.type), status)
        said = one_line(error.api_message or error.type or _first_text(error.body))
        if status in (400, 413) and _is_too_long(status, said):
            remedy = "; start a new conversation or say less at once"
            text = f"the conversation is too long for {self._model} ({said})"
            return self._failed(text, kind=TooLongError, remedy=remedy)
        if status == 402 or "credit balance" in said:
            return self._failed(f"Anthropic wants payment first: {said}")
        if status == 401:
            remedy = "; check ANTHROPIC_API_KEY"
            return self._failed(f"the key was refused by {self._where} (401)", remedy=remedy)
        if status == 403:
            return self._failed(f"the key may not use {self._model} (403): {said}")
        if status == 404:
            return self._missing(error, said)
        passes = status in _PASSING or status >= 500
        if (wish := error.response.headers.get("x-should-retry")) in ("true", "false"):
            passes = wish == "true"
        return self._failed(
            f"{_manner(status)} ({status}): {said}" if said else f"{_manner(status)} ({status})",
            passes=passes,
            wait=wait_asked(error.response.headers, time.time()),
        )

    def _missing(self, error: anthropic.APIStatusError, said: str) -> _Failed:
        if error.type != "not_found_error":
            return self._failed(f"no /v1/messages at {self._where} (404)", remedy="; check ANTHROPIC_BASE_URL")
        near = nearest(self._model, [*KNOWN_MODELS, *self._models()])
        return self._failed(f"no model '{self._model}' at {self._where}; there are: {', '.join(near)}")

    def _models(self) -> list[str]:
        """The names that the server has; none if it does not say."""
        import anthropic
        import httpx2

        asking = self._connected().with_options(timeout=3.0)
        try:
            return [model.id for model in asking.models.list(limit=100).data]
        except (anthropic.APIError, httpx2.HTTPError, ValueError, TypeError, AttributeError):
            # A suggestion is not worth an error of its own, and other servers answer this in other shapes.
            return []


class _Failed(Exception):
    """Why an attempt came to nothing; one that `passes` is worth another, after `wait` seconds if the server said."""

    def __init__(
        self,
        text: str,
        *,
        passes: bool = False,
        wait: float | None = None,
        remedy: str = "",
        kind: type[ChatError] = ChatError,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.passes = passes
        self.wait = wait
        self.remedy = remedy
        self.kind = kind


def to_wire(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The request's body but for model and settings; three cache marks at most, of the four that are allowed."""
    turns = [turn for message in messages if (turn := _turn(message))["content"]]
    _mark_newest(turns)
    request: dict[str, Any] = {"messages": turns}
    if system:
        request["system"] = [{"type": "text", "text": system, **_MARK}]
    if tools:
        specs = [{"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in tools]
        specs[-1] |= _MARK
        request["tools"] = specs
    cleaned: dict[str, Any] = encodable(request)
    return cleaned


def from_wire(events: Iterable[Any]) -> Iterator[Event | Message]:
    """What is to be shown, as it arrives, and the finished turn as the last item.

    Raises ValueError for events of another shape, EOFError if they end before the turn does.
    """
    turn = _Turn()
    for event in map(encodable, events):
        if shown := turn.add(event):
            yield shown
        if turn.finished:
            break
    yield turn.message()


class _Turn:
    """The assistant's turn while it arrives: blocks by their index; the JSON of arguments comes in pieces."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, str] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._begun = False
        self.finished = False

    def add(self, event: Any) -> Event | None:
        """Take in one event; what it gives to show, if anything."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._begun = True
                self._count(message.get("usage"))
            case {"type": "content_block_start", "index": int(index), "content_block": {"type": str()} as block}:
                self._blocks[index] = dict(block)
                return _shown(block)
            case {"type": "content_block_delta", "index": int(index), "delta": {"type": str(kind)} as delta}:
                self._extend(index, kind, delta)
                return _shown(delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._stop = str(delta.get("stop_reason") or self._stop)
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self.finished = True
            case {"type": str(kind)} if kind not in _TOLD:
                pass  # the end of a block says nothing new, and Anthropic adds kinds of events within a version
            case _:
                raise ValueError(f"an event {one_line(event)[:60]}")
        return None

    def _extend(self, index: int, kind: str, delta: Mapping[str, Any]) -> None:
        if index not in self._blocks:
            raise ValueError(f"a piece of block {index}, which never began")
        if kind == "input_json_delta":
            self._arguments[index] = self._arguments.get(index, "") + str(delta.get("partial_json") or "")
        elif field := _FIELDS.get(kind):
            block = self._blocks[index]
            block[field] = (block.get(field) or "") + str(delta.get(field) or "")

    def _count(self, usage: object) -> None:
        """Counts are totals so far: a later one replaces an earlier one."""
        if isinstance(usage, dict):
            self._usage |= {name: count for name, count in usage.items() if isinstance(count, int)}

    def message(self) -> Message:
        if not self._begun:
            raise ValueError("no message")
        if not self.finished:
            raise EOFError
        calls = []
        content = []
        for index, block in sorted(self._blocks.items()):
            if block["type"] == "tool_use":
                calls.append(_call(block, self._arguments.get(index, "")))
                block["input"] = calls[-1].arguments
            # An empty text may come but must not be sent back: the API refuses it.
            if block["type"] != "text" or str(block.get("text") or "").strip():
                content.append(block)
        return Message(
            role="assistant",
            text="".join(block["text"] for block in content if block["type"] == "text"),
            calls=tuple(calls),
            raw={"provider": "claude", "content": content},
            usage=Usage(**{ours: self._usage.get(theirs, 0) for ours, theirs in _COUNTS.items()}),
            stop=_STOPS.get(self._stop, "end"),
        )


def _call(block: Mapping[str, Any], text: str) -> ToolCall:
    """Arguments come in pieces of JSON, or whole in the block from servers that do not cut them."""
    identity = {"id": str(block.get("id", "")), "name": str(block.get("name", ""))}
    try:
        value = json.loads(text, parse_constant=_no_constant) if text.strip() else block.get("input") or {}
    except (ValueError, RecursionError):
        return ToolCall(**identity, arguments={}, malformed=text)
    if not isinstance(value, dict):
        return ToolCall(**identity, arguments={}, malformed=text or json.dumps(value))
    return ToolCall(**identity, arguments=encodable(value))


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _shown(piece: Mapping[str, Any]) -> Event | None:
    if text := piece.get("text"):
        return Text(str(text))
    if thought := piece.get("thinking"):
        return Thinking(str(thought))
    return None


def _turn(message: Message) -> dict[str, Any]:
    """Content is always a list of blocks, so that a turn is the same bytes with and without the mark."""
    if message.role == "assistant":
        return {"role": "assistant", "content": _assistant(message)}
    if message.role == "tool":
        return {"role": "user", "content": [_result(answer) for answer in message.answers]}
    return {"role": "user", "content": [{"type": "text", "text": message.text}] if message.text.strip() else []}


def _assistant(message: Message) -> list[dict[str, Any]]:
    if message.raw.get("provider") == "claude":
        return list(message.raw["content"])
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return text + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls
    ]


def _result(answer: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": answer.call_id, "content": answer.content}
    return {**block, "is_error": True} if answer.is_error else block


def _mark_newest(turns: list[dict[str, Any]]) -> None:
    for turn in reversed(turns):
        if turn["role"] == "user":
            turn["content"][-1] |= _MARK
            return


def _plain(event: Any) -> Any:
    """The event as the JSON that it was; what the SDK could not make an event of stays as it is."""
    return event.to_dict(mode="json", warnings=False) if hasattr(event, "to_dict") else event


def usable_key(key: str | None) -> str:
    """The key without the line end of the file it came from. What no header can carry is refused unseen."""
    key = (key or "").strip()
    if not key:
        raise ChatError("Claude needs a key: set ANTHROPIC_API_KEY, or choose another model with TARS_MODEL")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ChatError("ANTHROPIC_API_KEY has characters that no key has; copy it again")
    return key


def _at(base_url: str) -> Server:
    where = server(base_url, setting="ANTHROPIC_BASE_URL", problem=ChatError)
    if "://" not in base_url or where.authorization:
        raise ChatError("ANTHROPIC_BASE_URL must be written as https://name, without user name and password")
    return where


def wait_asked(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds from the header Retry-After, which has a number or a date.

    >>> wait_asked({"retry-after": "1.5"}, 0.0)
    1.5
    """
    text = headers.get("retry-after") or ""
    try:
        seconds = float(text)
    except ValueError:
        parsed = email.utils.parsedate_tz(text)
        seconds = email.utils.mktime_tz(parsed) - now if parsed else math.nan
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _is_too_long(status: int, said: str) -> bool:
    return status == 413 or "prompt is too long" in said or "exceed context limit" in said


def _manner(status: int) -> str:
    manners = {429: "Anthropic limits the rate of requests", 529: "Anthropic is overloaded"}
    return manners.get(status, "Anthropic failed" if status >= 500 else "Anthropic refused the request")


def _first_text(body: object) -> str:
    return body if isinstance(body, str) and not body.lstrip().startswith("<") else ""
