"""A text to be found in all the ways that a file may spell it, pure: letter case, accents, white space, escapes."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

FEWEST = 4  # characters; less stands in every second note
INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
MARKS = "[\u0300-\u036f]"
CLUSTER = re.compile(rf".{MARKS}*", re.DOTALL)
SPACE = r"(?:\s|\\+[nrt]|&nbsp;)"
# Between two words there may be the end of a line, then the marks of a quotation, or the number of the next line.
GAP = rf"{SPACE}+(?:>{SPACE}*)*(?:\d+(?:\t|\\+t){SPACE}*)?"


def folded(text: str) -> str:
    """What of a text counts when copies of it are looked for.

    >>> folded("Caf\\u00e9") == folded("CAFE\\u0301")
    True
    """
    if text.isascii():
        return text.lower()
    text = INVISIBLE.sub("", text)
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def folded_with_places(text: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """The folded text, and from where to where in the text each of its characters comes from.

    A letter is folded with all its marks: folding may change the order of these.
    """
    if text.isascii():
        return text.lower(), [(at, at + 1) for at in range(len(text))]
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and goes_with_letter(text[end]):
            end += 1
        parts.append(folded(text[start:end]))
        places += [(start, end)] * len(parts[-1])
        start = end
    return "".join(parts), places


def goes_with_letter(character: str) -> bool:
    """Whether it is a mark of the letter before it, or nothing that is seen."""
    return bool(INVISIBLE.match(character) or unicodedata.combining(unicodedata.normalize("NFD", character)[0]))


class Sought:
    """The text; `in` tells whether another text holds it."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(INVISIBLE.sub("", text).split())  # what nobody sees is no word, and none is in every text
        self.length = len(folded(self.text))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        words = ("".join(map(spelled, CLUSTER.findall(word))) for word in folded(self.text).split())
        return re.compile(GAP.join(words) + f"(?!{MARKS})")

    def __contains__(self, text: str) -> bool:
        return self.pattern.search(folded(text)) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the text stands in another: first character and the one after the last."""
        if text not in self:
            return []
        plain, places = folded_with_places(text)
        found = (match.span() for match in self.pattern.finditer(plain))
        return [(places[start][0], places[end - 1][1]) for start, end in found]

    def sub(self, replacement: str, text: str, /) -> str:
        """The other text with something else in its place."""
        parts: list[str] = []
        at = 0
        for start, end in self.spans(text):
            parts += (text[at:start], replacement)
            at = end
        return "".join([*parts, text[at:]])

    def lines(self, text: str) -> Iterator[tuple[int, int]]:
        """First and last line of each copy, counted from 0."""
        starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
        for start, end in self.spans(text):
            yield bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1


def spelled(cluster: str) -> str:
    """A pattern for one folded character with its accents: as it is, or as JSON, HTML or markdown escape it."""
    if cluster.isascii() and (cluster.isalnum() or not cluster.isprintable()):
        return re.escape(cluster)
    if cluster.isascii():
        entities = {html.escape(cluster), f"&#{ord(cluster)};", f"&#x{ord(cluster):x};"} - {cluster}
        escaped = [rf"\\*{re.escape(cluster)}", *map(re.escape, sorted(entities)), rf"\\+u{ord(cluster):04x}"]
        return f"(?:{'|'.join(escaped)})"
    composed = unicodedata.normalize("NFC", cluster)
    written = {cluster, composed, cluster.upper(), unicodedata.normalize("NFC", cluster.upper())}
    escapes = {json.dumps(form)[1:-1].lower().replace("\\", r"\\+") for form in written}
    return f"(?:{'|'.join([re.escape(cluster), *sorted(escapes)])})"
