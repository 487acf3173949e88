"""The text of a note and its structure by line, pure: the same headings, items and fences that the index sees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from tars import facts
from tars.chunker import FENCE, HEADING, ITEM, Block, find_blocks, heading_name
from tars.errors import TarsError
from tars.frontmatter import read_frontmatter
from tars.memory import private_lines

LINE_END = re.compile(r"(\r\n|\r|\n)")
RULE = re.compile(r"[-*_=+.|:\s]*")  # rules, underlines, table borders, the ends of frontmatter


class Line(NamedTuple):
    """A line and what ends it: nothing, if the note ends without a newline."""

    text: str
    end: str


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note as it was read; `stamp` is the hash of its bytes, None if there was no such file."""

    path: str
    text: str
    bom: bytes
    encoding: str
    stamp: str | None

    @property
    def lines(self) -> list[Line]:
        parts = LINE_END.split(self.text)
        lines = [Line(*pair) for pair in zip(parts[::2], [*parts[1::2], ""], strict=True)]
        return lines if lines[-1].text else lines[:-1]

    @property
    def newline(self) -> str:
        """What most lines end with."""
        ends = Counter(LINE_END.findall(self.text))
        return ends.most_common(1)[0][0] if ends else "\n"

    def encode(self, lines: Iterable[Line]) -> bytes:
        return self.bom + "".join(line.text + line.end for line in lines).encode(self.encoding)


@dataclass(frozen=True, slots=True)
class NoteLine:
    """A line of a note that says something (counted from 1), without its bullet."""

    path: str
    line: int
    text: str
    private: bool


class Outline:
    """What each line of a note is, and what belongs together. Lines are counted from 0 here."""

    def __init__(self, note: NoteText) -> None:
        self.note, self.lines = note, note.lines
        self.texts = [line.text for line in self.lines]
        whole = "\n".join(self.texts)
        body = read_frontmatter(whole)[1]
        self.blocks = list(find_blocks(self.texts, body))
        self.private = private_lines(whole)
        self.kinds = [""] * len(self.texts)
        for block in self.blocks:
            self.kinds[block.first : block.last + 1] = [block.kind] * (block.last + 1 - block.first)

    def facts(self) -> list[int]:
        """The lines that say something: not blank or a rule, no heading, frontmatter or fence."""
        spoken = (at for at, kind in enumerate(self.kinds) if kind not in ("", HEADING, FENCE))
        return [at for at in spoken if not RULE.fullmatch(self.texts[at])]

    def shown(self, at: int) -> NoteLine:
        return NoteLine(self.note.path, at + 1, facts.without_mark(self.texts[at]), at + 1 in self.private)

    def said(self, first: int, last: int) -> str:
        """What some lines say together, the first without its bullet."""
        return " ".join([facts.without_mark(self.texts[first]), *map(str.strip, self.texts[first + 1 : last + 1])])

    def wrapped(self, at: int) -> int:
        """The last line of the paragraph that an item begins with."""
        if not facts.MARK.match(self.texts[at]):
            return at
        rest = range(at + 1, len(self.texts))
        return max(takewhile(lambda i: self._continues(i) and self.kinds[i] == ITEM, rest), default=at)

    def _continues(self, at: int) -> bool:
        text = self.texts[at]
        return text[:1].isspace() and bool(text.strip()) and not facts.MARK.match(text)

    def extent(self, at: int) -> int:
        """The last line of an item with all that is indented below it; of another line, itself."""
        if not facts.MARK.match(self.texts[at]):
            return at
        column, last = text_column(self.texts[at]), at
        for i in range(at + 1, len(self.texts)):
            if not self.texts[i].strip():
                continue
            # A line right below may be indented less than the text and still go on with it; no new item may.
            starts_anew = i > last + 1 or self._is_item(i)
            if indent(self.texts[i]) < (column if starts_anew else 1):
                break
            last = i
        # A fence is taken whole or not at all.
        cut = [b.first for b in self.blocks if b.kind == FENCE and at < b.first <= last < b.last]
        return self._last_filled(at, cut[0]) if cut else last

    def _is_item(self, at: int) -> bool:
        return self.kinds[at] != FENCE and bool(facts.MARK.match(self.texts[at]))

    def section(self, name: str) -> Block | None:
        """The heading of that name."""
        wanted = facts.bare(name).casefold()
        named = (b for b in self.headings() if facts.bare(heading_name(self.texts[b.first])).casefold() == wanted)
        return next(named, None)

    def headings(self) -> list[Block]:
        return [block for block in self.blocks if block.kind == HEADING]

    def end_of(self, heading: Block) -> int:
        """Where the text right below a heading ends and the next heading, or nothing, follows."""
        return next((b.first for b in self.headings() if b.first > heading.last), len(self.texts))

    def _last_filled(self, first: int, end: int) -> int:
        return max((at for at in range(first, end) if self.texts[at].strip()), default=first)

    def place_below(self, heading: Block) -> int:
        """Where a new item goes: after the last filled line, a blank line apart from a bare heading."""
        end = self.end_of(heading)
        last = self._last_filled(heading.last, end)
        return last + 1 if last > heading.last or last + 1 == end else last + 2

    def check_open_fence(self, at: int) -> None:
        """A fence that is never closed would swallow what is written below it."""
        for kind, first, last, _ in self.blocks[-1:]:
            if kind != FENCE or at <= first or closes(self.texts[first], self.texts[first + 1 : last + 1]):
                return
            place = f"{self.note.path}:{first + 1}"
            raise TarsError(f"the code fence that begins at {place} is not closed; close it first")


def closes(opening: str, rest: list[str]) -> bool:
    """Whether the last of the lines closes the fence."""
    mark = opening.strip()
    mark = mark[: len(mark) - len(mark.lstrip(mark[0]))]
    end = rest[-1].strip() if rest else ""
    return end.startswith(mark) and not end.strip(mark[0])


def indent(text: str) -> int:
    return width(text[: len(text) - len(text.lstrip())])


def width(text: str) -> int:
    return len(text.expandtabs(4))


def text_column(line: str) -> int:
    """Where the text of an item begins, and so what belongs to it; five blanks after the mark are its own."""
    found = re.match(r"(\s*)(\S+)(\s*)", line)
    assert found, "an item has a mark"
    gap = width(found[0]) - width(found[1] + found[2])
    return width(found[1] + found[2]) + (gap if 1 <= gap <= 4 else 1)
