"""Text made to be slow: four times as much takes about four times as long, not sixteen."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date

import pytest

from tars import citations, facts
from tars.chunker import read_note
from tars.frontmatter import read_frontmatter
from tars.identifiers import hidden_words
from tars.markdown import Markdown
from tars.outline import NoteText, Outline
from tars.search.query import MAX_CHARS, normalise
from tars.search.when import find_windows
from tars.untrusted import escaped

EMPHASIS = ["**a ", "_a ", "~~a "]  # opened and never closed; a terminal waits for each, so these take it longest
PIECES = [
    *("[", "[[a|", "(", "*", "`", "` `` ", "<", "<private>", "<private>\n", "</private>", "<private "),
    *(
        "<private>x</private>\n",
        "---\n",
        "...\n",
        "|",
        "| a | b |\n|---|---|\n",
        "> ",
        "> a\n",
        "- ",
        "- a\n",
        "1. a\n",
        " ",
        "\t",
    ),
    *(
        "\n",
        "\r",
        "# h\n",
        "a\n=\n",
        "a:: b\n",
        "#t ",
        "~~~\n",
        "```\n",
        "- 2025-01-02 a\n",
        "2 January 2025 ",
        "A b. ",
        "。",
        "\\",
    ),
    *("aB", "a_b", "a.md:1 ", "a/", "1", "January and ", "*-", "x", "&a [*a]\n", "\x1b", "\u202e"),
]
RUNS = ["*", "`", " ", "\t", "*-", "x", "1", "|"]  # what a line can begin with for long


def rendered(text: str) -> None:
    markdown = Markdown(width=lambda: 80, styled=True, cite=lambda citation: "x")
    markdown.feed(text)
    markdown.end()


READERS: dict[str, tuple[Callable[[str], object], int]] = {  # each with a length that it reads in milliseconds
    "chunker": (read_note, 4_000),
    "frontmatter": (lambda text: read_frontmatter(f"---\n{text}\n---\n"), 1_000),
    "outline": (lambda text: Outline(NoteText("a.md", text, b"", "utf-8", "")).facts(), 2_000),
    "names": (hidden_words, 8_000),
    "citations": (citations.find, 1_000),
    "fence": (escaped, 8_000),
    "fact": (facts.readings, 4_000),
    "times": (lambda text: find_windows(text, date(2025, 10, 14)), 500),
    "terminal": (rendered, 3_000),
}
TIMES = 8
TRIES = 4  # only what is slow each time is slow: the machine may be busy


def cpu_seconds(reader: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    reader(text)
    return time.process_time() - started


def grows_too_fast(reader: Callable[[str], object], text: str) -> bool:
    """Whether the text takes far longer than its first eighth; what is eight times as long should take as much more."""
    part = text[: len(text) // TIMES]
    return all(
        cpu_seconds(reader, text) > 3 * TIMES * cpu_seconds(reader, part) + 0.02  # which is about TIMES²/3
        for _ in range(TRIES)
    )


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    reader, length = READERS[name]

    shorter = [piece * (length // len(piece)) for piece in EMPHASIS]
    assert [text for text in shorter if grows_too_fast(reader, text)] == []
    pieces = RUNS if name == "terminal" else PIECES
    assert [piece for piece in pieces if grows_too_fast(reader, piece * (TIMES * length // len(piece)))] == []


def test_depth_costs_no_more_than_length() -> None:
    def nested(depth: int) -> str:
        return "".join(f"{' ' * at}- {'> ' * at}a\n" for at in range(depth))

    assert not grows_too_fast(read_note, nested(300))
    assert len(read_note("- " * 5_000 + "a\n" + "> " * 5_000 + "a").chunks) > 1


@pytest.mark.parametrize(
    "source",
    [
        "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))]),
        "a: &a [*a]\ntitle: *a",
        "a: " + "[" * 30_000,
        "a: " + "[" * 190 + "]" * 190,
        "title: &t " + "x" * 30_000 + "\ntags: [" + "*t, " * 5_000 + "]",
        "a: " + "9" * 60_000 + "\ndate: " + "9" * 400,
        "a: !!python/object/apply:os.system ['false']",
    ],
    ids=["laughs", "itself", "brackets", "depth", "echo", "number", "object"],
)
def test_a_yaml_bomb_does_not_go_off(source: str) -> None:
    started = time.process_time()
    note = read_note(f"---\n{source}\n---\nbody")

    assert time.process_time() - started < 4
    assert len(repr(note)) < 10 * len(source) + 500_000


def test_one_line_of_five_megabytes_is_cut_into_pieces() -> None:
    assert not grows_too_fast(read_note, "word " * 1_000_000)
    assert len(normalise("word " * 1_000_000)) <= MAX_CHARS
