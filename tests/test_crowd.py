"""Many at once on one memory: nobody waits, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import write

from tars.app import App


def test_what_is_written_while_another_indexes_is_taken_in_by_that_one(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "the boiler hums"})
    indexer, writer, reader = make_app(), make_app(), make_app()
    said: list[str] = []
    writer.say = said.append
    facts = iter(["The walrus is called Otto", "The heron is called Ida"])

    def remember_meanwhile(done: int, total: int) -> None:
        if fact := next(facts, None):
            writer.remember(fact)

    report = indexer.build(progress=remember_meanwhile)

    assert said == ["another process is indexing; what was written is found when that is done"] * 2
    assert report is not None and report.indexed == 3  # Memory.md twice
    assert [reader.search(word, mode="fts").results[0].file_path for word in ("walrus", "heron")] == ["Memory.md"] * 2


def test_word_left_by_somebody_does_not_keep_a_run_for_ever(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "the boiler hums"})
    indexer, writer = make_app(), make_app()
    runs = 0

    def change_always(done: int, total: int) -> None:
        nonlocal runs
        runs += 1
        writer.remember(f"Fact number {runs}")

    assert indexer.build(progress=change_always) is not None
    assert runs == 10
    assert make_app().build() is not None
