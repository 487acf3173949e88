"""Any text as a note: its chunks, its frontmatter, its links."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise

from hypothesis import strategies as st

from tars.chunker import Note, read_note
from tars.db import link_name, names_of
from tars.frontmatter import MAX_PROPERTIES, read_frontmatter
from tars.memory import private_lines

SECRET = "s3cr3t"
SENTENCE = "The boiler was serviced in the cellar and it took the whole morning."

LINES = st.sampled_from(
    [
        *(
            "# Title",
            "## Part",
            "#### 2 January 2025",
            "## 2025-03-01 ##",
            "Under",
            "===",
            "---",
            "...",
            "####### no",
            "#",
        ),
        *(
            "- milk",
            "- [x] 2025-03-01: paid",
            "* **2025-03-02** rest",
            "  - nested",
            "\t- deep",
            "  more",
            "1. first",
            "-",
        ),
        *("```", "````", "```python", "~~~", "    ```", "  ```", "``` a`b", "| a | b |", "|---|---|", "> quoted", ">"),
        *("<private>", "</private>", "<PRIVATE>x</private>", "<private a>", f"<private>{SECRET}</private>", SECRET),
        *(
            f"# {SECRET}",
            f"#{SECRET}",
            f"alias:: {SECRET}",
            f"title: {SECRET}",
            f"[[{SECRET}]]",
            "<private",
            "private>",
        ),
        *("", "", "\t", " ", "\r", "a\x0bb\u2028c\x85d", "\ufeff", "\0", "\ud800", "private: true", "private: no"),
        *("word " * 7, "x" * 90, SENTENCE, f"{SENTENCE} {SENTENCE}", "汉字。" * 20, f"- {SENTENCE}", "tags:: a, b"),
        *("[[Note#Part|alias]]", "![[a]] `[[b]]`", "#tag and #a/b", "[[", "]]", "`[[", "\\[[a]]", "private:: true"),
    ]
)
WORDS = st.one_of(LINES, st.text(max_size=20))
TEXTS = st.one_of(st.lists(WORDS, max_size=30).map("\n".join), st.text(max_size=300))
NOTES = st.tuples(TEXTS, st.integers(30, 300))

VALUES = st.sampled_from(
    [
        *(
            "x",
            "[a, b]",
            "{a: b}",
            "&a [*a]",
            "*a",
            "&b [x, x]",
            "[*b, *b, *b]",
            "!!python/object/apply:os.system ['false']",
        ),
        *(
            "!!binary x",
            "!x y",
            "1e999",
            "9" * 400,
            "-1",
            ".inf",
            "~",
            "null",
            "true",
            "no",
            "2025-02-30",
            "2025-02-28",
        ),
        *(
            "2025-13-01T99:99",
            "0000-00-00",
            "99999-01-01",
            "'",
            '"',
            '"\\x00"',
            "|",
            ">",
            "? x",
            "- a",
            "[",
            "[[[[",
            "{",
            "}",
        ),
        *(
            "# c",
            "a: b: c",
            "%TAG ! x",
            "\x07",
            "\x7f",
            "\t",
            "\ud800",
            "[[Link]]",
            "'#A/ , b'",
            "2 May 2025",
            "<<: *a",
        ),
    ]
)
KEYS = st.sampled_from(
    "title date created updated alias aliases tags TAG keywords description author private Private other <<".split()
)
PAIRS = st.one_of(st.builds("{}: {}".format, KEYS, VALUES), VALUES, st.text(max_size=12), LINES)
FRONTMATTER = st.tuples(
    st.sampled_from(["---\n", "--- \n", "---\t\n", "\n---\n", "---"]),
    st.lists(PAIRS, max_size=12),
    st.sampled_from(["\n---\n", "\n---", "\n...\nx", "\n--- \nbody", "", "\n----\n"]),
).map(lambda parts: parts[0] + "\n".join(parts[1]) + parts[2])

NAMES = st.text(st.characters(exclude_characters="[]|#\\`\n", exclude_categories=["Cs"]), max_size=12)
PATHS = st.one_of(
    st.text(max_size=30), st.lists(NAMES, max_size=5).map("/".join), st.sampled_from(["a.md.md", "A/.md"])
)
LINKS = st.tuples(NAMES, NAMES, NAMES, st.booleans(), TEXTS, PATHS)


def note_holds(given: tuple[str, int]) -> None:
    """Chunks are the note's own lines, all of them, in order; what is private stays so."""
    text, size = given
    note = read_note(text, size=size)
    lines = text.removeprefix("\ufeff").split("\n")

    assert note == read_note(text, size=size)
    for chunk in note.chunks:
        named = lines[chunk.start_line - 1 : chunk.end_line]
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        assert chunk.text.strip() and named[0].strip() and named[-1].strip()
        overlong = max(len(named[0]), len(named[-1])) > size
        assert chunk.text == "\n".join(named) or (overlong and chunk.text in "\n".join(named))
    assert all(a.end_line < b.start_line or len(lines[a.end_line - 1]) > size for a, b in pairwise(note.chunks))
    assert not outside(note, lines)
    keeps_secrets(note, text.removeprefix("\ufeff"))


def outside(note: Note, lines: list[str]) -> list[int]:
    """The lines with text behind the frontmatter that are in no chunk."""
    held = {at for chunk in note.chunks for at in range(chunk.start_line, chunk.end_line + 1)}
    body = read_frontmatter("\n".join(lines))[1]
    return [at for at, line in enumerate(lines, 1) if at > body and line.strip() and at not in held]


def keeps_secrets(note: Note, text: str) -> None:
    hidden = hidden_lines(text)
    assert hidden <= private_lines(text) or not {
        at for at in hidden - private_lines(text) if text.split("\n")[at - 1].strip()
    }
    for chunk in note.chunks:
        held = {at for at in range(chunk.start_line, chunk.end_line + 1) if text.split("\n")[at - 1].strip()}
        assert chunk.private or not held & hidden
    said = {at for at, line in enumerate(text.split("\n"), 1) if SECRET in line.lower()}
    if said <= hidden and not note.private:
        public = [(chunk.text, chunk.heading) for chunk in note.chunks if not chunk.private]
        about = (note.title, note.aliases, note.tags, note.keywords, note.description, note.author, note.properties)
        assert SECRET not in repr((public, about)).lower()


def hidden_lines(text: str) -> set[int]:
    """The lines, counted from 1, that <private> touches, as a reader with a pencil would find them."""
    depth, found = 0, set()
    for at, line in enumerate(text.split("\n"), 1):
        deepest = depth
        for tag in re.findall(r"<(/?)private(?:\s[^<>]{0,200})?>", line, re.IGNORECASE):
            depth = max(0, depth - 1) if tag else depth + 1
            deepest = max(deepest, depth)
        if deepest:
            found.add(at)
    return found


def frontmatter_holds(text: str) -> None:
    """Whatever stands there, it is read or left as text, stays small, and never publishes what says private."""
    found, count = read_frontmatter(text)

    assert 0 <= count <= text.count("\n") + 1
    assert found.date is None or date.fromisoformat(found.date)
    assert all(tag == tag.lower() and tag and not re.search(r"[\s,]|^[#/]|[#/]$", tag) for tag in found.tags)
    assert len(found.other) <= MAX_PROPERTIES
    assert len(repr(found)) <= 20 * len(text) + 100_000
    if count:
        says = [line for line in text.split("\n")[1 : count - 1] if re.fullmatch(r"private: true", line, re.IGNORECASE)]
        assert found.private or not says
    read_note(text)


def links_hold(given: tuple[str, str, str, bool, str, str]) -> None:
    """A link that was written is read as written; every name that a note has leads to it."""
    target, heading, alias, embed, text, path = given
    written = "!" * embed + f"[[{target}#{heading}|{alias}]]"
    wanted = (target.strip(), heading.strip(), alias.strip(), embed, 1)

    note = read_note(written)
    assert [(link.target, link.heading, link.alias, link.embed, link.line) for link in note.links] == [wanted]
    for link in read_note(text).links:
        assert 1 <= link.line <= text.count("\n") + 1
        assert "[" not in link.target + link.heading + link.alias
        assert link.target in text.split("\n")[link.line - 1] or text.startswith("\ufeff")
    names = names_of(path, [target, alias])
    assert "" not in names
    assert not link_name(path) or names[link_name(path)] == 0
    assert {link_name(name) for name in (path, target, alias)} - {""} <= names.keys()
    assert link_name(f"../{target}.MD/") == link_name(f"{target}.md/"), "neither case nor a way up counts"
