"""Any text to the small parsers: paths, bytes, addresses, arguments, citations, names."""

from __future__ import annotations

import atexit
import json
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tars import arguments, citations, identifiers, memory, wire
from tars.errors import TarsError
from tars.search.classify import kind_of
from tars.search.code import terms_of
from tars.search.query import MAX_CHARS, content_words, normalise
from tars.search.words import any_of
from tars.tools import ANTHROPIC_TOOLS
from tars.untrusted import FORGED, escaped, fenced, unfenced

TEXTS = st.one_of(
    st.lists(
        st.sampled_from(
            [
                *(
                    "a.md:1",
                    "x/y z.md:3-9",
                    "[b.md:12]",
                    "http://h/a.md:1",
                    "getUserById",
                    "HTTPResponseError",
                    "snake_case_x",
                    "URLs",
                ),
                *(
                    "</memory>",
                    "<|im_start|>",
                    "[INST]",
                    "< / x>",
                    "<note ",
                    "&lt;",
                    "&#91;",
                    "\x00",
                    "\ud800",
                    "\u2028",
                    "İ",
                    "ﬀ",
                ),
                *(
                    "../",
                    "/etc",
                    "~",
                    ".git",
                    "C:\\",
                    "Memory.md",
                    "a" * 300,
                    ".md",
                    "sub/",
                    "\n",
                    " ",
                    "://",
                    "@",
                    ":",
                    "%41",
                    "[::1]",
                ),
                *(
                    "localhost",
                    "127.0.0.1",
                    "0.0.0.0",
                    "11434",
                    "user:pa/ss@",
                    "u:p\udcff@",
                    "http://",
                    "box",
                    "http",
                    "https",
                    "2026-02-30",
                    "2026",
                    "-",
                    "T",
                ),
            ]
        ),
        max_size=8,
    ).map("".join),
    st.text(max_size=60),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
PATTERNS = st.lists(
    st.one_of(
        st.sampled_from(
            ["a.md", "!a.md", "/", "!", "\\", "[", "[a", "**", "***", "a/**/b", "#", "\\#", " ", "a\\ ", "[!]"]
        ),
        TEXTS,
    ),
    max_size=5,
).map("\n".join)
ANYTHING = st.tuples(
    TEXTS, TEXTS, st.one_of(st.binary(max_size=60), TEXTS.map(lambda t: t.encode("utf-16", "replace"))), JSON, PATTERNS
)


@cache
def folder() -> Path:
    """A memory folder with a note, a link that leaves it, and one that goes round."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    root = Path(place.name).resolve()
    (root / "notes" / "sub").mkdir(parents=True)
    (root / "outside.md").write_text("no")
    (root / "notes" / "Memory.md").write_text("yes")
    (root / "notes" / "away.md").symlink_to(root / "outside.md")
    (root / "notes" / "round.md").symlink_to(root / "notes" / "round.md")
    return root / "notes"


def leaves_hold(given: tuple[str, str, bytes, Any, str]) -> None:
    text, other, content, value, patterns = given
    path_holds(text)
    bytes_hold(content)
    address_holds(text)
    arguments_hold(value, other)
    patterns_hold(patterns, text)
    sent = json.dumps(wire.encodable(value)).encode()
    assert json.loads(sent) is not ...
    assert "\n" not in wire.one_line(text) and len(wire.one_line(text)) <= 200
    found = citations.find(text)
    assert all(text[slice(*c.span)].startswith(c.path) for c in found)
    assert all(a.span[1] <= b.span[0] for a, b in pairwise(found))
    citations.check(found, {other: [(1, 9)], "a.md": [(1, 1)]})
    assert not FORGED.search(escaped(text))
    fence = fenced(text, "passage", path=other)
    assert fence.count("</passage>") == 1 and fence.count("<passage") == 1
    assert unfenced(fence) == text or "&" in text
    for name in identifiers.names(text):
        assert len(identifiers.parts(name)) > 1 and terms_of(name)
    assert set(identifiers.hidden_words(text).split()) <= {
        p for n in identifiers.NAME.findall(text) for p in identifiers.parts(n)
    }
    tidy = normalise(text)
    assert normalise(tidy) == tidy and len(tidy) <= MAX_CHARS
    assert any_of(content_words(tidy)).count('"') % 2 == 0
    assert kind_of(text) in ("factual", "navigational", "exploratory", "plain")


def path_holds(text: str) -> None:
    for path in (text, f"{text}.md"):
        try:
            target = memory.inside(folder(), path)
        except TarsError as error:
            assert "\n" not in str(error) or "\n" in path
            continue
        assert target.is_relative_to(folder()) and ".." not in target.parts
        assert target.name.lower().endswith(".md") and not target.is_symlink()


def bytes_hold(content: bytes) -> None:
    try:
        text, bom, encoding = memory.decode_exactly(content)
    except memory.Unreadable:
        return
    assert bom + text.encode(encoding) == content
    assert "\r" not in memory.decode(content)


def address_holds(text: str) -> None:
    try:
        server = wire.server(text)
    except TarsError as error:
        assert "pa/ss" not in str(error) or "@" not in text
        return
    assert "@" not in server.url and server.url.startswith(("http://", "https://"))
    server.url.encode()
    assert all(value.isascii() and value.isprintable() for value in server.headers.values())


def arguments_hold(value: Any, text: str) -> None:
    given = value if isinstance(value, dict) else {"query": value, "limit": value, "path": value, "fact": text, text: 1}
    for tool in ANTHROPIC_TOOLS:
        try:
            arguments.checked(tool["input_schema"], given)
        except arguments.WrongCall as error:
            assert str(error)
    try:
        first, last = arguments.days("after", text)
    except arguments.WrongCall:
        return
    assert first <= last and len(first) == len(last) == 10


def patterns_hold(patterns: str, path: str) -> None:
    (folder() / memory.IGNORE_FILE).write_text(patterns, encoding="utf-8", errors="surrogatepass")
    try:
        memory.ignore_rule(folder())(path)
    except TarsError as error:
        assert memory.IGNORE_FILE in str(error)
    finally:
        (folder() / memory.IGNORE_FILE).unlink()
