"""Unhappy machines: each ends with a clear line and an intact memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from conftest import write
from test_indexer import found, settle

from tars.app import App
from tars.errors import TarsError
from tars.memory import OutOfReach, read_bytes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the machines of these tests are POSIX")


def tars(*words: str, environ: Mapping[str, str], **more: object) -> subprocess.CompletedProcess[str]:
    """The program in an environment that has nothing but what is given."""
    return subprocess.run(
        [sys.executable, "-m", "tars", *words],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path), **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        **more,  # type: ignore[call-overload]
    )


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_told_and_the_next_run_heals(small_disk: Path, vault: Path) -> None:
    write(vault, {f"{n}.md": f"# Note {n}\n\n" + f"walrus number {n} lay on the shore. " * 200 for n in range(400)})
    before = snapshot(vault)
    environ = {"TARS_HOME": str(small_disk / "home"), "TARS_MEMORY_DIR": str(vault)}
    full = tars("index", environ=environ)
    still = tars("index", environ=environ)
    subprocess.run(["mount", "-o", "remount,size=60m", small_disk], check=True)
    healed = tars("index", environ=environ)
    answer = tars("search", "walrus", environ=environ)

    for ran in (full, still):
        assert ran.returncode == 1 and "full" in ran.stderr and len(ran.stderr.splitlines()) == 1
    assert healed.returncode == 0, healed.stderr
    assert answer.returncode == 0 and "walrus" in answer.stdout
    assert snapshot(vault) == before


def test_a_full_disk_loses_nothing_of_a_note(small_disk: Path, tmp_path: Path) -> None:
    notes = small_disk / "notes"
    notes.mkdir()
    write(notes, {"Memory.md": "# Memory\n\n" + "- likes green tea\n" * 900})
    environ = {"TARS_HOME": str(tmp_path / "home"), "TARS_MEMORY_DIR": str(notes)}
    tars("index", environ=environ)
    with open(small_disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="space"):
        while True:
            filler.write(b"x" * 1_000)
    before = snapshot(notes)
    ran = tars("remember", "walrus " * 200, environ=environ)

    assert ran.returncode == 1 and "Traceback" not in ran.stderr and "space" in ran.stderr
    assert snapshot(notes) == before


def test_a_folder_that_cannot_be_written_to_is_one_line(vault: Path, environ: dict[str, str]) -> None:
    write(vault, {"Memory.md": "# Memory\n\n- likes tea\n"})
    tars("index", environ=environ)
    if subprocess.run(["mount", "--bind", vault, vault], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", vault], check=True)
        written = tars("remember", "likes coffee", environ=environ)
        read = tars("search", "tea", environ=environ)
    finally:
        subprocess.run(["umount", "-l", vault], check=True)

    assert written.returncode == 1 and "Traceback" not in written.stderr
    assert "write-protected" in written.stderr
    assert read.returncode == 0 and "likes tea" in read.stdout


def test_no_home_directory_is_said(tmp_path: Path, vault: Path) -> None:
    """A user that the machine does not know, without HOME, as in a container."""
    nowhere = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a user that is not known")
    program = (
        "import os, platformdirs, tars.config as c; os.setuid(54321)\n"
        "try: c.load({'memory_dir': '.'}, environ={})\n"
        "except c.UsageError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", program], env=nowhere, cwd="/", capture_output=True, text=True)

    assert "no home directory" in ran.stdout and "TARS_HOME" in ran.stdout, ran.stderr


def test_a_home_that_does_not_exist_is_made(tmp_path: Path, vault: Path) -> None:
    write(vault, {"a.md": "walrus"})
    ran = tars("search", "walrus", environ={"HOME": str(tmp_path / "not" / "yet"), "TARS_MEMORY_DIR": str(vault)})

    assert ran.returncode == 0 and "walrus" in ran.stdout


def test_the_plain_locale_of_cron_reads_and_writes_every_letter(vault: Path, environ: dict[str, str]) -> None:
    write(vault, {"Café.md": "# Café\n\nÜber die Brücke, naïve 東京"})
    plain = {**environ, "LC_ALL": "C"}
    indexed = tars("index", environ=plain)
    answer = tars("search", "Brücke", "--json", environ=plain)
    kept = tars("remember", "Brücke 東京 über", environ=plain)

    assert indexed.returncode == 0 and indexed.stderr == ""
    assert answer.returncode == 0, answer.stderr
    assert kept.returncode == 0, kept.stderr
    assert "Brücke 東京 über" in (vault / "Memory.md").read_text(encoding="utf-8")


def test_a_clock_that_jumps_back_misses_no_edit(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "walrus", "b.md": "heron"})
    settle(vault)
    make_app().build()
    (vault / "a.md").write_text("puffin")
    os.utime(vault / "a.md", (1_000_000_000, 1_000_000_000))  # years before the time that is known
    app = make_app()
    app.refresh()

    assert found(app, "puffin") == ["a.md"] and found(app, "walrus") == []


def test_a_drive_that_is_away_empties_no_index(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {f"{n}.md": f"walrus {n}" for n in range(30)})
    make_app().build()
    vault.rename(vault.with_name("away"))
    vault.mkdir()
    app = make_app()
    with pytest.raises(TarsError, match="is a drive not mounted"):
        app.build()

    assert app.store.counts()["notes"] == 30
    vault.rmdir()
    with pytest.raises(TarsError, match="does not exist"):
        app.build()
    vault.with_name("away").rename(vault)
    report = app.build()
    assert report and (report.indexed, report.removed) == (0, 0)


def test_a_drive_that_is_away_is_searched_from_the_index_even_if_a_setting_changed(
    vault: Path, environ: dict[str, str]
) -> None:
    write(vault, {f"{n}.md": f"walrus {n}" for n in range(30)})
    tars("index", environ=environ)
    for note in vault.iterdir():
        note.unlink()
    (Path(environ["TARS_HOME"]) / "config.toml").write_text("[index]\nchunk_chars = 300")
    answer = tars("search", "walrus", environ=environ)

    assert answer.returncode == 0 and "walrus" in answer.stdout
    assert "is a drive not mounted" in answer.stderr and "indexed before" in answer.stderr


def test_notes_that_are_gone_for_good_leave_the_index_when_that_is_said(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {f"{n}.md": f"walrus {n}" for n in range(30)})
    app = make_app()
    app.build()
    for note in vault.iterdir():
        note.unlink()
    app.build(full=True)

    assert app.store.counts()["notes"] == 0


def test_a_drive_that_does_not_answer_is_no_statement_about_the_note(tmp_path: Path) -> None:
    """/proc/self/mem answers a read at its beginning with an input/output error."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("needs /proc")
    with pytest.raises(OutOfReach):
        read_bytes(Path("/proc/self"), "mem", max_bytes=100)


def test_what_tars_keeps_is_not_kept_among_the_notes(vault: Path) -> None:
    ran = tars("index", environ={"TARS_HOME": str(vault / ".tars"), "TARS_MEMORY_DIR": str(vault)})

    assert ran.returncode == 2 and "inside the memory folder" in ran.stderr
    assert list(vault.iterdir()) == []
