"""Any text as a question to a small memory, in every mode, with any filters."""

from __future__ import annotations

import atexit
import tempfile
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from tars.app import App
from tars.config import load
from tars.db import Filters

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
