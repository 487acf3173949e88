"""What must not be seen by others: files, keys, and what notes call private. Every way out is tried and searched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import write
from servers import ScriptedAnthropic, reply

from tars.app import App
from tars.doctor import examine, mend_modes
from tars.repl import InputHistory

Environ = dict[str, str]


def tars(environ: Environ, *args: str, stdin: str = "", umask: int = -1) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_"))}
    return subprocess.run(
        [sys.executable, "-m", "tars", *args],
        env={**clean, **environ},
        cwd=Path(environ["TARS_HOME"]).parent,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )


# ---- rights

on_posix = pytest.mark.skipif(os.name == "nt", reason="rights are no bits there")


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in paths}


@on_posix
@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_whatever_the_umask_nobody_else_reads_what_tars_makes(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "made" / "home"
    with ScriptedAnthropic([reply("Tea (Memory.md:9).")]) as server:
        environ = {"TARS_HOME": str(home), "ANTHROPIC_API_KEY": "k" * 20, "ANTHROPIC_BASE_URL": server.url}
        (tmp_path / "made").mkdir(mode=0o700)
        asked = (["remember", "I drink tea"], ["what do I drink?"], ["index"])
        done = [tars(environ, *words, umask=umask).returncode for words in asked]
    before = os.umask(umask)
    InputHistory(home / "state" / "history").append_string("hello")
    os.umask(before)

    assert done == [0, 0, 0]
    found = modes(tmp_path / "made")
    assert {"home/state/history", "home/state/sessions", "home/data/memory/Memory.md"} < set(found)
    assert any(name.endswith(".lock") for name in found) and any(name.endswith(".jsonl") for name in found)
    for name, mode in found.items():
        assert mode == (0o700 if (tmp_path / "made" / name).is_dir() else 0o600), f"{name} {mode:o}"


@on_posix
def test_the_files_beside_an_open_index_are_its_owners_too(make_app: Callable[..., App], vault: Path) -> None:
    before = os.umask(0)
    try:
        write(vault, {"a.md": "tea"})
        app = make_app()
        app.build()
        app.record_use(app.search("tea").results)
        app.write_new("sessions/2026-03-01-tea.md", "# Tea\n")
        beside = modes(app.config.places.data)
    finally:
        os.umask(before)

    assert any(name.endswith("-wal") for name in beside) and any(name.endswith("-shm") for name in beside)
    assert not any(mode & 0o077 for mode in (*beside.values(), *modes(app.config.places.state).values()))
    assert modes(vault)["sessions"] == 0o700 and modes(vault)["sessions/2026-03-01-tea.md"] == 0o600


@on_posix
def test_a_note_that_the_person_made_keeps_its_rights(app: App, vault: Path) -> None:
    write(vault, {"Memory.md": "# Memory\n\n- tea\n"})
    (vault / "Memory.md").chmod(0o664)
    app.remember("I drink coffee")

    assert stat.S_IMODE((vault / "Memory.md").stat().st_mode) == 0o664


@on_posix
def test_the_doctor_names_what_others_can_read_and_it_can_be_mended(app: App, vault: Path) -> None:
    write(vault, {"a.md": "tea"})
    (vault / "a.md").chmod(0o644)
    app.build()
    app.config.index_file.chmod(0o640)
    log = app.config.places.state / "logs" / "run.log"
    log.parent.mkdir(parents=True)
    log.write_text("ran")
    log.chmod(0o604)

    assert "others can read" in next(check.found for check in examine(app) if not check.ok)
    assert {app.config.index_file, log} <= set(mend_modes(app))
    assert all(check.ok for check in examine(app))
    assert stat.S_IMODE((vault / "a.md").stat().st_mode) == 0o644
