"""The built-in embedder: its shipped data, its word pieces, its vectors."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from tars.embeddings.builtin import FOLDER, MEMO_WORDS, StaticTable, WordPieces

# What HuggingFace's `tokenizers` makes of these with the same vocabulary, without [UNK].
PIECES = [
    ("Hello, World!", "hello , world !"),
    ("unaffable embeddings", "una ##ffa ##ble em ##bed ##ding ##s"),
    ("Café naïve E\u0301COLE", "cafe naive ecole"),
    ("Größe İstanbul", "gr ##o ##ße istanbul"),
    ("don't snake_case x=1", "don ' t snake _ case x = 1"),
    ("5€ and $5", "5 ##€ and $ 5"),
    ("C++ & C#", "c + + & c #"),
    ("東京 tower", "東 京 tower"),
    ("안녕", "ᄋ ##ᅡ ##ᆫ ##ᄂ ##ᅧ ##ᆼ"),
    ("“curly”—dash…", "“ curly ” — dash …"),
    ("a\x00b\u200bc a\x1cb", "abc ab"),
    ("12:30pm 2023-05-08", "12 : 30 ##pm 202 ##3 - 05 - 08"),
    ("zzzqqq ﬁne ½\u3000cup", "z ##zz ##q ##q ##q ﬁ ##ne ½ cup"),
    ("😀 hi 👍🏽", "hi"),
    ("x" * 101, ""),
]

ODD = ["", " \n\t", "\x00", "\ud800", "a\udfffb", "😀", "word " * 30_000, "x" * 100_000, "東" * 100_000, "\u0301" * 50]


def tokens(table: StaticTable, text: str) -> list[int]:
    """The distinct word pieces in the order of their first use."""
    return list(dict.fromkeys(table._pieces.of(text)))


@pytest.fixture(scope="module")
def table() -> StaticTable:
    return StaticTable()


@pytest.fixture(scope="module")
def vocabulary() -> list[str]:
    return (FOLDER / "vocab.txt").read_text(encoding="utf-8").splitlines()


def test_the_shipped_files_are_those_of_the_checksums() -> None:
    lines = (FOLDER / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    expected = {name: digest for digest, name in (line.split("  ") for line in lines)}

    assert expected == {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in expected}
    assert set(expected) == {"table.npy", "scales.npy", "vocab.txt"}


def test_the_table_has_a_row_for_every_word_piece(vocabulary: list[str]) -> None:
    rows, scales = np.load(FOLDER / "table.npy"), np.load(FOLDER / "scales.npy")

    assert rows.dtype == np.int8
    assert rows.shape == (len(vocabulary), StaticTable.dimensions)
    assert scales.shape == (len(vocabulary),)
    assert np.isfinite(scales).all() and (scales >= 0).all()


def test_importing_and_making_it_loads_no_numpy() -> None:
    code = "import sys, tars.embeddings.builtin as b; b.StaticTable(); sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("text", "pieces"), PIECES)
def test_words_are_cut_as_bert_cuts_them(table: StaticTable, vocabulary: list[str], text: str, pieces: str) -> None:
    expected = dict.fromkeys(pieces.split())

    assert [vocabulary[number] for number in tokens(table, text)] == list(expected)


def test_a_word_that_does_not_come_out_even_is_unknown_as_a_whole() -> None:
    words = WordPieces(["un", "##known", "##k"])

    assert list(words.of("unknown unk unx")) == [0, 1, 0, 2]


def test_repeated_words_count_as_often_as_they_are_there() -> None:
    assert list(WordPieces(["tea", "for"]).of("Tea for tea")) == [0, 1, 0]


def test_the_memory_of_words_is_bounded(vocabulary: list[str]) -> None:
    words = WordPieces(vocabulary)

    for number in range(MEMO_WORDS + 10):
        list(words.of(f"n{number}"))
    list(words.of("y" * 1_000))

    assert len(words) <= MEMO_WORDS
    assert max(map(len, words)) < 100


def test_vectors_have_length_one(table: StaticTable) -> None:
    rows = table.documents(["a cup of tea", "x", "The quick brown fox. " * 500])

    assert rows.dtype == np.float32
    assert rows.shape == (3, table.dimensions)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_text_without_known_words_has_a_vector_of_zeros(table: StaticTable) -> None:
    assert not table.documents(["", "😀", "x" * 101, " \x00 "]).any()


def test_no_texts_give_no_rows(table: StaticTable) -> None:
    assert table.documents([]).shape == (0, table.dimensions)
    assert table.vectors([]).shape == (0, table.dimensions)


def test_a_text_has_the_same_vector_alone_and_among_others(table: StaticTable) -> None:
    texts = ["We met Anna in Lisbon.", "", "Backups run at night.", "long " * 20_000 + "story"]

    together = table.documents(texts)

    assert np.array_equal(together, np.stack([table.query(text) for text in texts]))


def test_a_long_text_is_summed_whole(table: StaticTable) -> None:
    long = table.query("tea " * 10_000 + "train " * 10_000)

    assert np.allclose(long, table.query("tea train"), atol=1e-4)


def test_token_vectors_have_length_one_and_make_up_the_text_vector(table: StaticTable) -> None:
    ids = tokens(table, "violin")
    rows = table.vectors(ids)

    assert len(ids) == 1
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.allclose(rows[0], table.query("violin"), atol=1e-5)


def test_common_words_hardly_turn_the_vector(table: StaticTable) -> None:
    assert table.query("what is the name of the violin?") @ table.query("violin") > 0.8


@pytest.mark.parametrize(
    ("question", "related", "unrelated"),
    [
        (
            "Where did we eat sushi?",
            "Dinner at the Japanese restaurant by the harbour.",
            "The printer needs new toner.",
        ),
        (
            "How is my doctor called?",
            "Appointment with the physician at the clinic.",
            "Planted tomatoes in the garden.",
        ),
        ("What pets does she have?", "Her cat and two dogs slept all day.", "The invoice is due in March."),
        ("restart the server", "Reboot the machine after the kernel upgrade.", "Grandma baked an apple cake."),
        ("When is the holiday trip?", "We fly to Spain on vacation in July.", "The compiler reports a syntax error."),
    ],
)
def test_related_texts_are_closer_than_unrelated_ones(
    table: StaticTable, question: str, related: str, unrelated: str
) -> None:
    near, far = table.documents([related, unrelated]) @ table.query(question)

    assert near > far + 0.1


@pytest.mark.parametrize(("word", "like", "unlike"), [("doctor", "physician", "violin"), ("car", "vehicle", "soup")])
def test_words_of_like_meaning_have_near_vectors(table: StaticTable, word: str, like: str, unlike: str) -> None:
    one, near, far = table.vectors(tokens(table, f"{word} {like} {unlike}"))

    assert one @ near > one @ far + 0.2


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_any_text_has_a_vector(table: StaticTable, text: str) -> None:
    length = np.linalg.norm(table.query(text))

    assert length == 0 or length == pytest.approx(1, abs=1e-4)
    assert all(0 <= number < 30_522 for number in tokens(table, text))
