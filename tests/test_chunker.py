"""What a note becomes: chunks that cover it, and what it says about itself."""

import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tars.chunker import Chunk, Link, Note, date_of_name, read_note
from tars.frontmatter import MAX_CHARS, date_in, read_frontmatter

SENTENCE = "The boiler was serviced in the cellar and it took the whole morning."  # 68 characters


def chunks(text: str, size: int = 600) -> tuple[Chunk, ...]:
    return read_note(text, size=size).chunks


def texts(text: str, size: int = 600) -> list[str]:
    return [chunk.text for chunk in chunks(text, size)]


def places(text: str, size: int = 600) -> list[tuple[int, int, str]]:
    return [(chunk.start_line, chunk.end_line, chunk.heading) for chunk in chunks(text, size)]


# Promises for any text

PIECES = st.sampled_from(
    [
        *("# Title", "## Part", "### Detail", "#### 2 January 2025", "## 2025-03-01 ##", "Under\n===", "Under\n---"),
        *("- milk", "- [x] 2025-03-01: paid", "* **2025-03-02** rest", "  - nested", "  more of it", "1. first"),
        *("```", "```python\nx = 1  # no heading\n```", "~~~", "~~~\n# no heading\n\n~~~", "    ```", "  ```"),
        *("| a | b |\n|---|---|\n| 1 | 2 |", "> quoted\n> words", "---", "...", "***", "key: value", "tags:: a, b"),
        *(
            "<private>",
            "</private>",
            "an <PRIVATE>inner</private> part",
            "#tag and #a/b",
            "[[Note#Part|alias]]",
            "`code`",
        ),
        *("", "", "", "\t", " ", "\r", "a\x0bb\u2028c", "\ufeff", "private: true", "word " * 7, "x" * 90, SENTENCE),
        *(SENTENCE + " " + SENTENCE + " " + SENTENCE, "**Me:** " + SENTENCE, "汉字。" * 40, "- " + SENTENCE),
    ]
)
MARKDOWN = st.lists(PIECES, max_size=40).map("\n".join)
SIZES = st.integers(min_value=30, max_value=300)
NOTES = st.one_of(MARKDOWN, MARKDOWN, st.text(max_size=400))


def any_note(test: Callable[..., None]) -> Callable[..., None]:
    return settings(deadline=None, max_examples=300)(given(text=NOTES, size=SIZES)(test))


def solid(text: str) -> str:
    """The text without its white space."""
    return "".join(text.split())


def body_lines(text: str) -> tuple[list[str], int]:
    """All lines of the note, and the index of the first one after its frontmatter."""
    text = text.removeprefix("\ufeff")
    return text.split("\n"), read_frontmatter(text)[1]


@any_note
def test_chunks_hold_all_text_of_the_body_once_and_in_order(text: str, size: int) -> None:
    lines, body = body_lines(text)
    found = texts(text, size)

    assert all(map(solid, found))
    if any(map(solid, lines[body:])):
        assert solid("".join(found)) == solid("".join(lines[body:]))


@any_note
def test_a_chunk_is_the_lines_it_names_unless_one_of_them_is_overlong(text: str, size: int) -> None:
    lines, _ = body_lines(text)

    for chunk in chunks(text, size):
        named = lines[chunk.start_line - 1 : chunk.end_line]
        cut = len(named[0]) > size or len(named[-1]) > size
        assert chunk.text == "\n".join(named) or (cut and chunk.text in "\n".join(named))
        assert named[0].strip() and named[-1].strip()


@any_note
def test_chunks_share_no_line_but_an_overlong_one(text: str, size: int) -> None:
    lines, _ = body_lines(text)
    found = chunks(text, size)

    for earlier, later in pairwise(found):
        shared = later.start_line == earlier.end_line and len(lines[later.start_line - 1]) > size
        assert shared or later.start_line > earlier.end_line


@any_note
def test_a_chunk_is_longer_than_size_only_by_an_introduction_or_a_fence(text: str, size: int) -> None:
    for chunk in chunks(text, size):
        if re.search(r"^\s*(```|~~~)", chunk.text, re.MULTILINE):
            assert len(chunk.text) <= 4.5 * size
        elif re.match(r" {0,3}#{1,6}\s|[^\n]+\n(=+|-+)$", chunk.text, re.MULTILINE):
            assert len(chunk.text) <= 1.5 * size
        else:
            assert len(chunk.text) <= size


@any_note
def test_a_chunk_is_private_exactly_if_its_lines_are(text: str, size: int) -> None:
    note, (lines, _) = read_note(text, size=size), body_lines(text)
    depth, touched = 0, []
    for line in lines:
        deepest = depth
        for slash in re.findall(r"<(/?)private>", line, re.IGNORECASE):
            depth = max(0, depth - 1) if slash else depth + 1
            deepest = max(deepest, depth)
        touched.append(deepest > 0)

    for chunk in note.chunks:
        spanned = range(chunk.start_line - 1, chunk.end_line)
        assert {note.private or touched[at] for at in spanned if lines[at].strip()} == {chunk.private}


@any_note
def test_the_same_text_gives_the_same_note(text: str, size: int) -> None:
    assert read_note(text, size=size) == read_note(text, size=size)


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "---\n---", "\ufeff"])
def test_a_blank_note_has_no_chunks(text: str) -> None:
    assert read_note(text) == Note(None, None, (), (), (), "", "", "", False, (), ())


# Structure and packing


def test_short_paragraphs_are_packed_up_to_the_size() -> None:
    text = "\n\n".join([SENTENCE] * 6)

    assert places(text, 220) == [(1, 5, ""), (7, 11, "")]


def test_a_heading_starts_a_chunk_and_stays_with_what_follows() -> None:
    text = f"{SENTENCE}\n{SENTENCE}\n\n## Heating\n\n{SENTENCE}\n{SENTENCE}\n"

    assert places(text, 150) == [(1, 2, ""), (4, 7, "Heating")]


def test_the_heading_path_leaves_out_the_title() -> None:
    text = f"# House\n\n{SENTENCE}\n\n## Heating\n\n{SENTENCE}\n\n### Boiler ###\n\n{SENTENCE}\n\n## Roof\n\n{SENTENCE}"

    assert [chunk.heading for chunk in chunks(text, 100)] == ["", "Heating", "Heating > Boiler", "Roof"]
    assert read_note(text).title == "House"


def test_a_first_heading_that_is_not_the_frontmatter_title_is_in_the_path() -> None:
    note = read_note("---\ntitle: House\n---\n# Heating\n\ntext")

    assert (note.title, note.chunks[0].heading) == ("House", "Heating")


def test_underlined_lines_are_headings_and_rules_are_not() -> None:
    text = f"House\n=====\n\n{SENTENCE}\n\nHeating\n---\n\n{SENTENCE}\n\n---\n\n{SENTENCE}\n\n> said\n---"

    assert read_note("> said\n===\n\n| a |\n===").title is None
    assert [chunk.heading for chunk in chunks(text, 100)] == ["", "Heating", "Heating"]
    assert read_note(text).title == "House"


def test_a_hash_without_space_or_inside_a_fence_is_no_heading() -> None:
    text = "#tag\n\n```sh\n# comment\n```\n\n~~~~ info\n~~~\n## neither\n~~~~\n\n       # indented"

    assert places(text) == [(1, 12, "")]
    assert read_note(text).title is None


def test_a_heading_right_above_a_sub_heading_shares_its_chunk() -> None:
    text = f"# House\n\n## Heating\n\n### Boiler\n\n{SENTENCE}\n{SENTENCE}\n"

    assert places(text, 150) == [(1, 8, "Heating > Boiler")]


def test_small_sections_share_a_chunk_under_their_common_path() -> None:
    people = "\n\n".join(f"### {name}\n\n- Phone: 123" for name in ("Ann", "Bob", "Cid"))

    assert places(f"# Book\n\n## Friends\n\n{people}") == [(1, 15, "Friends")]
    assert places(f"# Book\n\n## Friends\n\n{people}", 75) == [(1, 7, "Friends > Ann"), (9, 15, "Friends")]


def test_a_larger_section_does_not_share_its_chunk() -> None:
    text = f"## Ann\n\nshort\n\n## Bob\n\n{SENTENCE}\n\n## Cid\n\nshort"

    assert [heading for *_, heading in places(text, 150)] == ["Ann", "Bob", "Cid"]


def test_a_small_section_does_not_join_the_children_of_another_parent() -> None:
    text = f"## Ann\n\n{SENTENCE}\n\n### Phone\n\n123\n\n## Bob\n\nshort"

    assert [heading for *_, heading in places(text, 150)] == ["Ann", "Ann > Phone", "Bob"]


def test_a_last_heading_without_text_joins_the_chunk_before() -> None:
    assert places(f"## Ann\n\n{SENTENCE}\n\n## To do\n", 150) == [(1, 5, "Ann")]


def test_headings_without_text_do_not_pile_up() -> None:
    assert max(map(len, texts("## Empty\n" * 50 + SENTENCE, 100))) <= 100


def test_a_small_rest_is_shared_evenly_with_the_chunk_before() -> None:
    text = "\n\n".join([SENTENCE] * 4 + ["The end."])

    assert places(text, 280) == [(1, 3, ""), (5, 9, "")]


def test_text_appended_to_a_note_leaves_all_but_its_last_chunks_alone() -> None:
    text = "\n\n".join([SENTENCE] * 40)

    assert texts(text, 290)[:-2] == texts(f"{text}\n\nThe end.", 290)[: len(texts(text, 290)) - 2]


def test_a_list_item_keeps_its_continuation_lines() -> None:
    item = f"- {SENTENCE}\n  {SENTENCE}\nlazy"

    assert places("\n".join([item] * 3), 160) == [(1, 3, ""), (4, 6, ""), (7, 9, "")]


def test_an_overlong_paragraph_is_split_at_line_ends() -> None:
    assert places("\n".join([SENTENCE] * 7), 220) == [(1, 3, ""), (4, 6, ""), (7, 7, "")]


def test_an_overlong_table_or_quote_is_split_at_line_ends() -> None:
    table = "\n".join(["| a | b |", "|---|---|"] + ["| 1 | 2 |"] * 8)

    assert [text.count("\n") + 1 for text in texts(table, 50)] == [5, 5]
    assert [text.count("\n") + 1 for text in texts("\n".join([f"> {SENTENCE}"] * 4), 150)] == [2, 2]


def test_an_overlong_line_is_cut_at_sentence_ends() -> None:
    text = f"before\n{' '.join([SENTENCE] * 4)}\nafter"

    assert texts(text, 200) == ["before", f"{SENTENCE} {SENTENCE}", f"{SENTENCE} {SENTENCE}", "after"]
    assert places(text, 200) == [(1, 1, ""), (2, 2, ""), (2, 2, ""), (3, 3, "")]


def test_an_overlong_line_without_sentences_is_cut_at_spaces_and_without_spaces_anywhere() -> None:
    assert [len(text.split()) for text in texts("word " * 50, 100)] == [17, 16, 17]
    assert [len(text.split()) for text in texts("Yes. " + "word " * 50, 100)] == [17, 17, 17]
    assert texts("x" * 250, 100) == ["x" * 84, "x" * 83, "x" * 83]


def test_a_small_rest_does_not_join_a_piece_of_an_overlong_line() -> None:
    rest_before = f"{SENTENCE}\n\n{SENTENCE}\n\nx{' ' * 300}"
    rest_after = f"{' '.join([SENTENCE] * 2)}\n\n## To do"

    assert places(rest_before, 150) == [(1, 3, ""), (5, 5, "")]
    assert places(rest_after, 100) == [(1, 1, ""), (1, 1, ""), (3, 3, "To do")]


def test_a_heading_stays_with_the_first_piece_of_an_overlong_line() -> None:
    text = f"# House\n\n{' '.join([SENTENCE] * 4)}"

    assert texts(text, 200) == [f"# House\n\n{SENTENCE} {SENTENCE}", f"{SENTENCE} {SENTENCE}"]
    assert places(text, 200) == [(1, 3, ""), (3, 3, "")]


def test_a_line_that_fits_is_never_split() -> None:
    turns = [f"**{name}:** {SENTENCE}" for name in ("Ann", "Bob")] * 3

    assert all(text.startswith("**") and text.endswith(".") for text in texts("\n\n".join(turns), 80))


def test_a_fence_stays_whole_up_to_four_sizes_with_its_introduction() -> None:
    fence = "```python\n" + "x = 1\n\n" * 40 + "```"
    text = f"{SENTENCE}\n{SENTENCE}\n\nLike this:\n\n{fence}\n\n{SENTENCE}"

    assert places(text, 150) == [(1, 2, ""), (4, 87, ""), (89, 89, "")]


def test_a_longer_or_unclosed_fence_is_split_at_line_ends() -> None:
    fence = "```python\n" + "x = 1\n" * 100

    for text in (fence, f"{fence}```\n"):
        assert [len(chunk) <= 100 for chunk in texts(text, 100)] == [True] * 7
        assert all(line in ("```python", "x = 1", "```") for chunk in texts(text, 100) for line in chunk.split("\n"))


def test_a_fence_in_a_list_item_may_be_indented_further() -> None:
    text = "- item\n\n  more\n\n      ```\n# no heading\n      ```\n\nThat's all.\n\n    ```\n\n# C#"

    assert read_note(text).title == "C#"


def test_only_a_newline_ends_a_line() -> None:
    text = "one\u2028still one\x0b\x0c\x85\rone\n\n## Two"

    assert [(link.line, link.target) for link in read_note(f"{text} [[x]]").links] == [(3, "x")]
    assert places(text, 20) == [(1, 1, ""), (3, 3, "Two")]


# Dates


@pytest.mark.parametrize(
    "heading",
    [
        *("2025-01-02", "Thursday 2 January 2025", "January 2, 2025", "2 Jan 2025", "Jan 2nd, 2025", "2025/1/2: rest"),
        *("On the 2nd of January 2025", "THU 02 JAN 2025", "Trip (2025-01-02)", "2025-02-31 or 2025-01-02"),
    ],
)
def test_a_heading_dates_its_passages(heading: str) -> None:
    assert [chunk.date for chunk in chunks(f"# Log\n\nintro\n\n## {heading}\n\ntext")] == [None, "2025-01-02"]


@pytest.mark.parametrize(
    "text", ["2025-02-31", "31 June 2025", "January 2025", "2025-01", "12025-01-020", "May 99, 2025"]
)
def test_an_impossible_or_partial_date_is_no_date(text: str) -> None:
    assert date_in(text) is None


def test_the_nearest_dated_heading_wins() -> None:
    text = "## 2025-01-02\n\nday\n\n### Morning\n\nrun\n\n### 3 January 2025\n\nnext\n\n## Other\n\nelse"

    assert [(chunk.start_line, chunk.date) for chunk in chunks(text)] == [
        (1, "2025-01-02"),
        (9, "2025-01-03"),
        (13, None),
    ]


@pytest.mark.parametrize("start", ["- ", "* [x] ", "- **", "1. ", "- [[", "+ [ ] __"])
def test_a_list_item_that_begins_with_a_date_has_that_date(start: str) -> None:
    text = f"{start}2025-03-01: paid\n   more\n  - nested\n\n  further\n{start}2025-03-02 rest\n- without"

    assert [(chunk.start_line, chunk.end_line, chunk.date) for chunk in chunks(text)] == [
        (1, 5, "2025-03-01"),
        (6, 6, "2025-03-02"),
        (7, 7, None),
    ]


def test_a_dated_heading_does_not_share_a_chunk_with_an_item_of_another_date() -> None:
    text = "## 2025-01-02\n\n- 2025-03-01 one"

    assert [(chunk.text, chunk.date) for chunk in chunks(text)] == [
        ("## 2025-01-02", "2025-01-02"),
        ("- 2025-03-01 one", "2025-03-01"),
    ]


def test_items_of_one_date_share_a_chunk_and_text_after_the_list_is_undated() -> None:
    text = "## Log\n\n- 2025-03-01 one\n- 2025-03-01 two\n\nAfterwards."

    assert [(chunk.start_line, chunk.end_line, chunk.date) for chunk in chunks(text)] == [
        (1, 4, "2025-03-01"),
        (6, 6, None),
    ]


def test_a_calendar_has_a_chunk_for_each_day_and_its_title_is_in_the_first() -> None:
    text = "# Calendar, May 2025\n\n## Sunday 4 May 2025\n\n- 06:00 run\n\n## Monday 5 May 2025\n\n- 07:00 swim"

    assert [(chunk.start_line, chunk.heading, chunk.date) for chunk in chunks(text)] == [
        (1, "Sunday 4 May 2025", "2025-05-04"),
        (7, "Monday 5 May 2025", "2025-05-05"),
    ]


def test_the_date_of_the_title_is_that_of_the_note_unless_the_frontmatter_has_one() -> None:
    title = "# Messages, 1 February 2025\n\ntext"

    assert read_note(title).date == "2025-02-01"
    assert read_note(title).chunks[0].date is None
    assert read_note(f"---\ncreated: 2025-03-01\n---\n{title}").date == "2025-03-01"


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("2026-03-01-trip.md", "2026-03-01"),
        ("daily/2026-03-01", "2026-03-01"),
        ("20260301 trip.md", "2026-03-01"),
        ("IMG_20260301_101530.md", "2026-03-01"),
        ("2026_03_01.md", "2026-03-01"),
        ("Trip, 1 March 2026.md", "2026-03-01"),
        ("2020-01-01 move/2026-03-01.md", "2026-03-01"),
        ("2020-01-01 move/20260301 trip.md", "2026-03-01"),
        ("2020-01-01/2026-03-01 trip/notes.md", "2026-03-01"),
        ("2026/03/01.md", "2026-03-01"),
        ("2026-03-01 trip/notes.md", "2026-03-01"),
        ("2026-02-30.md", None),
        ("20261301.md", None),
        ("phone 4920260301.md", None),
        ("notes.md", None),
    ],
)
def test_a_file_name_may_hold_a_date(name: str, date: str | None) -> None:
    assert date_of_name(name) == date


# Frontmatter


def test_frontmatter_is_read_as_metadata_and_is_no_part_of_a_chunk() -> None:
    note = read_note(
        "---\nTitle: My House\naliases: [Home, 'Casa, mia']\ntags: [House, '#Home/Roof', House]\n"
        "keywords: roof, boiler\ndescription: >\n  All about\n  it\nauthor: [Ann, Bob]\ncreated: 2025-01-11 09:00\n"
        "status: draft\nrooms: {cellar: [1, two], attic: ~}\n---\n\nbody\n"
    )

    assert (note.title, note.date, note.description, note.author) == (
        "My House",
        "2025-01-11",
        "All about it",
        "Ann, Bob",
    )
    assert (note.aliases, note.tags, note.keywords) == (
        ("Home", "Casa, mia"),
        ("house", "home/roof"),
        ("roof", "boiler"),
    )
    assert note.properties == "draft 1 two"
    assert [(chunk.start_line, chunk.text) for chunk in note.chunks] == [(15, "body")]


@pytest.mark.parametrize(
    ("yaml", "field", "value"),
    [
        ("title: 2024", "title", "2024"),
        ("title: 007", "title", "007"),
        ("title:", "title", None),
        ("title: 2025-01-02", "title", "2025-01-02"),
        ("date: 2025-01-02T23:59:59Z", "date", "2025-01-02"),
        ("date: soon\ncreated: 2025-02-31\nupdated: Jan 2nd, 2025", "date", "2025-01-02"),
        ("date: 2025-02-31", "date", None),
        ("tags: one, '#two' three", "tags", ("one", "'#two'", "three")),
        ("tags: '#one #two'", "tags", ("one", "two")),
        ("tags: [1, ~, [Two, [three]]]", "tags", ("1", "two", "three")),
        ("alias: Home", "aliases", ("Home",)),
        ("aliases: Home, Casa", "aliases", ("Home", "Casa")),
        ("private: yes", "private", True),
        ("private: family only", "private", True),
        ("private: false", "private", False),
        ("private:", "private", False),
        ("~: nothing\n1: one\n2025-01-02: day", "properties", "nothing one day"),
        ("n: " + "9" * 5000, "properties", "9" * 4000),
        ("when: !!timestamp 2025-02-31", "properties", "2025-02-31"),
    ],
)
def test_frontmatter_values_are_taken_as_written(yaml: str, field: str, value: object) -> None:
    note = read_note(f"---\n{yaml}\n---\nbody")

    assert getattr(note, field) == value
    assert [chunk.text for chunk in note.chunks] == ["body"]


@pytest.mark.parametrize(
    "text",
    [
        *("---\ntitle: x\n\nnever closed", "---\ntitle: [x\n---\nbody", "---\n- x\n---\nbody", "---\nwords\n---\nbody"),
        *("---\n? [a]\n: b\n---\nbody", "---\na: &a [*a]\n---\nbody", "---\na: \ud800\n---\nbody"),
        *("----\na: b\n---\nbody", "\n---\na: b\n---\nbody", "---\na: b\x00\n---\nbody", "---\n!\n---\nbody"),
        *(
            f"---\n{'[' * 50_000}\n---\nbody",
            f"---\n{'- ' * 30_000}\n---\nbody",
            f"---\na: {'x' * MAX_CHARS}\n---\nbody",
            f"---\na: {'x' * (MAX_CHARS - 7)}\n---no end\n",
        ),
    ],
    ids=range(15),
)
def test_what_is_not_a_closed_yaml_mapping_is_text(text: str) -> None:
    note = read_note(text)

    assert (note.title, note.properties) == (None, "")
    assert solid("".join(chunk.text for chunk in note.chunks)) == solid(text)


def test_frontmatter_may_end_with_dots_and_follow_a_byte_order_mark() -> None:
    note = read_note("\ufeff--- \ntitle: x\n... \nbody")

    assert (note.title, note.chunks[0].text, note.chunks[0].start_line) == ("x", "body", 4)


def test_frontmatter_is_the_chunk_of_a_note_without_body() -> None:
    assert places("---\ntitle: House\nphone: 123\n---\n\n") == [(1, 4, "")]


def test_aliases_in_yaml_cannot_blow_up() -> None:
    lists = "".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("abcdefghi"))
    merged = lists.replace("[", "{<<: [").replace("]", "]}")
    started = time.process_time()

    for source in (
        f"a: &a [x, x]\n{lists}",
        f"a: &a {{x: y}}\n{merged}",
        f"a: &a {'x ' * 20_000}\nb: [{'*a, ' * 5_000}]",
    ):
        assert len(read_note(f"---\n{source}\n---\nbody").properties) <= 4_000
    assert time.process_time() - started < 2


# Tags, links, fields


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#One and (#two/three) #one", ("one", "two/three")),
        ("#123 #1984a #2025/01 #a-b_c #über", ("1984a", "2025/01", "a-b_c", "über")),
        ("a#no http://x.org/#no [text](#no) \\#no ##no", ()),
        ("## Heading #no\n\n```\n#no\n```\n\n`#no` ``a ` #no`` `open #yes", ("yes",)),
        ("---\ntags: [front]\n---\n#body #front", ("front", "body")),
        ("tags:: alpha, #beta\n- **keywords**:: x, y", ("alpha", "beta")),
    ],
)
def test_tags_are_words_after_a_hash(text: str, tags: tuple[str, ...]) -> None:
    assert read_note(text).tags == tags


def test_links_have_target_heading_alias_and_line() -> None:
    text = (
        "---\nup: '[[Front]]'\n---\n# See [[Top]]\n\n[[A#B|c d]] ![[img.png]]\n| [[T\\|x]] |\n[[#Here]] [[]] [[open\n"
    )

    assert read_note(text).links == (
        Link("Front", "", "", embed=False, line=2),
        Link("Top", "", "", embed=False, line=4),
        Link("A", "B", "c d", embed=False, line=6),
        Link("img.png", "", "", embed=True, line=6),
        Link("T", "", "x", embed=False, line=7),
        Link("", "Here", "", embed=False, line=8),
    )


def test_code_holds_no_links() -> None:
    assert read_note("`[[a]]`\n\n```\n[[b]]\n```\n\n~~~\n[[c]]").links == ()


def test_known_fields_in_the_text_are_metadata() -> None:
    note = read_note("alias:: Home, Casa\ndate:: 2025-01-02\n- keywords:: roof\nstd::vector:: x\nother:: value")

    assert (note.aliases, note.date, note.keywords, note.properties) == (("Home", "Casa"), "2025-01-02", ("roof",), "")


# Privacy


def test_every_line_touched_by_private_is_in_a_private_chunk() -> None:
    text = "open\nhalf <Private>secret\nsecret\n</PRIVATE> rest\nopen\n\n```\n<private>\n```\nto the end"

    assert [(chunk.start_line, chunk.end_line, chunk.private) for chunk in chunks(text)] == [
        (1, 1, False),
        (2, 4, True),
        (5, 7, False),
        (8, 10, True),
    ]


def test_nested_private_ends_with_the_outer_one() -> None:
    text = "<private>\na <private>b</private>\nc\n</private>\nopen"

    assert [(chunk.end_line, chunk.private) for chunk in chunks(text)] == [(4, True), (5, False)]


def test_blank_lines_between_private_lines_make_no_chunk() -> None:
    assert all(solid(text) for text in texts("```\n<private>a</private>\n\n<private>b</private>\n```"))


def test_private_text_gives_nothing_away_to_the_rest() -> None:
    secret = "<private># Secret</private>\n\n# Secret 2025-01-02 <private>\n\n#hidden\nalias:: X\n</private>"
    note = read_note(f"{secret}\n\nbetween\n\n# Open\n\n## Deep <private></private>\n\ntext")

    assert (note.title, note.date, note.tags, note.aliases) == ("Open", None, (), ())
    assert [(chunk.heading, chunk.date, chunk.private) for chunk in note.chunks] == [
        ("", None, True),
        ("Secret 2025-01-02 <private>", "2025-01-02", True),
        ("", None, False),
        ("Deep <private></private>", None, True),
        ("", None, False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "---\nprivate: true\n---\n# T\n\nbody",
        "---\nprivate: true\ntitle: [slip\n---\nbody",
        "---\nprivate: true\ntitle: x\nprivate: false\n---\nbody",
        "---\nPrivate: true\nprivate: no\n---\nbody",
        "---\nprivate: no\nprivate: no one else may read it\n---\nbody",
        "---\nPrivate : 'yes'\nnever closed\n\nbody",
        "---\ndescription: <private>x</private>\n---\nbody",
        "private:: true\n\nbody",
    ],
)
def test_a_note_that_says_private_is_private_even_if_its_yaml_is_wrong(text: str) -> None:
    note = read_note(text, size=30)

    assert note.private
    assert all(chunk.private for chunk in note.chunks)


# Time


@pytest.mark.parametrize(
    "piece",
    [
        *("[", "[[a", "![[a|", "*", "`", "`a``b", "#", "> ", ">", "-", "- ", "#a ", "a:: ", "<private", "<private>"),
        *(". ", ".", " ", "word ", "word\n", "- x\n", "# h\n", "a\n---\n", "- 2025-03-01 x\n", "```\n", "    ```\n"),
        *("\n", "2 January 2025 "),
    ],
)
def test_time_grows_with_the_length_of_the_note_only(piece: str) -> None:
    started = time.process_time()

    read_note(piece * 50_000 + "x")
    assert time.process_time() - started < 4
