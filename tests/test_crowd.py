"""Many at once on one memory: nobody waits, nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from conftest import write

from tars.app import App
from tars.config import load

BENCH = Path(__file__).parent / "bench"


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


def test_a_search_sees_one_state_of_the_index_whatever_is_written_meanwhile(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "the walrus sleeps, see [[b]]", "b.md": "the walrus wakes"})
    indexer, reader = make_app(), make_app(lives=True)
    indexer.build()
    expected = [result.file_path for result in reader.search("walrus").results]

    def delete_meanwhile(stage: object, gave: object) -> None:
        if (vault / "b.md").exists():
            (vault / "b.md").unlink()
            indexer.build()

    during = reader.search("walrus", watch=delete_meanwhile)

    assert [result.file_path for result in during.results] == expected
    assert [result.file_path for result in reader.search("walrus").results] == ["a.md"]


def test_a_living_reader_holds_the_vectors_of_the_index_after_any_changes(
    make_app: Callable[..., App], vault: Path
) -> None:
    rng = random.Random(7)
    indexer, reader = make_app(), make_app(lives=True)
    write(vault, {"0.md": "the first walrus"})
    for number in range(1, 25):
        there = sorted(vault.glob("*.md"))
        for note in rng.sample(there, rng.randrange(len(there))):
            note.unlink()
        some = rng.randrange(400 if number == 12 else 12)  # once more than there is room for
        write(vault, {f"{number}-{n}.md": f"walrus {number} {n}" for n in range(some)})
        indexer.build()
        reader.search(f"walrus {number}", mode="vec")

        matrix = reader.index.matrix
        assert matrix is not None
        held = dict(zip(matrix.rowids.tolist(), matrix.rows, strict=True))
        stored = {rowid: np.frombuffer(blob, dtype=np.float32) for rowid, blob in reader.store.all_vectors()}
        assert held.keys() == stored.keys()
        assert all(np.array_equal(held[rowid], row) for rowid, row in stored.items())


def remember_many(environ: dict[str, str], who: str, count: int) -> None:
    with App(load({}, environ=environ)) as app:
        for number in range(count):
            app.remember(f"Fact {number} of {who}")


def test_no_fact_is_lost_when_two_processes_write_to_one_note(environ: dict[str, str], app: App, vault: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=remember_many, args=(environ, who, 100)) for who in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0, 0]
    lines = Counter((vault / "Memory.md").read_text().splitlines())
    facts = [f"Fact {number} of {who}" for number in range(100) for who in ("one", "two")]
    assert [lines[f"- {fact}"] for fact in facts] == [1] * 200
    indexed = "\n".join(p.content for p in app.store.passages(list(app.store.rowid_sets()["chunks"])).values())
    assert all(fact in indexed for fact in facts)  # nothing was left for the next run


def test_nothing_is_lost_and_nobody_waits_in_a_crowd(vault: Path, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(BENCH))
    import crowd

    texts = tuple(f"# Note {n}\n\nThe walrus number {n} slept.\n\nSee [[{n + 1}]]." for n in range(40))
    write(vault, {f"{n}.md": text for n, text in enumerate(texts)} | {"Memory.md": "# Memory\n\n## Facts\n"})
    (vault / "work").mkdir()
    place = crowd.Place(vault, tmp_path / "home", tuple(f"which walrus {n}" for n in range(300)), texts)
    cast = (
        crowd.search_as_batch, crowd.search_as_tool, crowd.index_as_cron, crowd.index_and_stay,
        crowd.write, crowd.write, crowd.edit,
    )  # fmt: skip
    with place.app() as app:
        app.build()
    diaries, _ = crowd.perform(place, cast, seconds=3, rounds=1)

    assert [error for diary in diaries for error in diary.errors] == []
    assert [diary.waits for diary in diaries if diary.role.startswith("search")] == [[], []]
    facts = [fact for diary in diaries for fact in diary.facts]
    assert facts
    assert [figure for figure in crowd.losses(place, facts) if figure.missed] == []


def test_chats_cron_and_first_uses_at_once_end_well(environ: dict[str, str], vault: Path) -> None:
    write(vault, {f"{n}.md": f"the walrus number {n}" for n in range(30)})
    commands = (
        ["search", "walrus"], ["index"], ["remember", "Fact", "one"], ["index"], ["remember", "Fact", "two"],
        ["search", "walrus", "--json"],
    )  # fmt: skip
    everybody = {**os.environ, **environ}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [
        subprocess.Popen([sys.executable, "-m", "tars", *command], env=everybody, text=True, **pipes)  # type: ignore[call-overload]
        for command in commands
    ]
    ended = [(process.communicate()[1], process.returncode) for process in started]

    assert all(status in (0, 3) for _, status in ended)
    assert not [said for said, _ in ended if "locked" in said or "Traceback" in said]
    with App(load({}, environ=environ)) as app:
        contents = [result.content for result in app.search("Fact", mode="fts").results]
    assert sum(content.count("Fact") for content in contents) >= 2
