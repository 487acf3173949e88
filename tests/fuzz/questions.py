"""Any text as a question to a small memory, in every mode, with any filters."""

from __future__ import annotations

import atexit
import json
import tempfile
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from fuzz import notes
from hypothesis import strategies as st

from tars.app import App
from tars.chat import Text, ToolCall
from tars.chunker import read_note
from tars.config import load
from tars.conversation import Conversation
from tars.db import Filters
from tars.memory import decode
from tars.sessions import load as load_transcript
from tars.tools import BY_NAME as TOOLS
from tars.tools import Toolbox

NOTES = {
    "Memory.md": "# Memory\n\n## Facts\n\n- I like tea\n- The boiler is serviced in October\n",
    "2026-03-01.md": "Had tea with Ada. #friends\n",
    "sessions/2026-02-01-trip.md": "---\ndate: 2026-02-01\ntags: [session]\n---\n# Trip\n\n- went to Łódź by train\n",
    "code/api.md": "# API\n\n`getUserById` calls get_user; see [[Memory]] and [[Trip]].\n\n```python\nx = 1\n```\n",
    "long.md": "# Long\n\n"
    + "\n\n".join(f"## Part {n}\n\nThe walrus number {n} eats fish. {'word ' * 90}" for n in range(9)),
    "hidden.md": "---\nprivate: true\n---\n汉字 and 👍 are private.\n",
}
WORDS = st.one_of(
    st.sampled_from(
        [
            *(
                "tea",
                "boiler",
                "walrus",
                "getUserById",
                "get_user",
                "[[Trip]]",
                "Łódź",
                "汉字",
                "👍",
                "when",
                "?",
                "last week",
            ),
            *(
                '"',
                "'",
                "*",
                "(",
                ")",
                "AND",
                "OR",
                "NOT",
                "NEAR(",
                "NEAR/2",
                "^",
                ":",
                "content:",
                "+",
                "-",
                "{",
                "}",
                "--",
            ),
            *(
                "\0",
                "\ud800",
                "\u202e",
                "\u200b",
                "שלום",
                "the",
                "of",
                ";",
                "DROP TABLE chunks",
                "%",
                "_",
                "\\",
                "2026-02",
                "in",
            ),
            *(
                "a" * 5000,
                "1" * 400,
                "Q1",
                "`x`",
                "v1.2.3",
                "about",
                "decisions",
                "\n",
                "\t",
                "e\u0301",
                "ﬁ",
                "İ",
                "ß",
                "ſ",
            ),
        ]
    ),
    st.text(max_size=20),
)
QUERIES = st.one_of(st.lists(WORDS, max_size=8).map(" ".join), st.text(max_size=100))
MODES = st.sampled_from(["hybrid", "fts", "vec"])
FILTERS = st.builds(
    Filters,
    after=st.sampled_from([None, None, "2026-02-15", "0001-01-01", "x\ud800", "2026-02"]),
    before=st.sampled_from([None, None, "2026-02-15", "9999-12-31", "\0"]),
    type=st.sampled_from([None, None, "episodic", "semantic", "note", "'", "\ud800"]),
    path=st.one_of(
        st.none(),
        st.none(),
        st.sampled_from(["*", "code", "code/", "./code/*", "[", "[a-", "**/*", "\ud800", "\0", "?" * 99]),
    ),
    tag=st.one_of(st.none(), st.none(), st.sampled_from(["friends", "#session", "#", "/", "\ud800"])),
)
QUESTIONS = st.tuples(
    QUERIES,
    MODES,
    st.one_of(st.integers(-1, 12), st.sampled_from([100, 10**9, -(10**9)])),
    FILTERS,
    st.sampled_from([0.0, 0.0, 0.5, 1.0, -1.0, float("nan"), float("inf")]),
    st.sampled_from([0, 0, 1, 500, -5]),
)


@cache
def memory() -> App:
    """One memory for all questions, gone with the process."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    folder = Path(place.name) / "notes"
    for path, text in NOTES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    environ = {
        "TARS_HOME": str(Path(place.name) / "home"),
        "TARS_MEMORY_DIR": str(folder),
        "TARS_NOW": "2026-03-02T10:00",
    }
    app = App(load({}, environ=environ))
    app.build()
    return app


def question_holds(given: tuple[str, str, int, Filters, float, int]) -> None:
    """There are results in order, each once and none that a filter forbids, or a reason why there are none."""
    text, mode, limit, filters, least, budget = given
    asked = {"limit": limit, "mode": mode, "filters": filters, "min_score": least, "budget": budget}
    outcome = memory().search(text, **asked)
    found = outcome.results

    assert (outcome.empty_reason is None) == bool(found)
    assert not found or 1 <= len(found) <= (min(limit, 100) if limit > 0 else 100)
    assert len({result.chunk_rowid for result in found}) == len(found)
    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)
    for result in found:
        assert 0 <= result.score <= 1 and 0 <= result.confidence <= 1
        assert satisfies(result.file_path, result.date or "", filters)
    again = memory().search(text, **asked)
    assert replace(again, results=[]) == replace(outcome, results=[]) and again.results == found


def satisfies(path: str, day: str, filters: Filters) -> bool:
    wanted = (filters.path or "*").removeprefix("./")
    inside = fnmatchcase(path, wanted) or path == wanted or path.startswith(wanted.rstrip("/") + "/")
    return inside and (filters.after or "") <= day <= (filters.before or "~")


# ---- any note in the index

TITLES = st.sampled_from(
    ['"\\0"', '"\\ud800"', '"\\udbff\\udfff"', "[a, b]", "'#'", "x" * 300, "[[Memory]]", "汉字", '"\\e[31m"']
)
HEADS = st.builds("---\ntitle: {0}\naliases: [{0}, b]\ntags: {0}\nauthor: {0}\n---\n".format, TITLES)
CONTENTS = st.one_of(
    st.tuples(st.one_of(st.just(""), HEADS, notes.FRONTMATTER), notes.TEXTS)
    .map("".join)
    .map(lambda text: text.encode(errors="replace")),
    notes.TEXTS.map(lambda text: text.encode("utf-16", "replace")),
    st.binary(max_size=80),
)
FILES = st.tuples(
    st.sampled_from(["x.md", "Łódź.md", "2026-02-30.md", "a\x07b.md", "d/'x\".md", "sessions/%_.md"]), CONTENTS
)


def file_holds(given: tuple[str, bytes]) -> None:
    """Whatever a file holds, the index takes it in or says why not, stays whole, and forgets it when it goes."""
    path, content = given
    app = memory()
    file = app.config.memory_dir / path
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    try:
        report = app.build()
        assert report is not None
        whole = app.store.rowid_sets()
        assert whole["chunks"] == whole["chunks_fts"] == whole["vec_chunks"] | app.store.vectorless()
        if path not in [name for name, _ in app.store.skipped()]:
            found = app.search("", limit=100, filters=Filters(path=path)).results
            wanted = read_note(decode(content))
            assert len(found) == min(len(wanted.chunks), 100)
            assert all(result.private or not wanted.private for result in found)
            json.dumps([(result.file_title, result.heading, result.content) for result in found]).encode()
    finally:
        file.unlink()
    app.build()
    assert not app.search("", filters=Filters(path=path)).results


# ---- any call of a tool

ARGUMENTS = st.one_of(
    WORDS,
    st.integers(),
    st.none(),
    st.floats(),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(
        ["Memory.md", "hidden.md", "long.md", "../x.md", "I like tea", "Memory.md:5: I like tea", "private", "1e400"]
    ),
)
KEYS = st.sampled_from(
    "query limit after before type path tag start_line end_line fact section old new text hypothesis x".split()
)
CALLS = st.tuples(st.sampled_from([*TOOLS, "memory", ""]), st.dictionaries(KEYS, ARGUMENTS, max_size=5), st.booleans())


def call_holds(given: tuple[str, dict[str, Any], bool]) -> None:
    """A model may ask for anything: it gets JSON that can be sent, and nothing private if that would leave the machine."""
    name, arguments, leaves = given
    app = memory()
    before = (app.config.memory_dir / "Memory.md").read_bytes()
    answer = Toolbox(app, leaves_machine=leaves).answer(ToolCall("1", name, arguments))

    assert isinstance(json.loads(answer.content), dict)
    answer.content.encode()
    assert not leaves or "are private" not in answer.content
    if (app.config.memory_dir / "Memory.md").read_bytes() != before:
        (app.config.memory_dir / "Memory.md").write_bytes(before)
        app.build()


# ---- any message

TALKS = st.lists(QUERIES.filter(str.strip), min_size=1, max_size=3)


def talk_holds(messages: list[str]) -> None:
    """Whatever is said gets an answer, is in the transcript as it was said, and leaves notes that can be read."""
    app = memory()
    notes_before = set(app.config.memory_dir.rglob("*.md"))
    talk = Conversation(app, app.provider("recall"))
    for text in messages:
        said = [event.text for event in talk.ask(text) if isinstance(event, Text)]
        assert "".join(said).strip()
    session = talk.session
    assert session is not None
    kept = app.config.places.state / "sessions" / f"{session.id}.jsonl"
    assert [message.text for message in load_transcript(kept).messages if message.role == "user"] == messages
    list(talk.close())
    kept.unlink()
    for path in set(app.config.memory_dir.rglob("*.md")) - notes_before:
        assert read_note(decode(path.read_bytes())).date == "2026-03-02"
        path.unlink()
    app.build()
