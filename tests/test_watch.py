"""`tars index --watch`: a real process over real files. Waiting is for what has to happen, with time to spare."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import write

from tars.app import App
from tars.watch import concerns_notes

PATIENCE = 30.0  # seconds; only a test that fails takes them
TARS = (sys.executable, "-m", "tars")
# In a user namespace of its own, a process can be given limits of its own.
NO_INOTIFY = "echo 0 > /proc/sys/user/max_inotify_instances && exec "


class Watching:
    """A `tars index --watch --json` that runs, and what it has printed so far."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            # A shell has its background jobs ignore Ctrl-C, and whatever they start.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.runs: list[dict[str, Any]] = []
        self.said: list[str] = []
        for stream, take in ((self.process.stdout, self._run), (self.process.stderr, self.said.append)):
            assert stream is not None
            threading.Thread(target=lambda s=stream, t=take: [t(line) for line in s], daemon=True).start()

    def _run(self, line: str) -> None:
        self.runs.append(json.loads(line))

    def until(self, happened: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not happened():
            assert self.process.poll() is None, f"it ended, and said: {self.said}"
            assert time.monotonic() < end, f"never: {what}; runs {self.runs}, said {self.said}"
            time.sleep(0.02)

    def until_runs(self, count: int) -> None:
        self.until(lambda: len(self.runs) >= count, f"{count} runs")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def watch(environ: dict[str, str]) -> Iterator[Callable[..., Watching]]:
    """Each call starts one and waits for its first run."""
    started: list[Watching] = []

    def start(*flags: str, before: str = "", **more: str) -> Watching:
        command = [*TARS, "index", "--watch", "--json", *flags]
        if before:
            command = ["unshare", "--user", "--map-root-user", "sh", "-c", before + '"$@"', "sh", *command]
        started.append(Watching(command, {**environ, **more}))
        started[-1].until_runs(1)
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def finds(app: App, word: str) -> list[str]:
    """The notes that hold a word, in the index as it is: nothing is taken in for this."""
    return sorted({result.file_path for result in app.search(word, mode="fts").results})


def test_what_changed_before_the_start_is_taken_in(
    watch: Callable[..., Watching], make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "the boiler hums"})
    make_app().build()
    write(vault, {"b.md": "the lantern glows"})

    running = watch()

    assert running.runs[0]["indexed"] == 1
    assert finds(make_app(), "lantern") == ["b.md"]


def test_an_edit_is_found_without_anybody_asking(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    write(vault, {"a.md": "the boiler hums"})
    running = watch()

    write(vault, {"a.md": "the kettle sings"})

    running.until(lambda: finds(app, "kettle") == ["a.md"], "the edit")
    assert finds(app, "boiler") == []


def test_notes_saved_the_way_of_editors_are_found(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    write(vault, {"vim.md": "old", "sync.md": "old"})
    running = watch()

    # vim: a file 4913 to see whether it may, the old note moved aside, the new one written, the old one removed
    (vault / "4913").touch()
    (vault / "4913").unlink()
    (vault / "vim.md").rename(vault / "vim.md~")
    write(vault, {"vim.md": "the walrus from vim"})
    (vault / "vim.md~").unlink()
    # sync tools and tars itself: written beside it under another name, then put in its place
    write(vault, {".sync.md.tmp": "the walrus from afar"})
    (vault / ".sync.md.tmp").replace(vault / "sync.md")

    running.until(lambda: finds(app, "walrus") == ["sync.md", "vim.md"], "both")
    (vault / "sync.md").rename(vault / "moved.md")
    running.until(lambda: finds(app, "walrus") == ["moved.md", "vim.md"], "the new name")


def test_notes_in_new_and_in_moved_folders_are_found(
    watch: Callable[..., Watching], app: App, vault: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"elsewhere/deep/c.md": "a heron came", "notes/stays.md": "a stork"})
    running = watch()

    write(vault, {"new/deeper/a.md": "a heron stood"})
    running.until(lambda: finds(app, "heron") == ["new/deeper/a.md"], "the new folder")
    write(vault, {"new/deeper/b.md": "a heron flew"})
    running.until(lambda: finds(app, "heron") == ["new/deeper/a.md", "new/deeper/b.md"], "a note in it")
    (tmp_path / "elsewhere").rename(vault / "new" / "moved")
    running.until(lambda: "new/moved/deep/c.md" in finds(app, "heron"), "the folder that was moved in")
    (vault / "new").rename(tmp_path / "away")
    running.until(lambda: finds(app, "heron") == [], "the folder that was moved out")


def test_a_burst_of_files_takes_few_runs(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    running = watch()

    write(vault, {f"{number}.md": f"otter number {number}" for number in range(200)})

    running.until(lambda: sum(run["indexed"] for run in running.runs) >= 200, "all of them")
    assert len(running.runs) < 20
    assert sum(run["indexed"] for run in running.runs[1:]) < 300  # some may be seen half written


def test_what_is_no_note_makes_no_run(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    running = watch()

    temporary = (".a.md.swp", "4913", "a.md~", "#a.md#", ".#a.md", "a.tmp", ".tars-0a1b.tmp", "~syncthing~a.md.tmp")
    for name in (*temporary, ".obsidian/workspace.json", ".git/index.lock", "a.sync-conflict-20260301.md"):
        write(vault, {name: "nothing to see"})
        (vault / name).unlink()
    write(vault, {"a.md": "the lark sang"})

    running.until(lambda: finds(app, "lark") == ["a.md"], "the note")
    running.until_runs(2)  # told of after it can be found
    assert [run["indexed"] for run in running.runs] == [0, 1]
    assert finds(app, "nothing") == []


@pytest.mark.parametrize(
    ("name", "concerns"),
    [
        ("a.md", True), ("deep/a.MD", True), (".tarsignore", True), ("gone-folder", True), ("a.md~", False),
        (".a.md.swp", False), (".git/a.md", False), ("4913", False), ("#a.md#", False), ("a.tmp", False),
    ],
)  # fmt: skip
def test_the_files_of_editors_are_not_worth_a_look(vault: Path, name: str, concerns: bool) -> None:
    if name != "gone-folder":
        write(vault, {name: ""})

    assert concerns_notes(vault, vault / name) is concerns


def test_a_list_of_what_to_ignore_takes_effect_at_once(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    write(vault, {"drafts/a.md": "a puffin", "b.md": "a puffin"})
    running = watch()

    write(vault, {".tarsignore": "drafts/\n"})

    running.until(lambda: finds(app, "puffin") == ["b.md"], "the drafts to go")


def test_a_folder_put_in_the_place_of_the_folder_is_followed(
    watch: Callable[..., Watching], app: App, vault: Path, tmp_path: Path
) -> None:
    write(vault, {"a.md": "the gannet dives"})
    write(tmp_path, {"other/b.md": "the fulmar glides"})
    running = watch()

    vault.rename(tmp_path / "aside")
    (tmp_path / "other").rename(vault)
    running.until(lambda: (finds(app, "fulmar"), finds(app, "gannet")) == (["b.md"], []), "the other folder's notes")

    write(vault, {"c.md": "the skua steals"})
    running.until(lambda: finds(app, "skua") == ["c.md"], "a change in it")


def test_a_folder_that_is_gone_for_a_while_is_waited_for(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    write(vault, {"a.md": "the gannet dives"})
    running = watch()

    shutil.rmtree(vault)
    running.until(lambda: any("is gone; waiting" in line for line in running.said), "to say so")
    assert finds(app, "gannet") == ["a.md"]  # not known to be forgotten
    assert not vault.exists()
    write(vault, {"b.md": "the fulmar glides"})

    running.until(lambda: (finds(app, "fulmar"), finds(app, "gannet")) == (["b.md"], []), "the new notes")
    assert any("is there again" in line for line in running.said)
    write(vault, {"b.md": "the skua steals"})
    running.until(lambda: finds(app, "skua") == ["b.md"], "a change in it")


def test_notes_that_all_vanish_and_come_back_at_once_are_not_forgotten(
    watch: Callable[..., Watching], app: App, vault: Path, tmp_path: Path
) -> None:
    write(vault, {"a.md": "the gannet dives", "b.md": "the fulmar glides"})
    running = watch()

    for name in ("a.md", "b.md"):
        (vault / name).rename(tmp_path / name)
    write(vault, {"seen": ""})
    time.sleep(1.5)  # long enough for a look at the empty folder
    for name in ("a.md", "b.md"):
        (tmp_path / name).rename(vault / name)
    write(vault, {"c.md": "the skua steals"})

    running.until(lambda: finds(app, "skua") == ["c.md"], "the new note")
    assert [run["removed"] for run in running.runs] == [0] * len(running.runs)


def test_changes_are_seen_where_the_system_has_no_watches_left(
    watch: Callable[..., Watching], app: App, vault: Path
) -> None:
    allowed = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_INOTIFY + "true"]
    if not shutil.which("unshare") or subprocess.run(allowed, capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here to take the watches away in")
    running = watch(before=NO_INOTIFY)

    write(vault, {"a.md": "the gannet dives"})

    running.until(lambda: finds(app, "gannet") == ["a.md"], "the note")
    assert sum("looked at every second" in line for line in running.said) == 1


def test_it_ends_quietly_when_told_to_and_holds_nothing(watch: Callable[..., Watching], app: App, vault: Path) -> None:
    write(vault, {"a.md": "the gannet dives"})
    running = watch()
    assert app.build() is not None  # it holds no lock while nothing happens

    assert running.end(signal.SIGTERM) == 0
    assert running.said == []
    assert watch().end(signal.SIGINT) == 130


@pytest.mark.parametrize("start", [0, 100])
def test_an_index_that_is_damaged_meanwhile_is_made_anew(
    watch: Callable[..., Watching], app: App, vault: Path, start: int
) -> None:
    write(vault, {"a.md": "one heron"})
    running = watch()
    content = bytearray(app.config.index_file.read_bytes())
    content[start:] = os.urandom(len(content) - start)
    if start == 0:
        app.config.index_file.unlink()
    app.config.index_file.write_bytes(content)
    write(vault, {"b.md": "two puffins"})
    running.until(lambda: any("damaged" in line for line in running.said), "the damage")
    running.until(lambda: finds(app, "puffins") == ["b.md"], "the new note")


def test_a_problem_is_told_once_and_the_lines_are_for_people(vault: Path, environ: dict[str, str]) -> None:
    write(vault, {"a.md": "one"})
    (vault / "bad.md").write_bytes(b"\xff\xfe\xfa\xfb\x00")
    running = Watching([*TARS, "index", "--watch"], environ)
    try:
        running.until(lambda: any("skipped bad.md" in line for line in running.said), "the problem")
        write(vault, {"b.md": "two"})
        running.until(lambda: sum("1 indexed" in line for line in running.said) == 2, "a line for each run")
        assert sum("skipped bad.md" in line for line in running.said) == 1
        assert running.runs == []
    finally:
        running.end()


def test_a_folder_that_is_not_there_at_the_start_is_an_error(environ: dict[str, str], vault: Path) -> None:
    vault.rmdir()
    done = subprocess.run(
        [*TARS, "index", "--watch"], env={**os.environ, **environ}, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "does not exist" in done.stderr
