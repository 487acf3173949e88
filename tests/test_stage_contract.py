"""What every refining stage promises, whichever they are."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from conftest import write

from tars.app import App
from tars.search.pipeline import ALL, Stage, name_of
from tars.search.query import Query, SearchResult

STAGES = pytest.mark.parametrize("stage", ALL.refine, ids=name_of)
TODAY = date(2026, 3, 10)
LIST = """# Garden

The pear tree by the wall was pruned. See [[soil]] and [[tools/shears]].

## Frost

Frost came on 2026-03-08; the pear tree was covered with fleece, and the tools were oiled.
"""
NOTES = {
    "garden.md": LIST,
    "copy.md": LIST,
    "soil.md": "# Soil\n\nClay, dug over in autumn; the pear likes it. ![[garden]]\n",
    "tools/shears.md": "# Shears\n\nSharpened for pruning the pear tree.\n",
    "daily/2026-03-09.md": "# Monday\n\nLooked at the pear tree; buds.\n",
    "Memory.md": "# Memory\n\n- The pear tree was planted by Ruth.\n",
    "apart.md": "# Apart\n\nA pear in a still life by Cézanne.\n",
}


@pytest.fixture
def query(app: App, vault: Path) -> Query:
    write(vault, NOTES)
    app.build()
    return Query("pruning the pear tree", app.index, today=TODAY)


@pytest.fixture
def found(app: App, query: Query) -> list[SearchResult]:
    """What comes out of the fusion, some of it used before; confidence is there for the stages that come after it."""
    outcome = ALL.changed(lambda stage: stage if stage not in ALL.refine else None)(query)
    given = [replace(result, confidence=result.score) for result in outcome.results]
    app.record_use(given[-2:])
    return given


@STAGES
def test_nothing_in_gives_nothing_out(stage: Stage, query: Query) -> None:
    assert stage([], query) == []


@STAGES
def test_results_stay_unique_best_first_and_between_0_and_1(
    stage: Stage, query: Query, found: list[SearchResult]
) -> None:
    given = stage(found, query)
    scores = [result.score for result in given]

    assert len(found) > 5 and given
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len({result.chunk_rowid for result in given}) == len(given)


@STAGES
def test_the_input_stays_as_it_was(stage: Stage, query: Query, found: list[SearchResult]) -> None:
    before = deepcopy(found)
    given = stage(found, query)

    assert found == before
    assert given is not found


@STAGES
def test_the_same_gives_the_same_again(stage: Stage, query: Query, found: list[SearchResult]) -> None:
    assert stage(found, query) == stage(found, query)


@STAGES
def test_one_result_is_kept(stage: Stage, query: Query, found: list[SearchResult]) -> None:
    assert found[0].chunk_rowid in {result.chunk_rowid for result in stage(found[:1], query)}
