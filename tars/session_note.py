"""The note that remembers a conversation: what the person said, never what was quoted from memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from tars import facts
from tars.chat import Message
from tars.search.query import content_words
from tars.sessions import is_summary

MOST_LINES, MOST_CHARS = 8, 300
ECHO_WORDS = 6  # words in a row that a line shares with what was quoted from memory, for it to be an echo
FORGOTTEN_SHARE = 0.6  # of the telling words of what was forgotten, for a line to be about it
NAME_WORDS = 4
REQUEST = """\
Write the note that will remember this conversation: 1 to 8 short bullet points of what the person said, decided or \
asked to have done, in the third person, so that it is understood a year from now. Leave out greetings, questions, \
what they asked to have forgotten, and whatever was only read from the notes: for that give just its path:line. \
No heading. If nothing is worth keeping write NOTHING."""

QUESTION = re.compile(
    r"""\?\W*$
      | ^(?:who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|would|should)\b
      | ^(?:please\s+)?(?:tell|show|find|remind|give|list|search|look|explain|summari[sz]e|forget)\b
      | ^\W*(?:the\s+(?:person|user)|they|he|she)\s+(?:also\s+)?(?:asked|wanted\s+to\s+know|wondered|inquired)\b
        (?!\s+(?:\w+\s+)?to\b)""",
    re.IGNORECASE | re.VERBOSE,
)
GREETING = re.compile(
    r"""\W*(?:
          (?:hi|hello|hey|thanks|thank\s+you|(?:good)?bye|good\s+(?:morning|afternoon|evening|night))(?:[\s,]+\w+){0,2}
        | ok(?:ay)?|yes|no|great|nice|cool|sure
        )\W*""",
    re.IGNORECASE | re.VERBOSE,
)
PERSON = re.compile(r"(?:remember|i|we|my|our)\b", re.IGNORECASE)
SENTENCE_WORDS = 4  # fewer without a full stop are no sentence, unless a person is its subject
BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
LINE_NUMBER = re.compile(r"^\d+\t", re.MULTILINE)


def statements(messages: Sequence[Message]) -> list[str]:
    """What the person stated, not their greetings. A question as a note would be found when it is asked again."""
    said = (m.text for m in messages if m.role == "user" and not is_summary(m))
    sentences = (" ".join(part.split()) for text in said for part in re.split(r"(?<=[.!?])\s+|\n+", text))
    return [s for s in dict.fromkeys(sentences) if re.search(r"\w", s) and not asks(s) and not is_small(s)]


def is_small(sentence: str) -> bool:
    """A greeting, or a few words to search with.

    >>> [is_small(s) for s in ("hello there!", "boiler pressure", "I quit", "Sold the car.", "no walnuts for Tomasz")]
    [True, True, False, False, False]
    """
    few = len(sentence.split()) < SENTENCE_WORDS and sentence[-1] not in ".!"
    return GREETING.fullmatch(sentence) is not None or (few and PERSON.match(sentence) is None)


def asks(line: str) -> bool:
    return QUESTION.search(line) is not None


def points(text: str) -> list[str]:
    """The bullet points of what a model wrote."""
    if text.strip(".*_- \n").upper() == "NOTHING":
        return []
    lines = (BULLET.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line) and not line.startswith("#") and not asks(line)]


def worth_keeping(lines: Sequence[str], *, quoted: str, forgotten: Sequence[str]) -> list[str]:
    """Without what repeats the memory, which would feed on itself, and without what was to be forgotten."""
    known = grams(quoted)
    lines = [line for line in map(facts.one_line, lines) if line]
    kept = [line for line in lines if not grams(line) & known and not any(is_about(line, text) for text in forgotten)]
    return [line[:MOST_CHARS] for line in kept][:MOST_LINES]


def is_about(line: str, forgotten: str) -> bool:
    telling = set(content_words(forgotten))
    return bool(telling) and len(telling & set(words(line))) >= FORGOTTEN_SHARE * len(telling)


def grams(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[at : at + ECHO_WORDS]) for at in range(len(found) - ECHO_WORDS + 1)}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def quoted_in(messages: Iterable[Message]) -> str:
    """The texts in the answers of tools, as they stand in the notes."""
    texts = (text for m in messages for answer in m.answers for text in texts_in(answer.content))
    return "\n".join(LINE_NUMBER.sub("", text) for text in texts)


def texts_in(content: str) -> Iterator[str]:
    try:
        yield from strings(json.loads(content))
    except ValueError:
        yield content


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def name_of(lines: Sequence[str], now: datetime) -> str:
    """A name that tells something in a list of files.

    >>> name_of(["The lead comes out of the keys."], datetime(2026, 4, 6))
    'sessions/2026-04-06-lead-comes-keys'
    """
    telling = content_words(lines[0])[:NAME_WORDS]
    return "-".join([f"sessions/{now:%Y-%m-%d}", *(word[:20] for word in telling)])


def note_text(session_id: str, lines: Sequence[str], sources: Sequence[str], now: datetime, *, private: bool) -> str:
    """The note. Its sources are no part of its text: their names would be found when the question is asked again."""
    head = [f"date: {now:%Y-%m-%d}", f'time: "{now:%H:%M}"', "tags: [session]", f"session: {session_id}"]
    if private:
        head.append("private: true")
    if sources:
        head += ["sources:", *(f"  - {quoted_for_yaml(source)}" for source in sources)]
    title = f"# Conversation of {now.day} {now:%B %Y}, {now:%H:%M}"
    return "\n".join(["---", *head, "---", "", title, "", *(f"- {line}" for line in lines), ""])


def quoted_for_yaml(text: str) -> str:
    """Readable where YAML allows it; a few characters it takes only by their numbers, or not at all."""
    line = facts.one_line(text)
    return json.dumps(line, ensure_ascii=not line.isprintable())
