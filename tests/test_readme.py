"""The README is true: it names what there is, and its settings are the defaults."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tars.app import App, as_in_file, settings
from tars.cli import COMMANDS
from tars.config import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    rows: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            rows |= flat(value, f"{prefix}{key}.")
        else:
            rows[prefix + key] = as_in_file(value)
    return rows


def test_every_command_is_named() -> None:
    assert all(f"`tars {name}" in README for name in COMMANDS if name != "message")


def test_the_settings_shown_are_all_there_are_and_have_their_defaults(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", README, flags=re.S)
    written = flat(tomllib.loads(shown))
    with App(load({}, environ={"TARS_HOME": str(tmp_path)})) as app:
        default = {row.key: row.value for row in settings(app) if " " not in row.key}

    assert written.keys() == default.keys()
    assert {**written, "memory_dir": ""} == {**default, "memory_dir": ""}


def test_the_files_it_speaks_of_are_there() -> None:
    for path in re.findall(r"(?:tars|tests|memory)/[\w./-]*\w", README):
        assert (ROOT / path).exists(), path
