"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "tars").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8") and path.parent.name != "table"
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_true(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))

    assert done.attempted and not done.failed
