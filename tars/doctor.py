"""Health and figures: what is wrong with the index, the folder or the backends, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from tars.app import mended
from tars.db import DAMAGE
from tars.errors import DamagedIndex, TarsError
from tars.indexer import find_changes
from tars.output import A_MODEL
from tars.owner import close_to_others, open_to_others
from tars.schedule.entry import log_for

if TYPE_CHECKING:
    from tars.app import App
    from tars.db import Store


def index_anew(app: App) -> str:
    """Make the whole index again, aside; the old one answers meanwhile."""
    return done(app.build(full=True), "made the index anew")


def index_now(app: App) -> str:
    return done(app.build(), "brought the index up to the notes")


def done(report: object, what: str) -> str:
    return what if report else "another process is indexing; try again when that is done"


def close_files(app: App) -> str:
    return f"took the rights of others from {counted(len(mend_modes(app)), 'file or folder', 'files and folders')}"


def counted(number: int, one: str, more: str = "") -> str:
    """
    >>> counted(1, "note"), counted(0, "note"), counted(2, "a", "b")
    ('1 note', '0 notes', '2 b')
    """
    return f"{number} {one if number == 1 else more or one + 's'}"


CURES = (close_files, index_anew, index_now)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    found: str
    remedy: str = ""
    cure: Callable[[App], str] | None = None  # what `--fix` does about it


def examine(app: App) -> list[Check]:
    """Every check, in the order in which one depends on the other."""
    checks = [folder_is_there(app), private_files(app), *schedule_works(app)]
    try:
        store = app.store
    except DamagedIndex as error:
        found = f"{app.config.index_file} is damaged: {error}"
        return [*checks, Check("index", False, found, "run: tars index, which sets it aside", index_now)]
    except TarsError as error:
        remedy = "see that its folder can be written to, or remove the file; then: tars index"
        return [*checks, Check("index", False, str(error), remedy)]
    checks.append(vectors_load(app))
    try:
        for check in index_checks(app, store, has_folder=checks[0].ok):
            checks.append(check)  # one by one: what was found before a damage is worth telling
    except apsw.BusyError:
        found = "another program keeps it to itself"
        checks.append(Check("index", False, found, "end that program, then: tars doctor"))
    except (apsw.Error, *DAMAGE) as error:
        checks.append(Check("tables", False, str(error), "run: tars index --full", index_anew))
    return [*checks, backend_answers(app), answers_in_words(app)]


def index_checks(app: App, store: Store, *, has_folder: bool) -> Iterator[Check]:
    if not store.identity:
        yield Check("index", False, "not made yet", "run: tars index", index_now)
        return
    yield identity_is_current(app)
    yield tables_agree(app)
    yield database_is_sound(app)
    yield passages_are_found(app)
    if has_folder:
        yield index_is_current(app)
        yield everything_was_read(app)
    yield vectors_are_complete(app)


def mend(app: App) -> list[str]:
    """Do something about everything that is wrong and can be put right; what was done."""
    cures = {check.cure for check in examine(app) if not check.ok} - {None}
    if index_anew in cures:
        cures -= {index_now}
    return [cure(app) for cure in CURES if cure in cures]


def folder_is_there(app: App) -> Check:
    folder = app.config.memory_dir
    if folder.is_dir():
        return Check("memory folder", True, str(folder))
    return Check("memory folder", False, f"{folder} does not exist", "make it, or name another with --memory")


def schedule_works(app: App) -> list[Check]:
    """What came of the last run that nobody watched; no check if there never was one."""
    last = log_for(app.config).last()
    if not last:
        return []
    failed = last.result == "failed"
    found = f"{last.time.isoformat(timespec='seconds')} {last.result}: {last.text}"
    return [Check("scheduled run", not failed, found, "run: tars schedule test" if failed else "")]


def private_files(app: App) -> Check:
    """What tars keeps is its owner's alone; the notes have the rights that the person gave them."""
    found = list(open_to_others(kept_places(app)))
    if not found:
        return Check("rights", True, "nobody else can read what tars keeps")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return Check("rights", False, f"others can read {found[0]}{more}", "run: tars doctor --fix", close_files)


def kept_places(app: App) -> list[Path]:
    """The index, transcripts, history, logs and locks: all that tars writes outside the memory folder."""
    return [place for place in (app.config.index_file.parent, app.config.places.state) if place.exists()]


def mend_modes(app: App) -> list[Path]:
    """Take the rights of others away from what tars keeps; what was mended."""
    return [path for path in list(open_to_others(kept_places(app))) if close_to_others(path)]


def vectors_load(app: App) -> Check:
    return Check("sqlite-vec", True, f"{app.store.vector_version()} on SQLite {apsw.sqlite_lib_version()}")


def identity_is_current(app: App) -> Check:
    found, wanted = app.store.identity, app.wanted_identity()
    if found == wanted:
        return Check("index identity", True, f"{wanted.embedding}, {wanted.dimensions} dimensions")
    return Check("index identity", False, f"made with {found}, settings ask for {wanted}", "run: tars index", index_now)


def tables_agree(app: App) -> Check:
    """The three rowid sets are equal but for vectors that are known to be missing."""
    with app.store.snapshot():
        sets, vectorless = app.store.rowid_sets(), app.store.vectorless()
    chunks, words, vectors = sets["chunks"], sets["chunks_fts"], sets["vec_chunks"]
    if chunks == words and chunks - vectorless == vectors:
        return Check("tables", True, f"{len(chunks)} passages in chunks, chunks_fts and vec_chunks")
    found = (
        f"{len(chunks ^ words)} rows differ between chunks and chunks_fts,"
        f" {len((chunks - vectorless) ^ vectors)} between chunks and vec_chunks"
    )
    return Check("tables", False, found, "run: tars index --full", index_anew)


def database_is_sound(app: App) -> Check:
    damage = app.store.damage()
    if not damage:
        return Check("database", True, "sound")
    return Check("database", False, "; ".join(damage[:3]), "run: tars index --full", index_anew)


def passages_are_found(app: App) -> Check:
    """Search finds what is known to be there."""
    from tars.canaries import unfound

    lost = unfound(app.index)
    if not lost:
        return Check("search", True, "finds passages by words, by vectors and by both")
    return Check("search", False, "; ".join(lost), "run: tars index --full", index_anew)


def index_is_current(app: App) -> Check:
    if not app.store.is_complete():
        return Check("index and folder", False, "the index was never finished", "run: tars index", index_now)
    try:
        changes = find_changes(app.store, app.config.memory_dir)
    except TarsError as error:  # a drive that is away, a .tarsignore that cannot be read: the message has the remedy
        return Check("index and folder", False, str(error))
    # What could not be read is looked at in every run; the check after this one tells of it.
    skipped = {path for path, _ in app.store.skipped()}
    changed = [note for note in changes.changed if note.path not in skipped]
    if not changed and not changes.removed:
        return Check("index and folder", True, f"the same, {counted(app.store.counts()['notes'], 'note')}")
    found = f"{counted(len(changed), 'note')} to look at, {len(changes.removed)} gone from the folder"
    return Check("index and folder", True, found, "the next question or `tars index` takes them in")


def everything_was_read(app: App) -> Check:
    skipped = app.store.skipped()
    if not skipped:
        return Check("notes", True, "all could be read")
    path, reason = skipped[0]
    more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    remedy = "mend them, or name them in .tarsignore"
    return Check("notes", False, f"skipped {path!r} ({reason}){more}", remedy)


def vectors_are_complete(app: App) -> Check:
    pending = app.store.counts()["pending"]
    if not pending:
        return Check("vectors", True, "none pending")
    return Check("vectors", False, f"{pending} passages wait for a vector", "run: tars index", index_now)


def answers_in_words(app: App) -> Check:
    """Which model answers; that there is none is no fault, but perhaps not what is wanted."""
    try:
        provider = app.provider()
    except TarsError as error:
        return Check("model", False, str(error))
    if provider.name == "recall" and app.config.model == "auto":
        return Check("model", True, "none, so answers are quotations", f"for answers in words {A_MODEL}")
    return Check("model", True, provider.name)


def backend_answers(app: App) -> Check:
    try:
        app.embedder.query("hello")
    except TarsError as error:
        return Check("embedding", False, str(error), "search goes on by words alone until it answers")
    return Check("embedding", True, f"{app.embedder.name} answers")


@mended
def figures(app: App) -> dict[str, Any]:
    """What there is, in numbers."""
    counts = app.store.counts()
    index_file = app.config.index_file
    identity = app.store.identity
    return {
        "memory": str(app.config.memory_dir),
        "notes": counts["notes"],
        **{f"notes ({kind})": count for kind, count in app.store.counts_by_type().items()},
        "passages": counts["chunks"],
        "links": counts["links"],
        "tags": counts["tags"],
        "skipped files": counts["skipped"],
        "vectors pending": counts["pending"],
        "embedding": identity.embedding if identity else "none",
        "index": str(index_file),
        "index bytes": index_file.stat().st_size,
    }
