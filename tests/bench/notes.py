"""Folders of notes for measuring cost: real English prose that every Python installation brings, recombined.

    python tests/bench/notes.py DIR --count 10000 --seed 0

The prose is the documentation inside the standard library: help topics, docstrings, comments, the licence.
Its sentences are drawn anew for each note and mixed with names and dates: notes share words and topics, as
notes do, but none is a copy of another, and new words keep coming as the folder grows. The same seed and the
same Python give the same bytes. A note is the same in a folder of any size, but for its links.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import re
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from random import Random

# Lengths are log-normal, as in people's folders: many short notes and a few long ones.
# The last paragraph and the links come on top, which makes 2.6 KB of the mean.
MEAN_CHARS, SPREAD, LEAST_CHARS, MOST_CHARS = 2_330, 0.6, 450, 6_900
FIRST_DAY, DAYS = date(2021, 1, 1), 2_000
FOLDERS = ("", "daily", "sessions", "projects", "reading", "people", "home", "work/meetings", "work/ideas")
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings", "lib2to3"}

MARKUP = re.compile(r":\w+:`([^`]*)`|`+([^`]*)`+|\*+(\w[^*]*)\*+|\"(\w+)\"")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
STOP = frozenset(
    """a an and are as at be but by can do does for from has have if in into is it its may no not of on or
    that the their then there these this to was when where which will with you your""".split()
)
MENTIONS = (
    "{name} says that {rest}",
    "{sentence} Ask {name} about it.",
    "{sentence} ({name}, {day})",
    "On {day}, {rest}",
    "With {name} on {day}. {sentence}",
    "At {name}, {rest}",
    "{sentence} That cost {name} {amount} hours.",
    "For {name}: {rest}",
)
QUESTIONS = (
    "what is {words}",
    "how does {words} work",
    "when should {words}",
    "why {words}",
    "what did {name} say about {words}",
    "which {words}",
    "notes on {words} with {name}",
)


@dataclass(frozen=True, slots=True)
class Heading:
    """What other notes need to know of a note: where it is, what it is called, from when it is."""

    path: str
    title: str
    day: date


@cache
def sources() -> tuple[tuple[str, ...], ...]:
    """The sentences of every help topic and module that has twenty or more of them, in a fixed order."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [file.relative_to(library) for file in sorted(library.rglob("*.py"))]
    found = [_module_prose(_read(library / file)) for file in files if not SKIPPED.intersection(file.parts)]
    found += [[text] for text in _topics()]
    found += [[_read(file)] for file in sorted(library.glob("LICENSE*"))]
    seen: set[str] = set()
    groups = (tuple(_new_sentences(texts, seen)) for texts in found)
    return tuple(group for group in groups if len(group) >= 20)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _topics() -> list[str]:
    from pydoc_data.topics import topics

    return [topics[name] for name in sorted(topics)]


def _module_prose(code: str) -> list[str]:
    """The docstrings of a module, and its comments of two lines or more."""
    try:
        texts = list(_docstrings(ast.parse(code)))
    except SyntaxError:
        texts = []
    for block in re.findall(r"(?:^[ \t]*# [^\n]*\n){2,}", code, flags=re.MULTILINE):
        texts.append(re.sub(r"^[ \t]*# ", "", block, flags=re.MULTILINE))
    return texts


def _docstrings(tree: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if text := ast.get_docstring(tree):
        yield text
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(node)


def _new_sentences(texts: list[str], seen: set[str]) -> Iterator[str]:
    for text in texts:
        for paragraph in re.split(r"\n[ \t]*\n", textwrap.dedent(text)):
            for sentence in _sentences(paragraph):
                if sentence not in seen:
                    seen.add(sentence)
                    yield sentence


def _sentences(paragraph: str) -> list[str]:
    """What reads as English in a paragraph; code, tables and signatures do not."""
    if paragraph.startswith((" ", "\t", ">>>")) or "::" in paragraph or "--" in paragraph:
        return []
    text = MARKUP.sub(r"\1\2\3\4", " ".join(paragraph.split()))
    return [part for part in re.split(r"(?<=[.!?]) (?=[A-Z])", text) if _is_prose(part)]


def _is_prose(sentence: str) -> bool:
    words = sentence.split()
    if not 5 <= len(words) <= 40 or not sentence[0].isupper() or sentence[-1] not in ".!?":
        return False
    plain = sum(1 for word in words if WORD.fullmatch(word.strip(".,;:!?()'")))
    return plain >= 0.9 * len(words) and not re.search(r"[=<>{}\[\]|_\\@#]", sentence)


@cache
def _halves() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Beginnings and ends of the longer words, out of which names are made."""
    words = {word.lower() for group in sources() for sentence in group for word in WORD.findall(sentence)}
    long = sorted(word for word in words if len(word) >= 6 and word.isalpha())
    starts = sorted({word[: len(word) // 2] for word in long})
    ends = sorted({word[-(len(word) // 2) :] for word in long})
    return tuple(starts), tuple(ends)


def _name(rng: Random) -> str:
    """A name: some come back all the time and most only once, so the vocabulary keeps growing."""
    which = Random(f"name:{int(20 * rng.paretovariate(0.3))}")
    starts, ends = _halves()
    return (which.choice(starts) + which.choice(ends)).capitalize()


@cache
def heading(seed: int, number: int) -> Heading:
    """Path, title and day of one note; they depend on nothing else, so any note can link to any other."""
    rng = Random(f"heading:{seed}:{number}")
    day = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
    folder = rng.choice(FOLDERS)
    words = _phrase(rng, rng.choice(sources()), 2, 5)
    title = f"{words.capitalize()} {_name(rng)}" if rng.random() < 0.6 else words.capitalize()
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    stem = f"{day}-{slug}-{number}" if folder in ("daily", "sessions") else f"{slug}-{number}"
    return Heading(path=f"{folder}/{stem}.md".lstrip("/"), title=title, day=day)


def note(seed: int, number: int, count: int) -> str:
    """The text of one note among `count`."""
    rng = Random(f"note:{seed}:{number}")
    head = heading(seed, number)
    target = rng.lognormvariate(math.log(MEAN_CHARS) - SPREAD**2 / 2, SPREAD)
    target = min(max(target, LEAST_CHARS), MOST_CHARS)
    parts = [_frontmatter(rng, head), f"# {head.title}\n"]
    # A note is about something: most of it comes from two sources, the rest from anywhere.
    topics = [rng.choice(sources()), rng.choice(sources())]
    used: set[str] = set()
    while sum(map(len, parts)) < target:
        if len(parts) > 2 and rng.random() < 0.25:
            parts.append(f"## {_phrase(rng, rng.choice(topics), 2, 6).capitalize()}\n")
        parts.append(_paragraph(rng, topics, used, head.day))
    if rng.random() < 0.6:
        others = [heading(seed, rng.randrange(count)) for _ in range(rng.randint(1, 3))]
        parts.append("See " + ", ".join(f"[[{Path(other.path).stem}]]" for other in others) + ".\n")
    return "\n".join(part for part in parts if part)


def _frontmatter(rng: Random, head: Heading) -> str:
    if rng.random() < 0.5:
        return ""
    words = _phrase(rng, rng.choice(sources()), 2, 4).lower().split()
    tags = ", ".join(word for word in words if len(word) > 3)
    return f"---\ndate: {head.day}\ntags: [{tags}]\n---\n"


def _paragraph(rng: Random, topics: list[tuple[str, ...]], used: set[str], day: date) -> str:
    """Two to six sentences that the note has not used yet, running or as a list."""
    lines = []
    for _ in range(rng.randint(2, 6)):
        group = rng.choice(topics) if rng.random() < 0.6 else rng.choice(sources())
        sentence = rng.choice([line for line in group if line not in used] or group)
        used.add(sentence)
        lines.append(_mention(rng, sentence, day))
    if rng.random() < 0.2:
        return "".join(f"- {line}\n" for line in lines)
    return " ".join(lines) + "\n"


def _mention(rng: Random, sentence: str, day: date) -> str:
    """The sentence, in one case of three with a name or a date put to it."""
    if rng.random() > 0.33:
        return sentence
    near = day + timedelta(days=rng.randint(-40, 40))
    return rng.choice(MENTIONS).format(
        sentence=sentence,
        rest=sentence[0].lower() + sentence[1:],
        name=_name(rng),
        day=f"{near.day} {near:%B %Y}",
        amount=rng.randint(2, 400) / 4,
    )


def _phrase(rng: Random, group: tuple[str, ...], least: int, most: int) -> str:
    """Some words in a row from one sentence, neither beginning nor ending with a stop word."""
    while True:
        words = WORD.findall(rng.choice(group))
        size = min(rng.randint(least, most), len(words))
        start = rng.randint(0, len(words) - size)
        chosen = words[start : start + size]
        if chosen and chosen[0].lower() not in STOP and chosen[-1].lower() not in STOP:
            return " ".join(chosen)


def write_notes(folder: Path, count: int, seed: int = 0) -> int:
    """Write `count` notes into the folder, dated as they say they are; returns the bytes written."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    total = 0
    for number in range(count):
        head = heading(seed, number)
        content = note(seed, number, count).encode()
        file = folder / head.path
        file.write_bytes(content)
        moment = datetime.combine(head.day, time(12)).timestamp()
        os.utime(file, (moment, moment))
        total += len(content)
    return total


def questions(count: int, seed: int = 0) -> list[str]:
    """Queries of 3 to 12 words as people type them: keywords, half sentences, questions."""
    rng = Random(f"questions:{seed}")
    return [_question(rng) for _ in range(count)]


def _question(rng: Random) -> str:
    form = rng.choice(QUESTIONS) if rng.random() < 0.6 else "{words}"
    words = _phrase(rng, rng.choice(sources()), 3, 7 if form in QUESTIONS else 12)
    return form.format(words=words.lower(), name=_name(rng))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write notes of real prose for measuring cost.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    total = write_notes(args.folder, args.count, args.seed)
    print(f"{args.count} notes, {total / 1e6:.1f} MB in {args.folder}")


if __name__ == "__main__":
    main()
