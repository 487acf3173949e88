"""Settings: which value wins, where it came from, and what a wrong one is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tars.app import App, settings
from tars.config import load
from tars.errors import UsageError
from tars.search.presets import PRESETS
from tars.search.settings import configured


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def config_file(home: Path, text: str) -> dict[str, str]:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return {"TARS_HOME": str(home)}


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(home: Path, tmp_path: Path) -> None:
    environ = config_file(home, 'embedding = "ollama:from-file"')

    assert load({}, environ={"TARS_HOME": str(tmp_path / "none")}).embedding == "builtin"
    assert load({}, environ=environ).embedding == "ollama:from-file"
    environ["TARS_EMBEDDING"] = "ollama:from-env"
    assert load({}, environ=environ).embedding == "ollama:from-env"
    assert load({"embedding": "ollama:from-flag"}, environ=environ).embedding == "ollama:from-flag"


def test_the_memory_folder_is_found_in_the_documented_order(home: Path, tmp_path: Path) -> None:
    bare, with_memory = tmp_path / "bare", tmp_path / "checkout"
    bare.mkdir()
    (with_memory / "memory").mkdir(parents=True)
    environ = {"TARS_HOME": str(home)}

    assert load({}, environ=environ, cwd=bare).memory_dir == home / "data" / "memory"
    assert load({}, environ=environ, cwd=with_memory).memory_dir == with_memory / "memory"
    config_file(home, f"memory_dir = '{tmp_path / 'from-file'}'")
    assert load({}, environ=environ, cwd=with_memory).memory_dir == tmp_path / "from-file"
    environ["TARS_MEMORY_DIR"] = str(tmp_path / "from-env")
    assert load({}, environ=environ, cwd=with_memory).memory_dir == tmp_path / "from-env"
    assert load({"memory_dir": "here"}, environ=environ, cwd=bare).memory_dir == bare / "here"


def test_each_memory_folder_has_an_index_of_its_own_outside_of_it(home: Path, tmp_path: Path) -> None:
    environ = {"TARS_HOME": str(home)}
    one = load({"memory_dir": str(tmp_path / "a" / "notes")}, environ=environ).index_file
    two = load({"memory_dir": str(tmp_path / "b" / "notes")}, environ=environ).index_file

    assert one != two
    assert home in one.parents


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("embeding = 'builtin'", ["embeding", "embedding"]),
        ("embedding = 3", ["embedding", "text"]),
        ("[index]\nchunk_char = 3", ["index.chunk_char", "chunk_chars"]),
        ("[index]\nchunk_chars = 'big'", ["index.chunk_chars", "whole number"]),
        ("[index]\nchunk_chars = true", ["index.chunk_chars", "whole number"]),
        ("index = 3", ["index", "table"]),
        ("[search]\nlimits = 3", ["search.limits", "limit"]),
        ("[search]\nlimit = 'ten'", ["search.limit", "whole number"]),
        ("[search.words]\nweight = [1.0]", ["search.words.weight", "weights"]),
        ("[search.fusion]\nk = 'x'", ["search.fusion.k", "number"]),
        ("[search]\non = [['recency']]", ["search.on", "text"]),
        ("[search]\npreset = 'tecnical'", ["tecnical", "technical"]),
        ("[search]\npreset = 'xyz'", ["xyz", "general, technical, personal, research"]),
        ("[search]\npreset = 3", ["search.preset", "text"]),
        ("not toml", ["config.toml"]),
    ],
)
def test_a_wrong_setting_is_named_with_the_nearest_known_one(home: Path, text: str, words: list[str]) -> None:
    environ = config_file(home, text)

    with pytest.raises(UsageError) as error:
        settings(App(load({}, environ=environ)))
    assert all(word in str(error.value) for word in words)


def test_every_setting_shows_its_value_and_its_origin(home: Path) -> None:
    environ = {**config_file(home, "[search]\nlimit = 7\n[search.fusion]\nk = 20"), "TARS_EMBEDDING": "builtin"}
    with App(load({}, environ=environ)) as app:
        rows = {row.key: (row.value, row.origin) for row in settings(app)}

    assert rows["search.limit"] == ("7", str(home / "config.toml"))
    assert rows["search.fusion.k"] == ("20.0", str(home / "config.toml"))
    assert rows["embedding"] == ("builtin", "TARS_EMBEDDING")
    assert rows["index.max_file_mb"][1] == "default"


def shown(home: Path, text: str, **flags: str) -> dict[str, tuple[str, str]]:
    with App(load(flags, environ=config_file(home, text))) as app:
        return {row.key: (row.value, row.origin) for row in settings(app)}


def test_a_preset_sets_what_is_not_set_by_hand(home: Path) -> None:
    plain = shown(home, "")
    rows = shown(home, "[search]\npreset = 'technical'\n[search.fusion]\nvectors = 9")

    assert rows["search.preset"] == ("technical", str(home / "config.toml"))
    assert rows["search.fusion.vectors"] == ("9.0", str(home / "config.toml"))
    assert rows["search.fusion.words"][1] == rows["search.recency.factors"][1] == "preset technical"
    assert float(rows["search.fusion.words"][0]) == 1.5 * float(plain["search.fusion.words"][0])
    assert rows["search.fusion.k"] == plain["search.fusion.k"]


def test_a_stage_that_a_preset_adds_can_be_left_out_by_hand(home: Path) -> None:
    assert "recency" in shown(home, "[search]\npreset = 'general'")["stages: refine"][0]
    assert "recency" not in shown(home, "[search]\npreset = 'general'\noff = ['recency']")["stages: refine"][0]
    assert "recency" in shown(home, "[search]\npreset = 'research'\non = ['recency']")["stages: refine"][0]


def test_the_flag_chooses_another_preset_than_the_file(home: Path) -> None:
    rows = shown(home, "[search]\npreset = 'technical'\n[search.fusion]\nk = 20", preset="research")

    assert rows["search.preset"] == ("research", "--preset")
    assert rows["search.fusion.words"][1] == "preset research"
    assert rows["search.fusion.k"] == ("20.0", str(home / "config.toml"))


def test_config_shows_the_stages_in_their_order_and_those_left_out(home: Path) -> None:
    rows = shown(home, "[search]\non = ['whole_notes']\noff = ['late']")

    assert rows["stages: retrieve"][0] == "words, vectors, hyde, whole_notes"
    assert rows["stages: fuse"][0] == "fusion"
    assert "late" in rows["stages: off"][0].split(", ") and "whole_notes" not in rows["stages: off"][0].split(", ")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_pipeline_other_than_the_default(preset: str) -> None:
    assert configured({"preset": preset}) != configured({})


def test_a_preset_changes_the_order(home: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "words.md").write_text("---\ndate: 2020-01-01\n---\nThe boiler boiler boiler.")
    (tmp_path / "notes" / "recent.md").write_text("---\ndate: 2026-03-01\n---\nThe boiler was looked at, and the sink.")
    environ = {**config_file(home, ""), "TARS_MEMORY_DIR": str(tmp_path / "notes"), "TARS_NOW": "2026-03-02"}
    best = {}
    for preset in ("personal", "research"):
        with App(load({"preset": preset}, environ=environ)) as app:
            app.refresh()
            best[preset] = app.search("boiler").results[0].file_path

    assert best == {"personal": "recent.md", "research": "words.md"}


def test_a_search_setting_reaches_the_search(home: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number in range(5):
        (tmp_path / "notes" / f"{number}.md").write_text(f"tea number {number}")
    environ = {**config_file(home, "[search]\nlimit = 2"), "TARS_MEMORY_DIR": str(tmp_path / "notes")}

    with App(load({}, environ=environ)) as app:
        app.refresh()
        assert len(app.search("tea").results) == 2
        assert len(app.search("tea", limit=4).results) == 4
