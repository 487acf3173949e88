"""Files and folders that only their owner reads, whatever the umask is; and those that others can read after all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077


def make_folder(path: Path) -> None:
    """The folder, with every one that is missing above it, also after a power cut; what is there keeps its mode."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True, mode=FOLDER)
        make_durable(path.parent)


def make_durable(folder: Path) -> None:
    """Have the folder's own entry of a renamed file on the disk, where folders can be opened."""
    with suppress(OSError):  # the note is whole and in its place; not every system can promise more
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_file(path: Path) -> None:
    """An empty file, unless it is there: closing a second handle of a file that this process has open would drop
    the locks that SQLite holds on it (POSIX)."""
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))


def opener(path: str, flags: int) -> int:
    """For `open`: a file that is made is made for its owner."""
    return os.open(path, flags, FILE)


def open_to_others(places: Iterable[Path]) -> Iterator[Path]:
    """These files and folders and all below them that somebody else may read or write; links are not followed."""
    if os.name == "nt":  # rights are no bits there, and a profile is its owner's
        return
    for place in places:
        below = [Path(at, name) for at, folders, files in os.walk(place) for name in (*folders, *files)]
        for path in (place, *below):
            with suppress(OSError):  # gone since it was listed
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode) and mode & OTHERS:
                    yield path


def close_to_others(path: Path) -> bool:
    """Take the rights of everybody else away; False if it is not ours to do."""
    try:
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~OTHERS)
    except OSError:
        return False
    return True
