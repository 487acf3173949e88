"""Any text as an answer on a terminal."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from hypothesis import strategies as st

from tars.citations import Citation
from tars.markdown import Markdown, columns, neutral

MARKS = st.sampled_from("* ** *** _ ` `` ``` ~~ ~~~ # ## > - + | \\ [ ] ( ) 1. 12) --- a.md:3 a.md:1-2 b.md:9".split())
OTHERS = st.sampled_from(
    ["\n", "\n\n", " ", "  ", "\t", "\r\n", "a", "word ", "x" * 50, "中文。", "é", "👍🏽", "e\u0301"]
)
EVIL = st.sampled_from(
    ["\x1b[31m", "\x1b]0;t\x07", "\x1b]8;;http://x\x1b\\", "\x9b2J", "\0", "\x7f", "\u202e", "\u2028", "\ud800"]
)
TEXTS = st.lists(st.one_of(MARKS, OTHERS, EVIL, st.text(max_size=8)), max_size=40).map("".join)
ANSWERS = st.tuples(TEXTS, st.lists(st.integers(0, 300), max_size=8), st.booleans(), st.integers(0, 50))


def cite(citation: Citation) -> str | None:
    return "file:///a" if citation.path == "a.md" else None


def answer_holds(given: tuple[str, list[int], bool, int]) -> None:
    """However it arrives it looks the same, says all that it said, and commands nothing."""
    text, cuts, styled, width = given
    whole = shown(text, [], styled, width)

    assert shown(text, cuts, styled, width) == whole
    seen = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;;(?:file:///a)?\x1b\\", "", whole) if styled else whole
    assert not [c for c in seen if c != "\n" and unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\ufeff]", seen)
    assert letters(seen) == letters(neutral(text))
    assert columns(seen) >= 0


def shown(text: str, cuts: list[int], styled: bool, width: int) -> str:
    markdown = Markdown(width=lambda: width, styled=styled, cite=cite if styled else None)
    ends = sorted({min(at, len(text)) for at in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(ends)]
    return "".join(map(markdown.feed, pieces)) + markdown.end()


def letters(text: str) -> str:
    return re.sub(r"[\s*_`~#>+|\\•│─-]|\[\?\]", "", text)
