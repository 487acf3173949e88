"""A memory folder and an App over it, both temporary; everything in between is real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tars.app import App
from tars.config import load


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(tmp_path: Path, vault: Path) -> dict[str, str]:
    return {"TARS_HOME": str(tmp_path / "home"), "TARS_MEMORY_DIR": str(vault)}


@pytest.fixture
def make_app(environ: dict[str, str]) -> Iterator[Callable[..., App]]:
    """Each call opens the same memory anew, as another process would."""
    opened: list[App] = []

    def make(*, lives: bool = False, **more: str) -> App:
        app = App(load({}, environ={**environ, **more}), lives=lives)
        opened.append(app)
        return app

    yield make
    for app in opened:
        app.__exit__()


@pytest.fixture
def app(make_app: Callable[..., App]) -> App:
    return make_app()


def write(folder: Path, notes: dict[str, str]) -> None:
    for path, text in notes.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
