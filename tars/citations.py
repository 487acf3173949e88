"""Citations in a text: `path.md:12`, `path.md:12-15`. Pure; knows neither terminal nor index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

# A note's path without white space, then its lines. The look-behind keeps the tail of an address on the web or
# of a longer word from being taken for a note; what opens a bracket, a quotation or an emphasis is no part of it.
_FOUND = re.compile(
    r"""(?<![\w/.:])
        (?P<path>[^\s/:`*,;()\[\]<>{}"'|«»“”‘’„][^\s:`\[\]<>"|*]{0,300}?\.md)
        :(?P<start>[0-9]{1,7})(?:[-–](?P<end>[0-9]{1,7}))?
        (?![0-9A-Za-z])""",
    re.VERBOSE | re.IGNORECASE,
)

# Which lines of which notes were shown: path -> (first, last), counted from 1, both included.
Shown = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Citation:
    """Lines of a note (counted from 1, both included), and where in the text they are named."""

    path: str
    start: int
    end: int
    span: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.path}:{self.start}" + (f"-{self.end}" if self.end != self.start else "")


def find(text: str) -> list[Citation]:
    """The citations of a text, in order.

    >>> [str(c) for c in find("See [home/boiler.md:12-14], not at 10:30.")]
    ['home/boiler.md:12-14']
    """
    return [Citation(m["path"], int(m["start"]), int(m["end"] or m["start"]), m.span()) for m in _FOUND.finditer(text)]


def resolve(citation: Citation, shown: Shown) -> Citation | None:
    """The citation with its full path if its first and last line were shown, else None.

    Of a path with blanks only the last word was found; where words are written without blanks, too much was; and
    some models leave the folder out. Any of these will do, as long as one note alone can be meant.
    """
    cited = citation.path.removeprefix("./")
    if _covers(shown.get(cited, ()), citation):
        return replace(citation, path=cited)
    meant = [path for path, lines in shown.items() if _may_mean(cited, path) and _covers(lines, citation)]
    return replace(citation, path=meant[0]) if len(meant) == 1 else None


def _covers(lines: Sequence[tuple[int, int]], citation: Citation) -> bool:
    return all(any(first <= line <= last for first, last in lines) for line in (citation.start, citation.end))


def _may_mean(cited: str, path: str) -> bool:
    if path.endswith(cited):
        return not path.removesuffix(cited)[-1:].isalnum()
    return cited.endswith(path) and not cited.removesuffix(path).isascii()


def check(citations: Iterable[Citation], shown: Shown) -> list[tuple[Citation, bool]]:
    """Each citation, with its full path where that is known, and whether it was shown."""
    return [(resolve(c, shown) or c, resolve(c, shown) is not None) for c in citations]
