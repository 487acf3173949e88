"""Questions that a memory asks about itself: what a sentence says around a link leads to the note it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from tars import memory
from tars.bench.questions import Case, Question, Span
from tars.chunker import Note, read_note
from tars.errors import TarsError
from tars.frontmatter import read_frontmatter
from tars.search.query import STOP_WORDS, WORD

LEAST_WORDS = 5  # that carry a meaning; less says too little to lead anywhere
END = 10**9  # the last line of any note

LINK = re.compile(r"!?\[\[([^\[\]|#\\]*)(?:#([^\[\]|\\]*))?(?:\\?\|([^\[\]]*))?\]\]")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[.\]\s+)?|\s*#{1,6}\s+|\s*>+\s*")
SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]”’*_]{0,3}\s+(?=\S)")
MARKUP = re.compile(r"[*_`~|]+")


def own_questions(folder: Path, *, max_bytes: int) -> Case:
    """A question for each link of the folder that says enough around it, in the order of the notes."""
    if not folder.is_dir():
        raise TarsError(f"the memory folder {folder} does not exist; make it, or name another with --memory")
    texts = readable(folder, max_bytes)
    notes = {path: read_note(text) for path, text in texts.items()}
    names = names_of(notes)
    found: dict[tuple[str, str], Question] = {}
    for path, note in notes.items():
        for question in questions_of(path, note, texts[path], names):
            found.setdefault((question.text, question.evidence[0].path), question)
    numbered = (replace(question, id=f"{at:04} {question.id}") for at, question in enumerate(found.values()))
    return Case(folder.name, "links", folder, tuple(numbered))


def readable(folder: Path, max_bytes: int) -> dict[str, str]:
    """The text of every note that can be read, by path."""
    texts = {}
    for note in memory.list_notes(folder)[0]:
        try:
            texts[note.path] = memory.decode(memory.read_bytes(folder, note.path, max_bytes=max_bytes))
        except (FileNotFoundError, memory.Unreadable):
            continue
    return texts


def names_of(notes: Mapping[str, Note]) -> dict[str, str]:
    """The note that a name means, where it means only one: by its path, else its file's name, else alias or title."""
    names: dict[str, str] = {}
    for kind in (by_path, by_file, by_itself):
        meant: dict[str, set[str]] = {}
        for path, note in notes.items():
            for name in kind(PurePosixPath(path), note):
                meant.setdefault(name.lower(), set()).add(path)
        names = {**{name: min(paths) for name, paths in meant.items() if len(paths) == 1}, **names}
    return names


def by_path(path: PurePosixPath, note: Note) -> tuple[str, ...]:
    return str(path), str(path.with_suffix(""))


def by_file(path: PurePosixPath, note: Note) -> tuple[str, ...]:
    return path.name, path.stem


def by_itself(path: PurePosixPath, note: Note) -> tuple[str, ...]:
    return (*note.aliases, note.title) if note.title else note.aliases


def questions_of(path: str, note: Note, text: str, names: Mapping[str, str]) -> Iterator[Question]:
    """The questions of one note; what is private asks nothing, for the embedder may be another machine."""
    lines, hidden, body = text.split("\n"), memory.private_lines(text), read_frontmatter(text)[1]
    for line in sorted({link.line for link in note.links if link.line > body} - hidden):
        first, last = paragraph(lines, line - 1, body)
        if hidden.intersection(range(first + 1, last + 2)):
            continue
        named = {link.target for link in note.links if first < link.line <= last + 1}  # and not in code
        said = " ".join(ITEM.sub("", each, count=1).strip() for each in lines[first : last + 1])
        for sentence in SENTENCE_END.split(said):
            for link in LINK.finditer(sentence):
                target = names.get(link[1].strip().lower())
                asked = without_link(sentence, link)
                if link[1].strip() in named and target and target != path and says_enough(asked):
                    yield Question(
                        id=f"{path}:{line}",
                        text=asked,
                        category=str(PurePosixPath(target).parent),
                        evidence=(Span(target, 1, END),),
                        any_part=True,
                        taken_from=Span(path, first + 1, last + 1),
                    )


def paragraph(lines: list[str], at: int, body: int) -> tuple[int, int]:
    """First and last line (from 0) of the paragraph or list item around a line; the frontmatter ends before `body`."""
    first = last = at
    while first > body and not ITEM.match(lines[first]) and lines[first - 1].strip():
        first -= 1
    while last + 1 < len(lines) and lines[last + 1].strip() and not ITEM.match(lines[last + 1]):
        last += 1
    return first, last


def without_link(sentence: str, link: re.Match[str]) -> str:
    """The sentence as it reads, without this link and every other one to the same note."""

    def shown(other: re.Match[str]) -> str:
        if other[1].strip().lower() == link[1].strip().lower():
            return " "
        return other[3] or other[1] or other[2] or ""

    return " ".join(MARKUP.sub("", LINK.sub(shown, sentence)).split())


def says_enough(text: str) -> bool:
    return sum(word not in STOP_WORDS for word in WORD.findall(text.lower())) >= LEAST_WORDS
