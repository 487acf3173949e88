"""The life of an index: rebuilt while it answers, set aside when damaged, packed when it has shrunk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from conftest import write
from test_indexer import CountingTable, found, sets_agree, settle

from tars import canaries, db, doctor
from tars.app import App
from tars.errors import EmbeddingError, TarsError
from tars.renewal import aside

BIRDS = "heron tern gull puffin auk petrel pelican stork crane egret".split()


@pytest.fixture
def birds(vault: Path) -> Path:
    write(vault, {f"{bird}.md": f"# {bird}\n\nThe {bird} was seen near the harbour." for bird in BIRDS})
    settle(vault)
    return vault


class Another(CountingTable):
    """Another model: the same table, turned round; `breaks_after` so many texts it is down."""

    name = "another"  # type: ignore[assignment]

    def __init__(self, breaks_after: int | None = None) -> None:
        super().__init__()
        self.breaks_after = breaks_after
        self.while_asked: Callable[[], object] = lambda: None

    def documents(self, texts: Sequence[str]) -> Any:
        self.while_asked()
        if self.breaks_after is not None and len(self.asked) + len(texts) > self.breaks_after:
            raise EmbeddingError("the backend is down")
        return super().documents(texts)[:, ::-1].copy()


# ---- rebuilt aside


def test_the_old_index_answers_until_the_new_one_is_ready(make_app: Callable[..., App], birds: Path) -> None:
    reader = make_app(lives=True)
    reader.build()
    before = reader.search("puffin").results
    seen: list[Any] = []
    app, model = make_app(), Another()
    model.while_asked = lambda: seen.append(reader.search("puffin", limit=7).results)
    app.embedder = model
    app.build()

    assert seen and all(results[0].file_path == "puffin.md" and len(results) == 7 for results in seen)
    assert all(r.ranks.keys() == before[0].ranks.keys() for r in [seen[0][0]])
    assert app.store.identity and app.store.identity.embedding == "another"
    assert app.search("puffin").results[0].file_path == "puffin.md"
    assert not aside(app.config.index_file).exists()
    assert sets_agree(app)


def test_a_living_reader_never_mixes_the_vectors_of_two_models(make_app: Callable[..., App], birds: Path) -> None:
    reader = make_app(lives=True)
    reader.build()
    reader.search("puffin", mode="vec")
    app = make_app()
    app.embedder = Another()
    app.build()
    reader.embedder = Another()
    found = reader.search("puffin", mode="vec").results
    fresh = app.search("puffin", mode="vec").results

    assert [(r.file_path, round(r.score, 6)) for r in found] == [(r.file_path, round(r.score, 6)) for r in fresh]
    assert reader.index.matrix and len(reader.index.matrix.rowids) == len(BIRDS)
    rows = dict(zip(reader.index.matrix.rowids.tolist(), reader.index.matrix.rows, strict=True))
    assert {rowid: row.tobytes() for rowid, row in rows.items()} == app.store.vectors(list(rows))


def test_a_full_rebuild_leaves_the_old_index_searchable(make_app: Callable[..., App], birds: Path) -> None:
    reader, app = make_app(), make_app()
    app.build()
    during: list[list[str]] = []
    rowids = app.store.rowid_sets()["chunks"]
    app.build(full=True, progress=lambda done, total: during.append(found(reader, "puffin")))

    assert during == [["puffin.md"]]
    assert found(reader, "puffin") == ["puffin.md"]
    assert not app.store.rowid_sets()["chunks"] & rowids
    assert sets_agree(app)


def test_a_rebuild_that_was_killed_goes_on_where_it_was(
    make_app: Callable[..., App], birds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_app().build()
    (make_app().config.places.config_file).write_text("[index]\nchunk_chars = 300")
    monkeypatch.setattr("tars.indexer.BATCH_BYTES", 100)

    def die(done: int, total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_app().build(progress=die)
    assert aside(make_app().config.index_file).exists()
    read: list[int] = []
    app = make_app()
    report = app.build(progress=lambda done, total: read.append(total))

    assert report and read[0] == len(BIRDS) - 6
    assert sets_agree(app) and found(app, "puffin") == ["puffin.md"]
    assert not aside(app.config.index_file).exists()


def test_a_new_model_that_does_not_answer_leaves_the_old_vectors(make_app: Callable[..., App], birds: Path) -> None:
    make_app().build()
    said: list[str] = []
    app, model = make_app(), Another(breaks_after=0)
    app.say, app.embedder = said.append, model
    write(birds, {"new.md": "a walrus among the birds"})
    report, outcome = app.build(), app.search("walrus")

    assert report and (report.indexed, report.embedded, report.pending) == (1, 1, 0)
    assert outcome.mode == "hybrid" and outcome.results[0].file_path == "new.md"
    assert any("stays with builtin" in line for line in said)


def test_a_new_model_that_breaks_off_is_asked_the_rest_in_the_next_run(
    make_app: Callable[..., App], birds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tars.indexer.PENDING_BATCH", 3)
    make_app().build()
    said: list[str] = []
    app, model = make_app(), Another(breaks_after=5)
    app.say, app.embedder = said.append, model
    app.build()

    assert app.search("puffin").mode == "hybrid"
    assert app.store.identity and app.store.identity.embedding != "another"
    assert any("down" in line and "stays with" in line for line in said)
    asked = len(model.asked)
    model.breaks_after = None
    report = app.build()

    assert report and 0 < report.embedded < len(BIRDS)
    assert asked > 1 and app.store.identity.embedding == "another"
    assert app.search("puffin", mode="vec").results[0].file_path == "puffin.md"


# ---- damaged and foreign


def damage_header(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[:100] = b"not a database" * 7 + b"no"
    file.write_bytes(content)


def damage_pages(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for at in range(16_384, len(content) - 1_000, 4_096):
        content[at : at + 600] = os.urandom(600)
    file.write_bytes(content)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def make_foreign(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as conn:
        conn.execute("CREATE TABLE accounts (name TEXT)")
        conn.execute("INSERT INTO accounts VALUES ('mine')")
    conn.close()


@pytest.mark.parametrize("spoil", [damage_header, damage_pages, cut_short, make_foreign])
def test_a_damaged_or_foreign_index_is_set_aside_and_made_anew(
    make_app: Callable[..., App], birds: Path, spoil: Callable[[Path], None]
) -> None:
    make_app().build()
    file = make_app().config.index_file
    spoil(file)
    spoiled = file.read_bytes()
    said: list[str] = []
    app = make_app()
    app.say = said.append
    app.refresh()
    outcome = app.search("puffin")

    assert outcome.results[0].file_path == "puffin.md"
    (kept,) = file.parent.glob("*.damaged-*[0-9]")
    assert kept.read_bytes() == spoiled
    assert any("damaged" in line and kept.name in line for line in said)
    assert sets_agree(app) and not app.store.damage()


def test_a_living_process_goes_over_to_the_new_index(make_app: Callable[..., App], birds: Path) -> None:
    living = make_app(lives=True)
    living.build()
    assert found(living, "puffin") == ["puffin.md"]
    damage_header(living.config.index_file)
    write(birds, {"new.md": "a walrus"})
    make_app().build()

    assert found(living, "walrus") == ["new.md"]


def test_a_half_made_index_that_is_damaged_is_begun_again(make_app: Callable[..., App], birds: Path) -> None:
    make_app().build()
    app = make_app()
    app.embedder = Another()
    aside(app.config.index_file).write_bytes(b"rubbish" * 1_000)
    app.build()

    assert app.store.identity and app.store.identity.embedding == "another"
    assert not aside(app.config.index_file).exists()


def test_the_second_who_saw_the_damage_takes_the_new_index_for_what_it_is(
    make_app: Callable[..., App], birds: Path
) -> None:
    one, other, late = make_app(lives=True), make_app(lives=True), make_app()
    one.build()
    assert other.search("puffin").results
    damage_header(one.config.index_file)
    damage = apsw.CorruptError("seen by all")
    for app in (one, other, late):
        app.replace_damaged(damage)

    assert len(list(one.config.index_file.parent.glob("*.damaged-*[0-9]"))) == 1
    assert found(other, "puffin") == found(late, "puffin") == ["puffin.md"]


def test_another_program_that_keeps_the_index_to_itself_is_told_of(
    app: App, birds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tars.db.connection.BUSY_MS", 50)
    app.build()
    write(birds, {"new.md": "a walrus"})
    foreign = apsw.Connection(str(app.config.index_file))
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(TarsError, match="another program"):
        app.build()
    foreign.close()
    app.build()

    assert found(app, "walrus") == ["new.md"]


@pytest.mark.parametrize("page", range(1, 20))
def test_doctor_tells_of_damage_wherever_it_is_and_mends_it(app: App, birds: Path, page: int) -> None:
    app.build()
    app.store.close()
    app._store = None
    content = bytearray(app.config.index_file.read_bytes())
    content[page * 16_384 : (page + 1) * 16_384] = os.urandom(16_384)
    app.config.index_file.write_bytes(content)
    doctor.examine(app)
    doctor.mend(app)
    app.build()

    assert all(check.ok for check in doctor.examine(app) if check.name != "scheduled run")
    assert doctor.figures(app)["notes"] == len(BIRDS)


def test_doctor_goes_on_if_the_folder_seems_to_be_away(app: App, vault: Path) -> None:
    write(vault, {f"{number}.md": f"note {number}" for number in range(25)})
    app.build()
    for note in vault.iterdir():
        note.unlink()
    checks = {check.name: check for check in doctor.examine(app)}

    assert "mounted" in checks["index and folder"].found and not checks["index and folder"].ok
    assert checks["embedding"].ok


# ---- canaries


@pytest.mark.parametrize(
    "text", ["___", "_ _ __", "\U0001e900\U0001e901\U0001e902", "\U0001d518\U0001d52b \u2163 \u2121"]
)
def test_what_neither_way_takes_for_words_keeps_no_index_from_its_place(app: App, vault: Path, text: str) -> None:
    write(vault, {"odd.md": text})
    app.build()

    assert canaries.unfound(app.index) == []
    assert app.build(full=True)


def test_canaries_find_what_a_sound_index_holds(make_app: Callable[..., App], birds: Path) -> None:
    app = make_app()
    app.build()

    assert canaries.unfound(app.index) == []


@pytest.mark.parametrize(
    ("harm", "way"),
    [
        ("INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all')", "fts"),
        ("DELETE FROM vec_chunks", "vec"),
    ],
)
def test_canaries_tell_what_is_lost_without_an_error(app: App, birds: Path, harm: str, way: str) -> None:
    app.build()
    app.store.conn.execute(harm)

    assert any(line.endswith(f"through {way}") for line in canaries.unfound(app.index))


def test_a_new_index_that_does_not_find_its_passages_does_not_take_over(
    make_app: Callable[..., App], birds: Path
) -> None:
    class Forgetful(Another):
        """Knows notes and no questions."""

        def query(self, text: str) -> Any:
            return 0 * super().query(text)

    app = make_app()
    app.build()
    app.embedder = Forgetful()
    with pytest.raises(TarsError, match="the old one stays"):
        app.build()

    assert make_app().search("puffin").results[0].file_path == "puffin.md"


# ---- space


@pytest.mark.parametrize("kept", [range(1), range(0, 40, 8)], ids=["the first", "one here and there"])
def test_space_of_deleted_passages_is_given_back(app: App, vault: Path, kept: range) -> None:
    lines = "\n\n".join(f"## Heading {n}\n\nA walrus numbered {n} lay on the shore." for n in range(1_500))
    write(vault, {f"{n}.md": lines for n in range(40)})
    app.build()
    size, (used, places) = app.config.index_file.stat().st_size, app.store.slots()
    for n in set(range(40)) - set(kept):
        (vault / f"{n}.md").unlink()
    app.build()

    assert used > db.FEW_SLOTS and places >= used
    assert app.store.slots()[1] < places / 4
    assert app.config.index_file.stat().st_size < size / 2
    assert sets_agree(app) and canaries.unfound(app.index) == []
    assert app.search("walrus numbered 1234", mode="vec").results


# ---- an index that may not be written to


def test_an_index_that_may_not_be_written_to_can_still_be_searched(
    make_app: Callable[..., App], birds: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", home], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        app = make_app()
        app.build()
        app.__exit__()
        subprocess.run(["mount", "-o", "remount,ro", home], check=True)
        write(birds, {"new.md": "a walrus"})
        said: list[str] = []
        reader = make_app()
        reader.say = said.append
        reader.refresh()

        assert found(reader, "puffin") == ["puffin.md"]
        assert any("may not be written to" in line for line in said)
        with pytest.raises(TarsError, match=r"cannot write|may not be written"):
            reader.build()
        reader.__exit__()
    finally:
        subprocess.run(["umount", "-l", home], check=True)


# ---- doctor --fix


@pytest.mark.parametrize(
    "harm",
    [
        "INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all')",
        "DELETE FROM vec_chunks WHERE rowid IN (SELECT id FROM chunks LIMIT 3)",
        "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks LIMIT 3)",
        "DELETE FROM meta WHERE key = 'complete'",
    ],
)
def test_doctor_mends_what_it_finds(make_app: Callable[..., App], birds: Path, harm: str) -> None:
    make_app().build()
    app = make_app()
    app.store.conn.execute(harm)
    assert not all(check.ok for check in doctor.examine(app))
    doctor.mend(app)

    assert [check for check in doctor.examine(app) if not check.ok] == []
    assert sets_agree(app) and found(app, "puffin") == ["puffin.md"]


def test_doctor_mends_a_file_that_is_no_database(make_app: Callable[..., App], birds: Path) -> None:
    make_app().build()
    damage_header(make_app().config.index_file)
    app = make_app()
    doctor.mend(app)

    assert [check for check in doctor.examine(app) if not check.ok] == []
    with pytest.raises(apsw.NotADBError):
        apsw.Connection(str(next(app.config.index_file.parent.glob("*.damaged-*[0-9]")))).execute("SELECT 1 FROM x")
