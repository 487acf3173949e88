"""Markdown as it arrives → lines for a terminal. What was printed stays: nothing is ever drawn again.

Text goes out word by word; a word waits only for the end of the emphasis it is in. The same text gives the same
output however it was cut into pieces, and nothing in it can command the terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tars.citations import Citation, find

BOLD, DIM, ITALIC, STRUCK, CODE = "1", "2", "3", "9", "36"
UNKNOWN = "[?]"  # follows a citation of what the model was never shown
HELD_CHARS = 160  # how long an emphasis is waited for before its opening mark is taken for plain text

# Where a citation leads (an address, or "" for nowhere), or None if the model was never shown it.
Cite = Callable[[Citation], str | None]

_RUNS = frozenset(" -+*_`~")  # one more of the same leaves a line as undecided as it was
# What a line may begin with and still become a heading, an item, a rule or a fence.
_UNDECIDED = re.compile(r" *(?:#{1,6}|[-+*_]+|[0-9]{1,9}[.)]?|`+|~+)?")
_HEADING = re.compile(r" *#{1,6} ")
_ITEM = re.compile(r"( *)([-+*]|[0-9]{1,9}[.)]) ")
_QUOTE = re.compile(r" *>")
_TABLE = re.compile(r" *\|")
_FENCE = re.compile(r" *(`{3,}|~{3,})")
_RULE = re.compile(r" *([-*_])\1{2,} *")

_SPAN = re.compile(
    r"""\\(?P<escaped>[!-/:-@\[-`{-~])
      | (?P<ticks>(?<!`)`+)(?P<code>[^`].*?|[^`])(?<!`)(?P=ticks)(?!`)
      | (?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])(?P<starred>.+?)(?<=[^\s*])(?P=stars)(?!\*)
      | (?<![\w_])_(?=[^\s_])(?P<slanted>.+?)(?<=[^\s_])_(?![\w_])
      | (?<!~)~~(?=[^\s~])(?P<struck>.+?)(?<=[^\s~])~~(?!~)""",
    re.VERBOSE,
)
_OPENING = re.compile(r"`|(?<![\w*])\*{1,3}(?=[^\s*])|(?<![\w_])_(?=[^\s_])|(?<!~)~~(?=[^\s~])")

# Scripts that break a line between any two characters: ideographs and kana with their punctuation.
_IDEOGRAPHS = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff"
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_UNIT = re.compile(f"[{_IDEOGRAPHS}]|[^{_IDEOGRAPHS}]+")
_PAUSES = "、。，．！？：；）」』】》〉"  # end a phrase, and never begin a line


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one look: its style as SGR numbers, and the address it leads to."""

    text: str
    style: str = ""
    address: str = ""


def neutral(text: str) -> str:
    """The text without what could command the terminal or turn the order of its letters: that is spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_harmless(c) for c in text)


def _harmless(c: str) -> str:
    if c == "\t":
        return "    "
    if c == "\r":  # of a CRLF
        return ""
    # The joiners and marks of U+200C to U+200F belong to Persian, Hebrew and emoji; they stay.
    if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") or "\u200c" <= c <= "\u200f":
        return c
    return repr(c)[1:-1]


def columns(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(0, wcswidth(text))


def link(address: str, text: str) -> str:
    """A hyperlink as terminals know it (OSC 8)."""
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\"


class Markdown:
    """One text, from its first piece to its end.

    `width` is asked for each time, so that a resized window is noticed; 0 means never to break a line. Without
    `styled` there are no escape codes and the marks of markdown stay. `base` is the style everything has, `margin`
    begins every line.
    """

    def __init__(
        self, *, width: Callable[[], int], styled: bool, cite: Cite | None = None, base: str = "", margin: str = ""
    ) -> None:
        self._width, self._styled, self._cite, self._margin = width, styled, cite, margin
        self._base = base if styled else ""
        self._out: list[str] = []
        self._line = ""  # of the line: what is not yet decided, or not yet laid out
        self._take: Callable[[str], None] = self._start
        self._fence = ""  # the mark that opened the fence we are in
        self._style = self._base  # of the line
        self._hang = ""  # what begins the lines it is broken into
        self._gap = ""  # white space since the last word
        self._blank_lines = 0  # not yet printed: those at the end never are
        self._printed_anything = False
        self._column = 0
        self._fresh = True  # no word on this line yet
        self._after_ideograph = False

    def feed(self, text: str) -> str:
        """What can be printed now that this has arrived."""
        for c in neutral(text):
            if c == "\n":
                self._end_line()
            else:
                self._take(c)
        return self._printed()

    def end(self) -> str:
        """The rest, and the end of the line."""
        if self._line or not self._at_start_of_line:
            self._end_line()
        return self._printed()

    @property
    def _at_start_of_line(self) -> bool:
        return self._take == self._start

    def _printed(self) -> str:
        printed = "".join(self._out)
        self._out.clear()
        return printed

    # ---- lines

    def _start(self, c: str) -> None:
        goes_on = c in _RUNS and self._line.endswith(c)
        self._line += c
        if self._fence:
            self._take = self._hold
        elif not goes_on and (len(self._line) > HELD_CHARS or not _UNDECIDED.fullmatch(self._line)):
            self._decide()

    def _hold(self, c: str) -> None:
        self._line += c

    def _decide(self) -> None:
        """What kind of line this is, now that its beginning is known."""
        line = self._line
        if _FENCE.match(line) or _TABLE.match(line):
            self._take = self._hold
            return
        self._take, self._line = self._word, ""
        if found := _HEADING.match(line):
            self._begin("" if self._styled else found[0], style=BOLD)
        elif found := _ITEM.match(line):
            indent, mark = found.groups()
            shown = "•" if self._styled and not mark[0].isdigit() else mark
            self._begin(f"{indent}{shown} ", hang=" " * (len(indent) + len(mark) + 1))
        elif found := _QUOTE.match(line):
            self._begin("│ " if self._styled else "> ", hang="│ " if self._styled else "> ")
        else:
            indent = line[: len(line) - len(line.lstrip(" "))]
            self._begin(indent, hang=indent)
        for c in line[found.end() if found else len(indent) :]:
            self._word(c)

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        if self._take == self._word:
            self._lay(line)
            self._out.append("\n")
        elif not line.strip():
            self._blank_lines += 1
        elif self._fence or self._take == self._hold or _FENCE.match(line):
            self._whole_line(line)
        elif _RULE.fullmatch(line):
            self._print_line([Piece("─" * min(40, self._room()) if self._styled else line, DIM)])
        else:  # a lone mark, or an item without text
            self._line = line + " "
            self._decide()
            self._end_line()
            return
        self._take = self._start

    def _whole_line(self, line: str) -> None:
        """A line that was held to its end: of a fence, or of a table."""
        found = _FENCE.match(line)
        if self._fence:
            closes = found and found[1].startswith(self._fence) and not line[found.end() :].strip()
            self._print_line([Piece(line, DIM if closes else CODE)])
            self._fence = "" if closes else self._fence
        elif found and "`" not in line[found.end() :]:
            self._fence = found[1]
            self._print_line([Piece(line, DIM)])
        elif found:  # code within the line, written with three ticks
            self._begin("")
            for c in line:
                self._word(c)
            self._lay(self._line)
            self._out.append("\n")
            self._line = ""
        else:
            self._print_line(self._cited([Piece(line)]))

    def _print_line(self, pieces: Iterable[Piece]) -> None:
        self._begin("")
        self._out.extend(self._look(replace(piece, style=join(self._base, piece.style))) for piece in pieces)
        self._out.append("\n")

    def _begin(self, prefix: str, *, hang: str = "", style: str = "") -> None:
        blank = self._blank_lines if self._printed_anything else 0
        self._out.append("\n" * blank)
        self._blank_lines, self._printed_anything = 0, True
        self._hang = hang
        self._style = join(self._base, style)
        self._open_line(prefix)

    def _open_line(self, prefix: str) -> None:
        style = DIM if prefix.startswith("│") else self._base
        self._out.append(self._margin + self._look(Piece(prefix, style)))
        self._column = columns(self._margin) + columns(prefix)
        self._fresh = True

    # ---- words

    def _word(self, c: str) -> None:
        if c == " ":
            self._settle()
        if c == " " and not self._line:
            self._gap += c
            return
        self._line += c
        if c in _PAUSES or len(self._line) > HELD_CHARS:
            self._settle()

    def _settle(self) -> None:
        """Lay out what is held, unless an emphasis in it may still be closed."""
        while (opening := self._opening()) >= 0:
            if len(self._line) <= HELD_CHARS:
                return
            # It was no emphasis: its word goes out as it is, and what follows is looked at anew.
            cut = self._line.find(" ", opening)
            cut = cut if cut >= 0 else len(self._line)
            line, self._line = self._line[:cut], self._line[cut:]
            self._lay(line)
        line, self._line = self._line, ""
        self._lay(line)

    def _opening(self) -> int:
        """Where the first emphasis begins that is not closed; -1 if there is none."""
        if not self._styled:
            return -1
        found = _OPENING.search(_SPAN.sub(lambda span: "." * len(span[0]), self._line))
        return found.start() if found else -1

    def _lay(self, text: str) -> None:
        """Put text that is complete on the line, and break the line where it is full."""
        if not text:
            return
        pieces = list(spans(text, self._style)) if self._styled else [Piece(text, self._style)]
        for gap, word in _words(self._cited(pieces), self._gap):
            self._put(gap, word)
        self._gap = ""

    def _put(self, gap: str, word: list[Piece]) -> None:
        taken = sum(columns(piece.text) for piece in word)
        ideograph = _IDEOGRAPH.match(word[0].text)
        # Room for a comma or full stop after the last ideograph of a line.
        spare = 2 if ideograph and word[0].text not in _PAUSES else 0
        may_break = gap or ideograph or self._after_ideograph
        if not self._fresh and may_break and self._column + len(gap) + taken + spare > self._room():
            self._out.append("\n")
            self._open_line(self._hang)
        elif not self._fresh:
            self._out.append(gap)
            self._column += columns(gap)
        self._out.extend(self._look(piece) for piece in word)
        self._column += taken
        self._fresh, self._after_ideograph = False, bool(ideograph)

    def _room(self) -> int:
        return self._width() or 1_000_000

    def _cited(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces with their citations made links, or marked."""
        for piece in pieces:
            at = 0
            for citation, address in self._citations(piece.text):
                start, end = citation.span
                yield replace(piece, text=piece.text[at:start])
                yield replace(piece, text=piece.text[start:end], address=address or "")
                if address is None:
                    yield replace(piece, text=UNKNOWN)
                at = end
            yield replace(piece, text=piece.text[at:])

    def _citations(self, text: str) -> list[tuple[Citation, str | None]]:
        return [(citation, self._cite(citation)) for citation in find(text)] if self._cite else []

    def _look(self, piece: Piece) -> str:
        text = link(piece.address, piece.text) if piece.address else piece.text
        return f"\x1b[{piece.style}m{text}\x1b[0m" if text and piece.style and self._styled else text


def join(*styles: str) -> str:
    """Several styles as one."""
    return ";".join(filter(None, styles))


def spans(text: str, style: str = "") -> Iterator[Piece]:
    """A text without its marks, in pieces of one style each."""
    at = 0
    for found in _SPAN.finditer(text):
        yield Piece(text[at : found.start()], style)
        yield from _span(found, style)
        at = found.end()
    yield Piece(text[at:], style)


def _span(found: re.Match[str], style: str) -> Iterator[Piece]:
    if found["escaped"]:
        yield Piece(found["escaped"], style)
    elif found["code"]:
        yield Piece(found["code"].strip() or found["code"], join(style, CODE))
    elif found["starred"]:
        emphasis = {1: ITALIC, 2: BOLD, 3: join(BOLD, ITALIC)}[len(found["stars"])]
        yield from spans(found["starred"], join(style, emphasis))
    elif found["slanted"]:
        yield from spans(found["slanted"], join(style, ITALIC))
    else:
        yield from spans(found["struck"], join(style, STRUCK))


def _words(pieces: Iterable[Piece], gap: str) -> Iterator[tuple[str, list[Piece]]]:
    """What may stand on a line of its own, each with the white space before it."""
    word: list[Piece] = []
    for piece in pieces:
        for part in re.findall(r" +|[^ ]+", piece.text):
            if part[0] == " ":
                if word:
                    yield gap, word
                    word, gap = [], ""
                gap += part
                continue
            for unit in _UNIT.findall(part):
                if word and (_IDEOGRAPH.match(unit) or _IDEOGRAPH.match(word[-1].text)):
                    yield gap, word
                    word, gap = [], ""
                word.append(replace(piece, text=unit))
    if word:
        yield gap, word
