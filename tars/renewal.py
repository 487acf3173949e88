"""How an index is replaced: made anew aside and taken over whole. A damaged one is set aside, never deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tars.db import Identity, Store
from tars.errors import DamagedIndex, TarsError

COMPANIONS = ("", "-wal", "-shm")  # what SQLite keeps beside a database belongs to it


def aside(index_file: Path) -> Path:
    """Where the next index is made while this one answers."""
    return index_file.with_suffix(".rebuilding")


@contextmanager
def next_index(current: Store, index_file: Path, wanted: Identity, *, afresh: bool) -> Iterator[Store]:
    """An index of another identity, begun or half done; what is still good in the current one is in it.

    If it is not finished, it stays for the next run, which may go on with it.
    """
    path = aside(index_file)
    if afresh:
        discard(path)
    store = open_aside(path)
    try:
        if store.identity != wanted:
            begin(store, current, wanted, afresh=afresh)
        yield store
    finally:
        store.close()


def open_aside(path: Path) -> Store:
    try:
        return Store.open(path)
    except DamagedIndex:
        discard(path)  # nothing but a half-made copy
        return Store.open(path)


def begin(store: Store, current: Store, wanted: Identity, *, afresh: bool) -> None:
    found = current.identity
    if not afresh and found and (found.schema, found.folder) == (wanted.schema, wanted.folder):
        store.copy(current)
        store.prepare(wanted)
    else:
        store.begin_after(current, wanted)


def discard(path: Path) -> None:
    """Remove a half-made index and what lies beside it."""
    try:
        for companion in COMPANIONS:
            path.with_name(path.name + companion).unlink(missing_ok=True)
    except OSError as error:
        raise TarsError(f"cannot remove the half-made index {path}: {error.strerror}") from None


def set_aside(index_file: Path, *, clock: float | None = None) -> Path:
    """Give a damaged index another name, under which it can be looked at; the name."""
    when = time.strftime("%Y%m%d-%H%M%S", time.localtime(clock))
    for number in range(100):
        name = f"{index_file.name}.damaged-{when}" + (f"-{number}" if number else "")
        if not index_file.with_name(name).exists():
            break
    try:
        for companion in COMPANIONS[::-1]:  # the database last: without it the others mean nothing
            with suppress(FileNotFoundError):
                index_file.with_name(index_file.name + companion).rename(index_file.with_name(name + companion))
    except OSError as error:
        raise TarsError(
            f"the index {index_file} is damaged and cannot be moved ({error.strerror}); end the programs that use it"
        ) from None
    return index_file.with_name(name)
