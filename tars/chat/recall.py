"""Answers without a model: quotes the best sentences of what memory_search finds, and invents nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tars.chat import Event, Message, Text, ToolCall, ToolSpec
from tars.untrusted import unfenced

SEARCH = "memory_search"
PASSAGES = 6
QUOTATIONS = 6
GOOD_ENOUGH = 0.7  # of the best sentence's relevance
WEAK = 0.25  # confidence below which a passage is called the nearest rather than an answer

MARKUP = re.compile(r"^\s*(?:[-*+]\s+|\d+[.)]\s+|>\s*)*(?:\[[ xX]\]\s+)?")
HEADING = re.compile(r"^\s*#{1,6}\s")
NOT_PROSE = re.compile(r"^\s*(?:```|~~~|\|?\s*:?-{2,}|</?private>|---)", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\w\"'(\[*])")

Relevance = Callable[[str, Sequence[str]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Quotation:
    """A sentence of a note, and where it stands."""

    text: str
    path: str
    line: int
    note_rank: int


class Passage(NamedTuple):
    path: str
    line: int
    text: str


class Recall:
    """A provider like the others: it asks for a search, then answers from what that gives."""

    name = "recall"
    leaves_machine = False
    context_tokens = 1_000_000
    uses_tools = True

    def __init__(self, relevance: Relevance) -> None:
        self.relevance = relevance

    def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Generator[Event, None, Message]:
        last = messages[-1]
        if last.role == "user" and any(tool.name == SEARCH for tool in tools):
            call = ToolCall(f"recall-{len(messages)}", SEARCH, {"query": last.text, "limit": PASSAGES})
            return Message("assistant", calls=(call,), stop="tools")
        question = next((m.text for m in reversed(messages) if m.role == "user"), "")
        text = self._answer(question, last) if last.role == "tool" else "There is no model to answer, and no memory."
        yield Text(text)
        return Message("assistant", text, stop="end")

    def _answer(self, question: str, found: Message) -> str:
        answer = json.loads(found.answers[0].content)
        if "error" in answer:
            return f"Your notes could not be searched: {answer['error']}"
        results = answer.get("results", [])
        if not results:
            return f"Your notes do not seem to say. {reason_of(answer)}".strip()
        passages = [passage_of(result) for result in results]
        quotations = self._best(question, passages)
        strong = max(result.get("confidence", 0.0) for result in results) >= WEAK
        opening = "From your notes:" if strong else "Your notes may not say. The nearest they have:"
        return "\n".join([opening, "", *(f"- “{q.text}” ({q.path}:{q.line})" for q in quotations)])

    def _best(self, question: str, passages: Sequence[Passage]) -> list[Quotation]:
        """The most relevant sentences, each once, note by note in reading order."""
        sentences = unique(quotable(passages))
        if not sentences:
            return [Quotation(p.text.strip()[:300], p.path, p.line, rank) for rank, p in enumerate(passages[:2])]
        scores = self.relevance(question, [sentence.text for sentence in sentences])
        ranked = sorted(zip(sentences, scores, strict=True), key=lambda pair: (-pair[1], pair[0].note_rank))
        least = GOOD_ENOUGH * ranked[0][1]
        chosen = [sentence for sentence, score in ranked[:QUOTATIONS] if score >= least]
        announced = [after for sentence in chosen for after in announced_by(sentence, sentences)]
        return sorted({*chosen, *announced}, key=lambda q: (q.note_rank, sentences.index(q)))[: 2 * QUOTATIONS]


def reason_of(answer: dict[str, Any]) -> str:
    reason = answer.get("empty_reason") or {}
    message = reason.get("message", "") if isinstance(reason, dict) else str(reason)
    return f"({message})" if message else ""


def passage_of(result: dict[str, Any]) -> Passage:
    return Passage(result["path"], int(result["lines"].split("-")[0]), unfenced(result["content"]))


def quotable(passages: Sequence[Passage]) -> list[Quotation]:
    """The sentences of the passages, without markup, each with its line."""
    notes = list(dict.fromkeys(passage.path for passage in passages))
    out: list[Quotation] = []
    for passage in passages:
        for line, text in enumerate(passage.text.split("\n"), passage.line):
            if HEADING.match(text) or NOT_PROSE.match(text):
                continue
            for sentence in SENTENCE_END.split(MARKUP.sub("", text, count=1).strip()):
                if re.search(r"\w", sentence):
                    out.append(Quotation(sentence.strip(), passage.path, line, notes.index(passage.path)))
    return out


def announced_by(sentence: Quotation, sentences: Sequence[Quotation]) -> list[Quotation]:
    """What follows a sentence that ends with a colon, and means nothing without it."""
    if not sentence.text.rstrip("*_ ").endswith(":"):
        return []
    out: list[Quotation] = []
    line = sentence.line
    for following in sentences[sentences.index(sentence) + 1 :][:QUOTATIONS]:
        if following.path != sentence.path or not line <= following.line <= line + 2:
            break
        out.append(following)
        line = following.line
    return out


def unique(quotations: Sequence[Quotation]) -> list[Quotation]:
    """The first of those that say the same."""
    seen: dict[str, Quotation] = {}
    for quotation in quotations:
        seen.setdefault(" ".join(re.findall(r"\w+", quotation.text.lower())), quotation)
    return list(seen.values())
