"""The built-in embedder: a table with one vector per word piece, summed over a text; numpy and nothing else."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FOLDER = Path(__file__).parent / "table"
LINE_END = 0xFFFF  # between the word pieces of two lines; no word piece has this number
LONGEST_WORD = 100  # characters; BERT calls a longer word unknown
MEMO_WORDS = 100_000  # about 15 MB when full
BLOCK = 4_096  # rows of the table that are held as floats at a time: 4 MB

_BLANKS = r" \t\n\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # not \s: BERT drops \x1c and its like
_MARKS = r"!-/:-@\[-`{-~"


class WordPieces(dict[str, tuple[int, ...]]):
    """The ids of a word's pieces, as uncased BERT cuts it, remembered per word; unknown words have none."""

    # A run without blanks or ASCII punctuation, or one mark. All else that BERT splits at is rare: see `_parts`.
    _words = re.compile(rf"[^{_BLANKS}{_MARKS}]+|[{_MARKS}]").findall

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.vocabulary = {piece: number for number, piece in enumerate(vocabulary)}

    def of(self, text: str) -> Iterator[int]:
        """
        >>> list(WordPieces(["un", "##known"]).of("Unknown"))
        [0, 1]
        """
        return chain.from_iterable(map(self.__getitem__, self._words(text.lower())))

    def __missing__(self, word: str) -> tuple[int, ...]:
        parts = [word] if word.isascii() and word.isprintable() else _parts(word)
        ids = tuple(chain.from_iterable(map(self._cut, parts)))
        if len(word) <= LONGEST_WORD:
            if len(self) >= MEMO_WORDS:
                self.clear()
            self[word] = ids
        return ids

    def _cut(self, word: str) -> tuple[int, ...]:
        """Always the longest piece that is known; a word that does not come out even is unknown as a whole."""
        if len(word) > LONGEST_WORD:
            return ()
        ids: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                if (piece := self.vocabulary.get(prefix + word[start:end])) is not None:
                    break
            else:
                return ()
            ids.append(piece)
            start, prefix = end, "##"
        return tuple(ids)


def _parts(word: str) -> list[str]:
    """The word without accents and control characters, cut around punctuation and ideographs."""
    kinds = [(char, unicodedata.category(char)) for char in unicodedata.normalize("NFD", word)]
    kept = ((char, kind) for char, kind in kinds if kind != "Mn" and kind[0] != "C" and char != "\ufffd")
    return "".join(f" {char} " if kind[0] == "P" or _is_ideograph(char) else char for char, kind in kept).split()


def _is_ideograph(char: str) -> bool:
    """In the blocks that BERT takes for Chinese; kana and hangul are not among them."""
    return (
        "\u4e00" <= char <= "\u9fff"
        or "\u3400" <= char <= "\u4dbf"
        or "\uf900" <= char <= "\ufaff"
        or "\U00020000" <= char <= "\U0002ceaf"
        or "\U0002f800" <= char <= "\U0002fa1f"
    )


class StaticTable:
    """Unit vectors from the table in the package: no model to run, and nothing leaves the machine."""

    name = "builtin-2"  # belongs to the table: with another table, another name, or old vectors mix with new
    dimensions = 256
    leaves_machine = False

    @property
    def size(self) -> int:
        """How many word pieces there are."""
        return len(self._pieces.vocabulary)

    @cached_property
    def pieces(self) -> list[str]:
        """The word pieces by number; one that begins with ## goes on with a word."""
        return list(self._pieces.vocabulary)

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        return self.read(texts)[1]

    def query(self, text: str) -> np.ndarray:
        row: np.ndarray = self.documents([text])[0]
        return row

    def read(self, texts: Sequence[str]) -> tuple[list[bytes], np.ndarray]:
        """Distinct word pieces and vectors of texts that are cut only once."""
        import numpy as np

        pieces = []
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            lines = self._lines(text)
            self._add(np.array(list(chain.from_iterable(lines)), dtype=np.intp), row)
            pieces.append(_packed(lines))
        return pieces, _unit(rows)

    def distinct_tokens(self, texts: Sequence[str]) -> list[bytes]:
        """The distinct word pieces of each line of each text: unsigned 16-bit numbers, LINE_END between lines."""
        return [_packed(self._lines(text)) for text in texts]

    def _lines(self, text: str) -> list[list[int]]:
        return [ids for line in text.split("\n") if (ids := list(self._pieces.of(line)))]

    def vectors(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """A unit row for each word piece."""
        import numpy as np

        rows = self._rows.take(np.asarray(ids, dtype=np.intp), axis=0).astype(np.float32)
        rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]  # no row of the table is all zeros
        return rows

    def _add(self, ids: np.ndarray, total: np.ndarray) -> None:
        """One text at a time and some pieces at a time: the rows stay in the processor's cache."""
        import numpy as np

        for start in range(0, len(ids), BLOCK):
            some = ids[start : start + BLOCK]
            total += self._scales.take(some) @ self._rows.take(some, axis=0).astype(np.float32)

    @cached_property
    def _pieces(self) -> WordPieces:
        return WordPieces((FOLDER / "vocab.txt").read_text(encoding="utf-8").splitlines())

    @cached_property
    def _rows(self) -> np.ndarray:
        import numpy as np

        return np.asarray(np.load(FOLDER / "table.npy", mmap_mode="r"))  # a plain view: np.memmap indexes slowly

    @cached_property
    def _scales(self) -> np.ndarray:
        import numpy as np

        scales: np.ndarray = np.load(FOLDER / "scales.npy")
        return scales


def _packed(lines: Sequence[Sequence[int]]) -> bytes:
    packed = array("H")
    for number, ids in enumerate(lines):
        if number:
            packed.append(LINE_END)
        packed.extend(sorted(set(ids)))
    return packed.tobytes()


def _unit(rows: np.ndarray) -> np.ndarray:
    """The rows, in place, made of length one; a row of zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)
    return rows
