"""What a request must look like, whatever happened before it; asserted on what a server received."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from servers import Request

SAID = ("text", "tool_result")


def without_marks(value: Any) -> Any:
    """A request, or a part of one, but for the marks that tell Anthropic what to keep in its cache."""
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def marks(value: Any) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(marks, value.values()))
    return sum(map(marks, value)) if isinstance(value, list) else 0


def assert_well_formed(request: Request) -> None:
    """The turns alternate, every tool_use is answered in the next turn and nothing else is, no text is empty."""
    turns = request.body["messages"]
    assert [turn["role"] for turn in turns] == [("user", "assistant")[at % 2] for at in range(len(turns))]
    assert turns[-1]["role"] == "user"
    asked: list[str] = []
    for turn in turns:
        assert turn["content"], "an empty turn"
        assert all(block["text"].strip() for block in turn["content"] if block["type"] == "text")
        assert [b["tool_use_id"] for b in turn["content"] if b["type"] == "tool_result"] == asked
        asked = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
    assert not asked


def assert_same_beginning(requests: list[Request]) -> None:
    """Each request is the one before it and more: what a provider has in its cache is never lost."""
    for before, after in pairwise(requests):
        assert before.body["system"] == after.body["system"]
        assert before.body.get("tools") == after.body.get("tools")
        earlier = without_marks(before.body["messages"])
        assert without_marks(after.body["messages"])[: len(earlier)] == earlier
    assert all(marks(request.body) <= 4 for request in requests)


def texts(request: Request) -> list[str]:
    """Everything said and answered in a request, in order."""
    blocks = [block for turn in request.body["messages"] for block in turn["content"]]
    return [block["text"] if block["type"] == "text" else block["content"] for block in blocks if block["type"] in SAID]


def prompt(request: Request) -> str:
    return "".join(block["text"] for block in request.body["system"])
