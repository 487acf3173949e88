"""What fuzzing found once holds ever after; tests/fuzz/README.md tells how to look for more."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from fuzz.targets import BY_NAME, TARGETS, Target
from hypothesis import HealthCheck, given, settings

from tars.db import Filters

CASES: dict[str, list[Any]] = {
    "frontmatter": [
        "---\nprivate: true\nprivate: false\n---\nbody",
        "---\nPrivate: true\nprivate: no\n---\nbody",
    ],
    "expressions": [
        ((date(1960, 1, 1), ("from 1st of May 1950 to 6th of March 1951", date(1950, 5, 1), date(1951, 3, 6))), "{}"),
    ],
    "edits": [
        ([], "\n", False, "utf-8", [("remember", "Memory.md:3: I like tea", "")]),
    ],
    "queries": [
        ("", "hybrid", 0, Filters(type="\ud800"), 0.0, 0),
        ("tea", "fts", 5, Filters(path="\ud800*", tag="\udcff", after="\ud800"), 0.0, 0),
    ],
    "talks": [
        ["tea \udcff"],
    ],
    "session-notes": [
        (["I like tea \x00"], [], False),
        (["I like tea \ud800"], [], True),
        (["I like tea"], ["\ud800.md:1", "\x7f.md:3", "\uffff.md:4"], False),
    ],
    "transcripts": [
        ([{"start": {}}], []),
        ([{"start": None}, {"message": {"rolf": "user"}}, {"message": None}], []),
        ([{"message": {"role": "user", "text": 3}}, {"partial": 3}, {"compacted": 3}, {"kept": "x"}], []),
        ([{"message": {"role": "assistant", "calls": [{"id": "1", "name": "a"}]}}, {"shown": [["a.md", 1.2]]}], []),
        ([{"message": {"role": "tool", "answers": [{"call_id": "1", "name": "a", "content": "b"}]}}], []),
    ],
    "leaves": [
        ("http://u:p\ud800@box", "", b"", None, ""),
        ("http://u:p\udcff@box", "", b"", None, ""),
        ("http://box/\udcff", "", b"", None, ""),
        ("a" * 300, "", b"", None, ""),
    ],
}
EXAMPLES = {
    "edits": 25,
    "files": 15,
    "queries": 60,
    "calls": 60,
    "talks": 20,
    "transcripts": 60,
}  # of each target; these write files or search


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CASES.items() for value in values])
def test_what_was_found_once_holds(name: str, value: Any) -> None:
    BY_NAME[name].holds(value)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_it_holds_for_values_that_are_the_same_in_every_run(target: Target) -> None:
    @settings(
        max_examples=EXAMPLES.get(target.name, 100),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(target.values)
    def holds(value: Any) -> None:
        target.holds(value)

    holds()
