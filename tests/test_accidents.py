"""Kills, power cuts and failing disks: the short form of what tests/bench/kill.py, power.py and faults.py do at length."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from accidents import Disk, Place, disk_library
from bench import faults, kill, power

from tars import notes
from tars.app import App
from tars.errors import TarsError
from tars.sessions import Transcript, rows_of

needs_disk = pytest.mark.skipif(disk_library() is None, reason="needs Linux and a C compiler")


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Path]:
    """A small memory, and a copy to begin again from."""
    folder = tmp_path_factory.mktemp("faults")
    place = faults.beginning(folder / "place")
    return place, faults.copied(place, folder / "start")


@needs_disk
def test_killed_in_the_middle_of_writes_tars_loses_nothing_and_the_next_run_puts_the_index_right(
    tmp_path: Path,
) -> None:
    life = kill.begin(tmp_path, 30, 0, aimed=1.0)
    life.asked = life.asked[:5]
    kill.live(life, 12)

    assert life.wrong == []
    assert life.kills.total() == 12


@needs_disk
def test_a_power_cut_loses_nothing_that_was_said_to_be_kept(tmp_path: Path) -> None:
    cuts = power.record(tmp_path, 0, count=15)
    cuts.run(8)

    assert cuts.wrong == []


@needs_disk
@pytest.mark.parametrize("operation", faults.OPERATIONS, ids=lambda operation: str(operation.name))
def test_a_write_that_fails_is_told_in_a_line_and_made_up_for(
    beginning: tuple[Place, Path], operation: faults.Operation
) -> None:
    trial = faults.Trial(*beginning, operation)
    tally = trial.run(every=max(trial.count() // 3, 1), one_each=True)

    assert tally.wrong == []
    assert tally.injected >= 3


@needs_disk
def test_a_note_is_on_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    place = faults.beginning(tmp_path / "place")
    diary = tmp_path / "diary"
    place.tars("remember", "the car is blue now", disk=Disk(log=diary))

    calls = [line.split("\t") for line in diary.read_text().splitlines()]
    kinds = [what for what, path, *_ in calls if path.startswith(str(place.notes))]
    assert kinds == ["create", "write", "sync", "rename", "sync"]


@needs_disk
def test_every_message_is_on_the_disk_before_the_conversation_goes_on(tmp_path: Path) -> None:
    place = faults.beginning(tmp_path / "place")
    diary = tmp_path / "diary"
    place.tars("--model", "recall", "what colour is the car?", disk=Disk(log=diary, bytes=True))

    calls = [entry for entry in power.read_diary(diary) if entry.path.endswith(".jsonl")]
    said = [at for at, entry in enumerate(calls) if entry.data.startswith(b'{"message"')]
    assert len(said) == 4
    assert all(calls[at + 1].what == "sync" for at in said)


def test_a_line_that_was_cut_off_by_a_full_disk_does_not_swallow_the_next(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "talk.jsonl")
    transcript.write({"number": 1})
    room = transcript.path.stat().st_size + 5
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(TarsError, match="cannot keep the conversation"):
            transcript.write({"number": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    transcript.write({"number": 3})

    assert [row["number"] for row in rows_of(transcript.path)] == [1, 3]


def test_what_a_killed_write_left_goes_with_a_later_one(vault: Path, tmp_path: Path) -> None:
    old, fresh = vault / ".tars-0123456789abcdef.tmp", vault / ".tars-fedcba9876543210.tmp"
    for path in (old, fresh):
        path.write_text("half a no")
    os.utime(old, (1_700_000_000, 1_700_000_000))
    notes.remember(vault, "tea is in the tin", lock=tmp_path / "lock")

    assert not old.exists()
    assert fresh.exists()


@needs_disk
def test_a_fact_is_kept_even_if_the_index_cannot_take_it_in(tmp_path: Path) -> None:
    place = faults.beginning(tmp_path / "place")
    diary = tmp_path / "diary"
    place.tars("remember", "the tent is in the attic", disk=Disk(log=diary))
    calls = diary.read_text().splitlines()
    at = 1 + next(number for number, line in enumerate(calls, 1) if line.startswith("rename"))
    place.tars("forget", "the tent is in the attic")
    run = place.tars("remember", "the tent is in the attic", disk=Disk(at=at + 1, errno=errno.ENOSPC, lasts=True))

    assert run.returncode == 0
    assert "Memory.md is written, but not yet in the index" in run.stderr
    assert b"tent" in place.contents()["Memory.md"]


def test_a_tool_that_meets_a_failing_disk_tells_the_model(make_app: Callable[..., App], vault: Path) -> None:
    from tars.chat import ToolCall
    from tars.tools import Toolbox

    (vault / "boiler.md").write_text("The boiler hums.\n")
    app = make_app()
    app.build()
    app.store.conn.execute("PRAGMA query_only = on")
    (vault / "boiler.md").write_text("The boiler hums loudly.\n")
    answer = Toolbox(app).answer(ToolCall("1", "memory_search", {"query": "boiler"}))

    assert answer.is_error
    assert "index" in answer.content


def test_an_index_that_another_process_has_killed_is_free_for_the_next(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.notes.mkdir()
    (place.notes / "a.md").write_text("tea\n")
    process = place.start("index")
    process.kill()
    process.communicate()

    assert place.tars("index").returncode == 0
