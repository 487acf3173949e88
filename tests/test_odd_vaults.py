"""Vaults as they are found in the wild: each oddity is handled or reported, and the rest is indexed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import write

from tars.app import App
from tars.errors import TarsError
from tars.memory import list_notes

Make = Callable[[Path], None]


def raw(name: str, content: bytes) -> Make:
    return lambda vault: (vault / name).write_bytes(content) and None


def loop(vault: Path) -> None:
    (vault / "loop").symlink_to(vault, target_is_directory=True)
    (vault / "self.md").symlink_to(vault / "self.md")


def outside(vault: Path) -> None:
    (vault.parent / "secret.md").write_text("walrus outside")
    (vault / "leak.md").symlink_to(vault.parent / "secret.md")


def ignored(vault: Path) -> None:
    write(vault, {
        ".obsidian/x.md": "walrus", ".trash/y.md": "walrus", "a.md.tmp": "walrus", "drafts/z.md": "walrus",
        "n.sync-conflict-20260101-120000-ABC.md": "walrus", "n (conflicted copy 2026-01-01).md": "walrus",
        ".tarsignore": "drafts/\n",
    })  # fmt: skip


HANDLED: dict[str, tuple[Make, str | None]] = {
    "empty file": (raw("odd.md", b""), None),
    "only blank lines": (raw("odd.md", b"\n \n\t\n"), None),
    "BOM": (raw("odd.md", b"\xef\xbb\xbf# Walrus\n"), "odd.md"),
    "UTF-16 with BOM": (raw("odd.md", "walrus".encode("utf-16")), "odd.md"),
    "CRLF": (raw("odd.md", b"# T\r\n\r\nwalrus\r\n"), "odd.md"),
    "old Mac line ends": (raw("odd.md", b"# T\r\rwalrus\r"), "odd.md"),
    "10,000 lines in one paragraph": (raw("odd.md", b"filler words in a line\n" * 9_999 + b"walrus\n"), "odd.md"),
    "one line of 2 MB": (raw("odd.md", b"filler words " * 150_000 + b"walrus"), "odd.md"),
    "unclosed fence": (raw("odd.md", b"# T\n\n```python\nwalrus = 1\n"), "odd.md"),
    "unclosed frontmatter": (raw("odd.md", b"---\ntitle: walrus\n\nbody\n"), "odd.md"),
    "invalid YAML": (raw("odd.md", b"---\ntitle: [walrus\n: : :\n---\nbody\n"), "odd.md"),
    "impossible date": (raw("odd.md", b"---\ndate: 2026-02-31\n---\nwalrus\n"), "odd.md"),
    "only frontmatter": (raw("odd.md", b"---\ntitle: walrus\n---\n"), "odd.md"),
    "name with newline and emoji": (lambda v: write(v, {"a\nb 🎉.md": "walrus"}), "a\nb 🎉.md"),
    "symlink loop": (loop, None),
    "link out of the folder": (outside, None),
    "what is ignored": (ignored, None),
    "a folder named like a note": (lambda v: write(v, {"dir.md/in.md": "walrus"}), "dir.md/in.md"),
    "upper-case suffix": (raw("ODD.MD", b"walrus"), "ODD.MD"),
}
REPORTED: dict[str, tuple[Make, str]] = {
    "Latin-1": (raw("odd.md", b"caf\xe9 walrus"), "UTF-8"),
    "binary": (raw("odd.md", bytes(range(256)) * 20), "binary"),
    "50 MB": (raw("odd.md", b"walrus and more words\n" * 2_300_000), "larger than 20 MB"),
    "name that is not UTF-8": (
        lambda v: Path(os.fsdecode(os.fsencode(v) + b"/\xff.md")).write_text("x") and None,
        "name",
    ),
}


@pytest.mark.parametrize(("make", "found"), HANDLED.values(), ids=HANDLED)
def test_an_odd_vault_is_handled(app: App, vault: Path, make: Make, found: str | None) -> None:
    write(vault, {"good.md": "pelican"})
    make(vault)
    report = app.build()

    assert report and report.skipped == []
    assert [r.file_path for r in app.search("pelican", mode="fts").results] == ["good.md"]
    assert {r.file_path for r in app.search("walrus", mode="fts").results} == ({found} if found else set())
    sets = app.store.rowid_sets()
    assert sets["chunks"] == sets["chunks_fts"]


@pytest.mark.parametrize(("make", "reason"), REPORTED.values(), ids=REPORTED)
def test_a_file_that_cannot_be_taken_in_is_reported_and_the_rest_indexed(
    app: App, vault: Path, make: Make, reason: str
) -> None:
    write(vault, {"good.md": "pelican"})
    make(vault)
    first, second = app.build(), app.build()

    assert first and second
    assert [reason in skip.reason for skip in first.skipped] == [True]
    assert second.skipped == first.skipped
    assert [r.file_path for r in app.search("pelican", mode="fts").results] == ["good.md"]


def test_an_empty_folder_indexes_to_nothing(app: App) -> None:
    report = app.build()

    assert report and (report.indexed, report.skipped) == (0, [])


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_an_unreadable_file_and_folder_are_reported(app: App, vault: Path) -> None:
    write(vault, {"good.md": "pelican", "closed.md": "walrus", "shut/in.md": "walrus"})
    app.build()
    (vault / "closed.md").chmod(0)
    (vault / "shut").chmod(0)
    os.utime(vault / "closed.md", (1, 1))
    report = app.build()
    (vault / "shut").chmod(0o700)

    assert report and {skip.path for skip in report.skipped} == {"closed.md", "shut/"}
    assert "shut/in.md" in app.store.stamps(), "what cannot be listed is not known to be gone"


def test_a_mended_file_is_taken_in_by_the_next_run(app: App, vault: Path) -> None:
    (vault / "odd.md").write_bytes(b"caf\xe9 walrus")
    app.build()
    (vault / "odd.md").write_text("café walrus")
    report = app.build()

    assert report and report.skipped == []
    assert [r.file_path for r in app.search("walrus", mode="fts").results] == ["odd.md"]


def test_a_file_that_broke_loses_its_old_passages(app: App, vault: Path) -> None:
    (vault / "odd.md").write_text("walrus")
    app.build()
    (vault / "odd.md").write_bytes(b"walrus \0 binary")
    app.build()

    assert app.search("walrus", mode="fts").results == []


def test_an_ignore_file_with_a_byte_order_mark_is_obeyed(app: App, vault: Path) -> None:
    write(vault, {"a.md": "walrus", ".tarsignore": "\ufeffa.md\n"})

    assert list_notes(vault)[0] == []


def test_an_ignore_file_that_cannot_be_read_is_an_error(vault: Path) -> None:
    write(vault, {"a.md": "walrus"})
    (vault / ".tarsignore").mkdir()

    with pytest.raises(TarsError, match="tarsignore"):
        list_notes(vault)


def test_notes_are_listed_in_order_with_forward_slashes(vault: Path) -> None:
    write(vault, {"b.md": "x", "a/z.md": "x", "a/b/c.md": "x", "plain.txt": "x"})

    assert [note.path for note in list_notes(vault)[0]] == ["a/b/c.md", "a/z.md", "b.md"]


def test_a_wrong_line_of_the_ignore_file_is_named_and_nothing_is_taken_in(vault: Path) -> None:
    write(vault, {"a.md": "walrus", ".tarsignore": "drafts/\n\n!\n"})

    with pytest.raises(TarsError, match=r"\.tarsignore:3: '!' is not a pattern; correct the line"):
        list_notes(vault)


def test_folders_may_be_nested_deeper_than_python_calls_itself(vault: Path) -> None:
    depth = sys.getrecursionlimit() + 100
    made = [vault]
    for _ in range(depth):
        made.append(made[-1] / "d")
        made[-1].mkdir()
    note = made[-1] / "deep.md"
    note.write_text("walrus")

    try:
        assert [found.path for found in list_notes(vault)[0]] == ["d/" * depth + "deep.md"]
    finally:
        note.unlink()
        for folder in reversed(made[1:]):  # what removes a whole tree calls itself too
            folder.rmdir()
