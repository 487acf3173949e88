"""Answers without a model: quotes the best sentences of what memory_search finds, and invents nothing."""

from __future__ import annotations

import json
import math
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
WEAK = 0.2  # chance of an answer among the passages below which they are called the nearest

MARKUP = re.compile(r"^\s*(?:[-*+]\s+|\d+[.)]\s+|>\s*)*(?:\[[ xX]\]\s+)?")
HEADING = re.compile(r"^\s*#{1,6}\s")
NOT_PROSE = re.compile(r"^\s*(?:```|~~~|\|?\s*:?-{2,}|</?private>|---)", re.IGNORECASE)
FIELD = re.compile(r"^\s*(?:[\w -]+::|\|)")  # `key:: value`, or a row of a table
ONLY_CITATION = re.compile(r"\W*(?:[^()]*\.md:[\d, –-]+)\W*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\w\"'(\[*])")

# What is told rather than asked. Whoever wonders or has forgotten asks, whatever the sentence looks like.
TOLD = re.compile(
    r"""^(?:please\s+)?(?:
          remember\b
        | (?:i|we)(?:['’]\w+)?\s
        | (?:my|our)\b.*\b(?:is|are|was|were|has|have|had|will|likes?|loves?|hates?|lives?|works?)\b
        )""",
    re.IGNORECASE | re.VERBOSE,
)
ASKED = re.compile(
    r"\?|\b(?:who|what|when|where|which|why|how|wonder|know|forgot|forget|find|whether)\b", re.IGNORECASE
)
HOW_TO_KEEP = "To keep what you said, use /remember here or `tars remember` in a shell: without a model I only quote."

OPENINGS = {  # by whether something was told, and whether the quotations are likely to be about it
    (False, True): "From your notes:",
    (False, False): "Your notes may not say. The nearest they have:",
    (True, True): "Your notes say about that:",
    (True, False): "Your notes may say nothing about that. The nearest they have:",
}

Relevance = Callable[[str, Sequence[str]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Quotation:
    """A sentence of a note, and where it stands."""

    text: str
    path: str
    line: int
    note_rank: int
    about: str = ""


class Passage(NamedTuple):
    path: str
    line: int
    text: str
    about: str = ""  # title and headings, for which its sentences have no words of their own


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
        results, told = answer.get("results", []), is_told(question)
        keep = ["", HOW_TO_KEEP] if told else []
        if not results:
            silence = "Your notes say nothing like that." if told else "Your notes do not seem to say."
            return "\n".join([f"{silence} {reason_of(answer)}".strip(), *keep])
        quotations = self._best(question, [passage_of(result) for result in results])
        sure = 1 - math.prod(1 - result.get("confidence", 0.0) for result in results) >= WEAK
        lines = [f"- “{q.text}” ({q.path}:{q.line})" for q in quotations]
        return "\n".join([OPENINGS[told, sure], "", *lines, *keep])

    def _best(self, question: str, passages: Sequence[Passage]) -> list[Quotation]:
        """The most relevant sentences, each once, note by note in reading order."""
        found = unique(quotable(passages))
        sentences = [sentence for sentence in found if not is_echo(sentence, question)] or found
        if not sentences:
            return [Quotation(p.text.strip()[:300], p.path, p.line, rank) for rank, p in enumerate(passages[:2])]
        alone = self.relevance(question, [sentence.text for sentence in sentences])
        in_place = self.relevance(question, [f"{sentence.about} {sentence.text}" for sentence in sentences])
        scores = [(a + b) / 2 for a, b in zip(alone, in_place, strict=True)]
        ranked = sorted(zip(sentences, scores, strict=True), key=lambda pair: (-pair[1], pair[0].note_rank))
        least = GOOD_ENOUGH * ranked[0][1]
        chosen = [sentence for sentence, score in ranked[:QUOTATIONS] if score >= least]
        announced = [after for sentence in chosen for after in announced_by(sentence, sentences)]
        return sorted({*chosen, *announced}, key=lambda q: (q.note_rank, sentences.index(q)))[: 2 * QUOTATIONS]


def is_echo(sentence: Quotation, question: str) -> bool:
    """Whether an earlier conversation says no more than was asked: words typed to find something, and kept."""
    said, asked = (set(re.findall(r"\w+", text.lower())) for text in (sentence.text, question))
    return sentence.path.startswith("sessions/") and said <= asked


def is_told(text: str) -> bool:
    """
    >>> [is_told(text) for text in ("I like tea", "my wifi password", "I wonder when it is due", "My cat is old.")]
    [True, False, False, True]
    """
    return TOLD.match(text) is not None and ASKED.search(text) is None


def reason_of(answer: dict[str, Any]) -> str:
    reason = answer.get("empty_reason") or {}
    message = reason.get("message", "") if isinstance(reason, dict) else str(reason)
    return f"({message})" if message else ""


def passage_of(result: dict[str, Any]) -> Passage:
    about = f"{result.get('title', '')} {result.get('heading', '')}"
    return Passage(result["path"], int(result["lines"].split("-")[0]), unfenced(result["content"]), about)


def quotable(passages: Sequence[Passage]) -> list[Quotation]:
    """The sentences of the passages, without markup, each with the line it begins in."""
    notes = list(dict.fromkeys(passage.path for passage in passages))
    return [
        Quotation(sentence, passage.path, line, notes.index(passage.path), passage.about)
        for passage in passages
        for paragraph in paragraphs(passage)
        for line, sentence in sentences_of(paragraph)
        if re.search(r"\w", sentence) and not ONLY_CITATION.fullmatch(sentence)
    ]


def paragraphs(passage: Passage) -> list[list[tuple[int, str]]]:
    """Lines that belong together, each with its number: a line that begins nothing new goes on with the last."""
    out: list[list[tuple[int, str]]] = []
    apart = True
    for line, text in enumerate(passage.text.split("\n"), passage.line):
        if not text.strip() or HEADING.match(text) or NOT_PROSE.match(text):
            apart = True
            continue
        mark = MARKUP.match(text)
        if apart or (mark and mark[0].strip()) or FIELD.match(text):
            out.append([])
        out[-1].append((line, MARKUP.sub("", text, count=1).strip()))
        apart = False
    return out


def sentences_of(paragraph: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Each sentence with the line it begins in."""
    starts, whole = [], ""
    for line, text in paragraph:
        whole += " " if whole else ""
        starts.append((len(whole), line))
        whole += text
    ends = [match.start() for match in SENTENCE_END.finditer(whole)]
    begins = [0, *(match.end() for match in SENTENCE_END.finditer(whole))]
    return [
        (max(line for start, line in starts if start <= begin), whole[begin:end].strip())
        for begin, end in zip(begins, [*ends, len(whole)], strict=True)
    ]


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
