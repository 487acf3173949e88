"""A fact as one line of markdown, pure: it cannot become a heading, a bullet, metadata or a fence of its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from tars.chunker import PRIVATE
from tars.errors import TarsError

MAX_CHARS = 2_000
MAX_HEADING = 100

# A list item's mark, with its checkbox.
MARK = re.compile(r"\A\s*(?:[-*+]|[0-9]{1,9}[.)])(?:\s+(?:\[[^\[\]]\](?:\s+|\Z))?|\Z)")
# A mark that somebody wrote because facts are bullets; before a number it may be a sign.
OWN_MARK = re.compile(r"\A[-*]\s+(?=[^\W\d])")
# What begins a block: heading, list, rule or underline, quotation, fence, table, reference.
BLOCK = re.compile(
    r"\#{1,6}(?:\s|\Z)|[-*+](?:\s|\Z)|[-*_=][-*_=\s]*\Z|>|`{3}|~{3}|\||\[[^\[\]]+\]:",
)
NUMBER = re.compile(r"\A([0-9]{1,9})([.)])(?=\s|\Z)")
FIELD = re.compile(r"\A((?:\*\*)?\w{1,40}(?:\*\*)?)::(?=\s|\Z)")
BACKSLASHED = re.compile(r"\\([!-/:-@\[-`{-~])")
# They reorder the text around them or are not seen at all.
INVISIBLE = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
TRAILING = " .,;:!…"


def one_line(text: str) -> str:
    """Single spaces, no control characters, nothing that cannot be encoded."""
    kept = (c for c in text if c.isspace() or (c not in INVISIBLE and unicodedata.category(c) not in ("Cc", "Cs")))
    return " ".join("".join(kept).split())


def as_fact(text: str) -> str:
    """The text as a list item or a line of a paragraph may hold it.

    >>> as_fact("# a\\n- b"), as_fact("- I like tea"), as_fact("1. - [[c]]"), as_fact("private:: true")
    ('\\\\# a - b', 'I like tea', '1\\\\. - [[c]]', 'private\\\\:: true')
    """
    text = OWN_MARK.sub("", one_line(text))
    if not bare(text):
        raise TarsError("there is no fact in it; give one sentence")
    if len(text) > MAX_CHARS:
        raise TarsError(f"a fact is one sentence, at most {MAX_CHARS:,} characters, and this has {len(text):,}")
    text = without_tags(text)
    if BLOCK.match(text):
        return "\\" + text
    return FIELD.sub(r"\1\\::", NUMBER.sub(r"\1\\\2", text))


def as_heading(text: str) -> str:
    """The text as the name of a section, empty if there is none in it."""
    name = without_tags(one_line(text).strip("# ")[:MAX_HEADING])
    return name if bare(name) else ""


def without_tags(text: str) -> str:
    """The text with nothing that would hide or reveal what stands around it; <private>…</private> stays."""
    if not is_balanced(text):
        text = PRIVATE.sub(lambda tag: "&lt;" + tag[0][1:], text)
    return text.replace("<!--", "&lt;!--")


def is_balanced(text: str) -> bool:
    """Whether every <private> in the text is closed in it, and nothing else is."""
    depth = 0
    for tag in PRIVATE.finditer(text):
        depth += -1 if tag[1] else 1
        if depth < 0:
            return False
    return depth == 0


def without_mark(line: str) -> str:
    """A line without its indentation, bullet and checkbox."""
    return MARK.sub("", line).strip()


def bare(text: str) -> str:
    """What of a text counts when two are compared: not its escapes, white space and last punctuation."""
    text = BACKSLASHED.sub(r"\1", unicodedata.normalize("NFC", text)).replace("&lt;", "<")
    return " ".join(text.split()).rstrip(TRAILING)


def readings(text: str) -> set[str]:
    """What a line may say that somebody quotes with or without its bullet."""
    line = one_line(text)
    return {bare(without_mark(line)), bare(without_mark(f"- {line}"))} - {""}


def nearest(text: str, lines: Sequence[str], limit: int) -> list[int]:
    """Which lines share the most words with the text: their places, best first."""
    wanted = words_of(text)
    words = [words_of(line) for line in lines]
    likely = [at for at in range(len(lines)) if wanted & words[at]]
    return sorted(likely, key=lambda at: (-len(wanted & words[at]), len(words[at]), at))[:limit]


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
