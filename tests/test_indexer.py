"""The indexer: cost and content follow what changed in the folder."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write

from tars.app import App
from tars.embeddings.builtin import LINE_END, StaticTable
from tars.errors import EmbeddingError, TarsError
from tars.indexer import Indexer, find_changes

LONG_AGO = 1_600_000_000


class CountingTable(StaticTable):
    """The built-in embedder, counting what it is asked; down while `down` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False
        self.leaves_machine = False

    def documents(self, texts: Sequence[str]) -> Any:
        if self.down:
            raise EmbeddingError("the backend is down")
        self.asked += texts
        return super().documents(texts)


def settle(folder: Path) -> None:
    """Give every note a time long past, so that none is too fresh to be trusted."""
    for number, note in enumerate(sorted(folder.rglob("*.md"))):
        if note.is_file():
            os.utime(note, (LONG_AGO + number, LONG_AGO + number))


def found(app: App, text: str) -> list[str]:
    return [result.file_path for result in app.search(text, mode="fts").results]


def sets_agree(app: App) -> bool:
    sets, vectorless = app.store.rowid_sets(), app.store.vectorless()
    return sets["chunks"] == sets["chunks_fts"] and sets["chunks"] - vectorless == sets["vec_chunks"]


def test_the_first_run_takes_in_everything_and_the_second_nothing(app: App, vault: Path) -> None:
    write(vault, {"a.md": "# Tea\n\ngreen tea", "sub/b.md": "black coffee"})
    settle(vault)
    first, second = app.build(), app.build()

    assert first and (first.indexed, first.unchanged) == (2, 0)
    assert second and (second.indexed, second.unchanged, second.embedded) == (0, 2, 0)
    assert found(app, "coffee") == ["sub/b.md"]


def test_a_run_without_changes_opens_no_note(app: App, vault: Path) -> None:
    write(vault, {"a.md": "green tea"})
    settle(vault)
    app.build()

    (vault / "a.md").chmod(0)  # size and time stay; as root the next line still proves it
    assert not find_changes(app.store, vault)


def test_an_edit_of_the_same_size_within_the_clocks_step_is_seen(app: App, vault: Path) -> None:
    write(vault, {"a.md": "green tea"})
    stamp = (vault / "a.md").stat()
    app.build()
    write(vault, {"a.md": "black tea"})
    os.utime(vault / "a.md", ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
    app.build()

    assert found(app, "black") == ["a.md"]
    assert found(app, "green") == []


def test_an_edit_embeds_only_the_passages_that_changed(make_app: Callable[..., App], vault: Path) -> None:
    sections = [f"## Part {n}\n\n" + f"Sentence {n} about subject {n}. " * 18 for n in range(6)]
    write(vault, {"a.md": "# Long\n\n" + "\n\n".join(sections)})
    app, table = make_app(), CountingTable()
    app.embedder = table
    app.build()
    before, rowids = len(table.asked), app.store.rowid_sets()["chunks"]
    sections[2] = sections[2].replace("subject", "matter")
    write(vault, {"a.md": "# Long\n\n" + "\n\n".join(sections)})
    app.build()

    assert before >= 6
    assert len(table.asked) - before == 1
    assert len(rowids - app.store.rowid_sets()["chunks"]) == 1
    assert sets_agree(app)


def test_lines_inserted_above_move_the_line_numbers_of_kept_passages(app: App, vault: Path) -> None:
    write(vault, {"a.md": "# A\n\n## One\n\n" + "walrus " * 80 + "\n\n## Two\n\n" + "pelican " * 70})
    app.build()
    write(vault, {"a.md": "# A\n\n## One\n\n" + "walrus " * 80 + "\nmore\nand more\n\n## Two\n\n" + "pelican " * 70})
    app.build()

    (result,) = app.search("pelican", mode="fts").results
    lines = (vault / "a.md").read_text().split("\n")
    assert "\n".join(lines[result.start_line - 1 : result.end_line]) == result.content


def test_a_renamed_note_is_not_embedded_again(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"old.md": "the walrus lives here", "b.md": "# Other\n\nsomething else"})
    app, table = make_app(), CountingTable()
    app.embedder = table
    app.build()
    asked = len(table.asked)
    (vault / "old.md").rename(vault / "new.md")
    app.build()

    assert len(table.asked) == asked
    assert found(app, "walrus") == ["new.md"]
    assert app.search("walrus", mode="vec").results[0].file_path == "new.md"
    assert sets_agree(app)


def test_a_deleted_note_is_gone_from_every_table(app: App, vault: Path) -> None:
    write(vault, {"a.md": "# A\n\n#tag [[b]] walrus", "b.md": "pelican"})
    app.build()
    (vault / "a.md").unlink()
    report = app.build()

    assert report and report.removed == 1
    assert found(app, "walrus") == []
    assert app.store.counts()["links"] == app.store.counts()["tags"] == 0
    assert len(app.store.rowid_sets()["chunks"]) == 1
    assert sets_agree(app)


def test_a_touched_note_is_read_but_not_written_again(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "walrus"})
    app, table = make_app(), CountingTable()
    app.embedder = table
    app.build()
    rowids = app.store.rowid_sets()["chunks"]
    os.utime(vault / "a.md", (LONG_AGO, LONG_AGO))
    report = app.build()

    assert report and (report.indexed, report.unchanged) == (0, 1)
    assert app.store.rowid_sets()["chunks"] == rowids
    assert app.search("walrus").results[0].date == "2020-09-13"


def test_vectors_wait_while_the_backend_is_down_and_come_with_the_next_run(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "walrus"})
    app, table = make_app(), CountingTable()
    app.embedder, table.down = table, True
    report = app.build()

    assert report and report.pending == 1 and "down" in (report.warning or "")
    assert found(app, "walrus") == ["a.md"]
    assert any("words only" in notice for notice in app.search("walrus").notices)
    table.down = False
    report = app.build()
    assert report and (report.pending, report.embedded) == (0, 1)
    assert [r.file_path for r in app.search("walrus", mode="vec").results] == ["a.md"]


def test_private_passages_stay_off_an_embedder_on_another_machine(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "open words\n\n<private>\nmy secret walrus\n</private>\n\nmore open words"})
    app, table = make_app(), CountingTable()
    app.embedder, table.leaves_machine = table, True
    app.build()

    assert table.asked and not any("walrus" in text for text in table.asked)
    assert found(app, "walrus") == ["a.md"]
    assert sets_agree(app)


def test_a_note_that_vanishes_between_listing_and_reading_is_no_error(app: App, vault: Path) -> None:
    write(vault, {"a.md": "walrus", "b.md": "pelican"})
    app.build()
    write(vault, {"c.md": "seal"})
    changes = find_changes(app.store, vault)
    (vault / "c.md").unlink()
    indexer = Indexer(app.store, vault, app.embedder, app.table, chunk_chars=600, max_file_bytes=10**6)
    report = indexer.run(changes)

    assert report.skipped == []
    assert found(app, "seal") == []
    assert sets_agree(app)


def test_another_embedding_model_rebuilds_the_vectors_and_nothing_else(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "walrus", "b.md": "pelican"})
    make_app().build()
    said: list[str] = []
    app, table = make_app(), CountingTable()
    app.say = said.append
    table.name, app.embedder = "another", table  # type: ignore[misc]
    rowids = app.store.rowid_sets()["chunks"]
    report = app.build()

    assert report and (report.indexed, report.embedded) == (0, 2)
    assert app.store.rowid_sets()["chunks"] == rowids
    assert any("embedding" in line for line in said)
    assert sets_agree(app)


def test_an_index_of_a_model_that_is_gone_is_never_searched_by_vectors(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "walrus"})
    former, table = make_app(), CountingTable()
    table.name, former.embedder = "gone", table  # type: ignore[misc]
    former.build()
    outcome = make_app().search("walrus")

    assert outcome.mode == "fts"
    assert any("words only" in notice for notice in outcome.notices)


def test_another_chunk_size_cuts_every_note_anew_and_reuses_vectors(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"long.md": "A sentence about the sea. " * 100, "short.md": "walrus"})
    make_app().build()
    (Path(make_app().config.places.config_file)).write_text("[index]\nchunk_chars = 300")
    app, table = make_app(), CountingTable()
    app.embedder = table
    before = app.store.counts()["chunks"]
    report = app.build()

    assert app.store.counts()["chunks"] > before
    assert report and report.embedded == app.store.counts()["chunks"] - 1
    assert sets_agree(app)


def test_only_one_process_indexes_at_a_time(make_app: Callable[..., App], vault: Path) -> None:
    from tars.locks import Lock

    write(vault, {"a.md": "walrus"})
    app = make_app()
    other = Lock(app.config.index_file.with_suffix(".lock"))
    assert other.acquire()

    assert app.build() is None
    assert app.search("walrus").empty_reason.code == "no_index"  # type: ignore[union-attr]
    other.release()
    assert app.build() is not None
    assert found(app, "walrus") == ["a.md"]


def test_full_makes_the_same_index_again(app: App, vault: Path) -> None:
    write(vault, {"a.md": "walrus", "b.md": "pelican"})
    app.build()
    generation = app.store.generation
    report = app.build(full=True)

    assert report and report.indexed == 2
    assert app.store.generation > generation
    assert found(app, "walrus") == ["a.md"]


def test_a_missing_full_text_is_filled_again_from_the_passages(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "---\ntags: [sea]\n---\n# Title\n\nwalrus"})
    app = make_app()
    app.build()
    app.store.conn.execute("DROP TABLE chunks_fts")
    again = make_app()
    again.refresh()

    assert found(again, "walrus") == found(again, "title") == found(again, "sea") == ["a.md"]
    assert sets_agree(again)


def test_a_living_reader_is_not_misled_by_a_full_rebuild(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "pianos and their strings", "b.md": "the boiler and its heating"})
    make_app().build()
    living = make_app(lives=True)
    assert living.search("heating", mode="vec").results[0].file_path == "b.md"
    (vault / "a.md").rename(vault / "z.md")
    make_app().build(full=True)

    assert living.search("heating", mode="vec").results[0].file_path == "b.md"
    assert living.search("strings", mode="vec").results[0].file_path == "z.md"


def test_a_file_that_was_too_large_is_taken_in_when_the_limit_is_raised(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"a.md": "walrus\n" + "filler " * 200_000})
    settle(vault)
    settings = make_app().config.places.config_file
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[index]\nmax_file_mb = 1")
    first = make_app().build()
    settings.write_text("[index]\nmax_file_mb = 5")
    second = make_app().build()

    assert first and [skip.path for skip in first.skipped] == ["a.md"]
    assert second and second.skipped == []
    assert found(make_app(), "walrus") == ["a.md"]


def test_a_passage_that_is_private_no_longer_gets_its_vector(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "---\nprivate: true\n---\nwalrus"})
    app, table = make_app(), CountingTable()
    app.embedder, table.leaves_machine = table, True
    app.build()
    assert app.search("walrus", mode="vec").results == []
    write(vault, {"a.md": "---\nprivate: false\n---\nwalrus"})
    app.build()

    assert [r.file_path for r in app.search("walrus", mode="vec").results] == ["a.md"]
    assert sets_agree(app)


def test_withheld_vectors_come_when_the_embedder_is_on_this_machine(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "---\nprivate: true\n---\nwalrus"})
    app, table = make_app(), CountingTable()
    app.embedder, table.leaves_machine = table, True
    app.build()
    table.leaves_machine = False
    app.build()

    assert [r.file_path for r in app.search("walrus", mode="vec").results] == ["a.md"]


def test_a_model_with_other_dimensions_than_before_leaves_the_words(make_app: Callable[..., App], vault: Path) -> None:
    class Shorter(CountingTable):
        def documents(self, texts: Sequence[str]) -> Any:
            return super().documents(texts)[:, :8]

    write(vault, {"a.md": "walrus"})
    make_app().build()
    app, table = make_app(), Shorter()
    app.embedder = table
    write(vault, {"b.md": "walrus too"})
    report, outcome = app.build(), app.search("walrus")

    assert report and "tars index --full" in (report.warning or "")
    assert {r.file_path for r in outcome.results} == {"a.md", "b.md"}
    assert any("tars index --full" in notice for notice in outcome.notices)


def test_a_living_reader_takes_in_vectors_of_another_length(make_app: Callable[..., App], vault: Path) -> None:
    class Changing(CountingTable):
        length = 256

        @property
        def dimensions(self) -> int:  # type: ignore[override]
            return self.length

        def documents(self, texts: Sequence[str]) -> Any:
            return StaticTable().documents(texts)[:, : self.length].copy()

    write(vault, {"a.md": "the walrus swims", "b.md": "green tea"})
    table = Changing()
    living, other = make_app(lives=True), make_app()
    living.embedder = other.embedder = table
    living.build()
    assert living.search("walrus", mode="vec").results[0].file_path == "a.md"
    table.length = 64
    other.build(full=True)

    assert living.search("walrus", mode="vec").results[0].file_path == "a.md"
    assert living.index.matrix and living.index.matrix.rows.shape == (2, 64)


def test_an_index_that_cannot_be_opened_is_one_clear_error(app: App, vault: Path) -> None:
    app.config.index_file.mkdir(parents=True)

    with pytest.raises(TarsError, match="cannot open the index"):
        app.build()


def test_an_odd_time_of_a_file_stops_nothing(app: App, vault: Path) -> None:
    write(vault, {"a.md": "walrus", "b.md": "pelican"})
    os.utime(vault / "a.md", (253_402_400_000, 253_402_400_000))
    report = app.build()

    assert report and report.skipped == []
    assert found(app, "pelican") == ["b.md"]


def test_what_changed_beside_the_text_reaches_the_full_text_and_the_flags(app: App, vault: Path) -> None:
    write(vault, {"a.md": "---\ntags: [old]\n---\n## 2026-01-01\n\nwalrus"})
    app.build()
    write(vault, {"a.md": "---\ntags: [new]\nprivate: true\n---\n## 2026-01-01\n\nwalrus"})
    app.build()

    assert found(app, "new") == ["a.md"] and found(app, "old") == []
    (result,) = app.search("walrus", mode="fts").results
    assert result.private and result.date == "2026-01-01"


def test_indexing_and_searching_change_no_note(app: App, vault: Path) -> None:
    write(vault, {"a.md": "walrus\r\n\r\nmore", "sub/b.md": "\ufeffpelican"})
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in vault.rglob("*") if p.is_file()}
    app.build()
    app.search("walrus")
    app.build(full=True)

    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in vault.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("seed", range(50))
def test_the_three_rowid_sets_agree_after_any_sequence(app: App, vault: Path, seed: int) -> None:
    rng = random.Random(seed)
    words = "walrus pelican seal otter heron tern gull puffin auk petrel".split()

    def text() -> str:
        body = "\n\n".join(" ".join(rng.choices(words, k=rng.randrange(1, 120))) for _ in range(rng.randrange(1, 5)))
        return rng.choice(["", "# Title\n\n", "---\ntags: [sea]\n---\n\n"]) + body + rng.choice(["", " #bird [[x]]"])

    for _ in range(12):
        notes = sorted(vault.rglob("*.md"))
        action = rng.choice(["create", "create", "edit", "rename", "delete", "reindex", "full"])
        if action == "create" or not notes:
            write(vault, {f"{rng.choice(['', 'sub/'])}{rng.randrange(20)}.md": text()})
        elif action == "edit":
            rng.choice(notes).write_text(text())
        elif action == "rename":
            rng.choice(notes).rename(vault / f"renamed-{rng.randrange(20)}.md")
        elif action == "delete":
            rng.choice(notes).unlink()
        else:
            app.build(full=action == "full")
        if rng.random() < 0.5:
            app.build()
        if app.store.identity:
            assert sets_agree(app)
    app.build()

    assert sets_agree(app)
    assert {p.relative_to(vault).as_posix() for p in vault.rglob("*.md")} == set(app.store.stamps())
    counts = app.store.token_counts(app.table.size)
    found = app.store.tokens_around(list(app.store.rowid_sets()["chunks"]), reach=0)
    tokens = [blob for _, _, blob in found.values()]
    ids = [token for blob in tokens for token in set(np.frombuffer(blob, dtype=np.uint16).tolist()) - {LINE_END}]
    held = np.bincount(ids, minlength=app.table.size)
    assert (counts == held).all()
