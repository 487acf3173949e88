"""Markdown on its way to a terminal: whole however it was cut, harmless whatever it says, and drawn once."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tars.citations import Citation, check, find, resolve
from tars.markdown import HELD_CHARS, Markdown, columns, neutral

SHOWN = {
    "home/boiler.md": [(10, 20), (30, 40)],
    "trips/My Plan.md": [(1, 5)],
    "Tom's (old).md": [(1, 5)],
    "a/same.md": [(1, 9)],
    "b/same.md": [(5, 9)],
    "笔记/家.md": [(12, 12)],
}
SAMPLE = """\
# A *fine* heading

Some **bold text**, `code with **stars**`, _slanted_ and ***both***; snake_case_name, 2*3*4 and *args.
- an item [home/boiler.md:12-14] that is long enough to be broken
  1. nested, with home/boiler.md:99
> quoted
---
```py
x = "**raw**"

~~~
```
| a | b |
``` not a fence ``` but code
中文段落没有空格，但是也要换行。**粗体**在这里。
C:\\temp \\*plain\\* ~~gone~~ **never closed
"""

# Text of the kind that trips a parser of markdown: its marks, blanks, controls and wide letters.
texts = st.text(
    st.one_of(
        st.sampled_from("*_`~#>-+|\\[]() \n\t1.:ab"),
        st.sampled_from("\x1b\x07\x9b\r\u202e\u2028\x00中。é👍"),
        st.characters(),
    ),
    max_size=120,
)
cuts = st.lists(st.integers(0, 400), max_size=12)


def cite(citation: Citation) -> str | None:
    shown = resolve(citation, SHOWN)
    return None if shown is None else f"file:///{shown.path}#L{shown.start}"


def render(text: str, *, at: list[int] | None = None, styled: bool = True, width: int = 40) -> str:
    """What comes out if the text arrives in pieces that end at these places."""
    markdown = Markdown(width=lambda: width, styled=styled, cite=cite if styled else None)
    ends = sorted({min(place, len(text)) for place in at or []} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(ends)]
    return "".join(map(markdown.feed, pieces)) + markdown.end()


def visible(out: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\", "", out)


def bare(text: str) -> str:
    """Letters alone: no blanks, no marks of markdown, nothing that stands for one."""
    return re.sub(r"[\s*_`~#>+|\\•│─-]|\[\?\]", "", text)


@given(texts, cuts, st.booleans())
@example(SAMPLE, list(range(400)), True)
@example(SAMPLE, list(range(400)), False)
def test_it_does_not_matter_how_a_text_was_cut(text: str, at: list[int], styled: bool) -> None:
    assert render(text, at=at, styled=styled) == render(text, styled=styled)


@given(texts, st.booleans())
@example(SAMPLE, True)
@example(SAMPLE, False)
def test_nothing_is_lost_and_nothing_comes_twice(text: str, styled: bool) -> None:
    assert bare(visible(render(text, styled=styled))) == bare(neutral(text))


@given(texts, st.integers(1, 60))
@example(SAMPLE, 20)
def test_nothing_commands_the_terminal(text: str, width: int) -> None:
    out = visible(render(text, width=width))

    assert not [c for c in out if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\n"]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\ufeff]", out)
    assert "\x1b" not in render(text, styled=False)


@given(texts)
def test_a_style_never_outlives_a_word(text: str) -> None:
    out = render(text)

    assert not re.search(r"\x1b\[0m[^\x1b]*\x1b\[0m", out)
    assert out.count("\x1b[") == 2 * out.count("\x1b[0m")


@given(st.lists(st.text("abc中文，é", min_size=1, max_size=12), min_size=1, max_size=40), st.integers(24, 60))
def test_no_line_of_words_is_wider_than_the_window(words: list[str], width: int) -> None:
    out = render(" ".join(words), width=width)

    assert all(columns(line) <= width for line in out.splitlines())


def test_without_style_and_width_a_text_stays_as_it_is() -> None:
    assert render(SAMPLE, styled=False, width=0) == SAMPLE


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("**a b**, c", "\x1b[1ma\x1b[0m \x1b[1mb\x1b[0m, c\n"),
        ("*a* _b_ `c`", "\x1b[3ma\x1b[0m \x1b[3mb\x1b[0m \x1b[36mc\x1b[0m\n"),
        ("**a *b* `c`**", "\x1b[1ma\x1b[0m \x1b[1;3mb\x1b[0m \x1b[1;36mc\x1b[0m\n"),
        ("# A *b*", "\x1b[1mA\x1b[0m \x1b[1;3mb\x1b[0m\n"),
        ("~~a~~", "\x1b[9ma\x1b[0m\n"),
        (r"\*a\*", "*a*\n"),
        ("2 * 3 * 4, a_b_c, *args, __init__", "2 * 3 * 4, a_b_c, *args, __init__\n"),
        ("``a`b``", "\x1b[36ma`b\x1b[0m\n"),
        ("- a\n  - b\n12. c", "• a\n  • b\n12. c\n"),
        ("-\n- a", "• \n• a\n"),
        ("> a\n>b", "\x1b[2m│ \x1b[0ma\n\x1b[2m│ \x1b[0mb\n"),
        ("```\n**a**\n```\n**b**", "\x1b[2m```\x1b[0m\n\x1b[36m**a**\x1b[0m\n\x1b[2m```\x1b[0m\n\x1b[1mb\x1b[0m\n"),
        ("````\n```\n````", "\x1b[2m````\x1b[0m\n\x1b[36m```\x1b[0m\n\x1b[2m````\x1b[0m\n"),
        ("``` a ``` **b**", "\x1b[36ma\x1b[0m \x1b[1mb\x1b[0m\n"),
        ("| **a** |", "| **a** |\n"),
        ("a  \nb", "a\nb\n"),
        ("\n\na\n\n\nb\n\n", "a\n\n\nb\n"),
        ("a\r\nb", "a\nb\n"),
        ("#hashtag and 1.5", "#hashtag and 1.5\n"),
        ("", ""),
    ],
)
def test_marks_become_styles(text: str, out: str) -> None:
    assert render(text) == out


def test_lines_break_between_words_and_hang_under_their_beginning() -> None:
    assert render("- one two three four", width=12, styled=False) == "- one two\n  three four\n"
    assert render("1. one two three", width=12, styled=False) == "1. one two\n   three\n"
    assert visible(render("> one two three four", width=12)) == "│ one two\n│ three four\n"
    assert render("日本語の文章、です", width=10) == "日本語の\n文章、で\nす\n"


def test_words_do_not_wait_for_the_end_of_the_line() -> None:
    markdown = Markdown(width=lambda: 80, styled=True)

    assert markdown.feed("one two thr") == "one two"
    assert markdown.feed("ee **four") == " three"
    assert markdown.feed(" five** ") == " \x1b[1mfour\x1b[0m \x1b[1mfive\x1b[0m"
    assert markdown.feed("一二，三") == " 一二，"


def test_a_mark_that_is_never_closed_holds_up_little() -> None:
    markdown = Markdown(width=lambda: 0, styled=True)
    out = markdown.feed("*args " + "word " * 100)

    assert out.startswith("*args word")
    assert len(out) > 500 - HELD_CHARS


def test_a_narrower_window_counts_from_the_next_word_on() -> None:
    width = 40
    markdown = Markdown(width=lambda: width, styled=False)
    out = markdown.feed("one two three four five ")
    width = 12

    assert out + markdown.feed("six seven eight nine ") + markdown.end() == (
        "one two three four five\nsix seven\neight nine\n"
    )


def test_citations_are_links_or_marked() -> None:
    address = "\x1b]8;;file:///home/boiler.md#L14\x1b\\"

    assert render("(home/boiler.md:14)") == f"({address}home/boiler.md:14\x1b]8;;\x1b\\)\n"
    assert render("`home/boiler.md:14`") == f"\x1b[36m{address}home/boiler.md:14\x1b]8;;\x1b\\\x1b[0m\n"
    assert render("see home/boiler.md:21.") == "see home/boiler.md:21[?].\n"
    assert visible(render("```\nhome/boiler.md:21\n```")) == "```\nhome/boiler.md:21\n```\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see home/boiler.md:12.", ["home/boiler.md:12"]),
        ("[a.md:1, b/c.md:2-3]; `d.md:4`, **e.md:5**", ["a.md:1", "b/c.md:2-3", "d.md:4", "e.md:5"]),
        ("a.md:1,b.md:2", ["a.md:1", "b.md:2"]),
        ("lines a.md:12–15 and (2026-03-01.md:7)", ["a.md:12-15", "2026-03-01.md:7"]),
        ("“Tom's (old).md:3”", ["old).md:3"]),
        ("at 10:30, localhost:8080, main.py:12, a.md, a.md:x", []),
        ("https://example.org/a.md:12 and file:///a.md:3", []),
        ("a.md:12th a.mdx:3", []),
    ],
)
def test_citations_are_found(text: str, found: list[str]) -> None:
    citations = find(text)

    assert [str(c) for c in citations] == found
    assert all(text[c.span[0] :][: len(c.path)] == c.path for c in citations)


@pytest.mark.parametrize(
    ("cited", "shown"),
    [
        ("home/boiler.md:10-20", "home/boiler.md:10-20"),
        ("home/boiler.md:15-35", "home/boiler.md:15-35"),
        ("./home/boiler.md:15", "home/boiler.md:15"),
        ("boiler.md:15", "home/boiler.md:15"),
        ("in trips/My Plan.md:3", "trips/My Plan.md:3"),
        ("Tom's (old).md:3", "Tom's (old).md:3"),
        ("见笔记/家.md:12。", "笔记/家.md:12"),
        ("same.md:3", "a/same.md:3"),
        ("same.md:7", None),
        ("home/boiler.md:9", None),
        ("home/boiler.md:15-21", None),
        ("oiler.md:15", None),
        ("other/home/boiler.md:15", None),
    ],
)
def test_a_citation_holds_only_for_lines_that_were_shown(cited: str, shown: str | None) -> None:
    ((citation, was_shown),) = check(find(cited), SHOWN)

    assert was_shown == (shown is not None)
    assert str(citation) == (shown or cited)
