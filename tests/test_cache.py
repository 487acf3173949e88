"""The cache: what it gives is what a search would give now, and a search under way is not begun again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tars.app import App
from tars.config import load
from tars.db import Filters
from tars.errors import EmbeddingError
from tars.search.cache import Cache, question_key
from tars.search.pipeline import Outcome
from tars.search.query import Query

NOTES = {
    "tea.md": "---\ntags: [food]\n---\nI drink green tea.\n",
    "daily/2026-02-01.md": "Planted tulips and drank tea.\n",
    "car.md": "The car needs new tyres.\n",
}


@pytest.fixture
def living(make_app: Callable[..., App], vault: Path) -> App:
    write(vault, NOTES)
    app = make_app(lives=True)
    app.build()
    return app


def query(app: App, **more: object) -> Query:
    return replace(Query("tea", app.index), **more)  # type: ignore[arg-type]


def counted(outcome: Outcome) -> tuple[Callable[[], Outcome], list[int]]:
    runs: list[int] = []

    def run() -> Outcome:
        runs.append(1)
        return outcome

    return run, runs


def test_a_question_asked_again_is_not_searched_again(living: App) -> None:
    first = living.search("green tea")
    first.results.clear()
    again = living.search("green tea")

    assert len(living.cache) == 1
    assert again.results and again.results == living.search("green  tea ").results
    assert len(living.cache) == 1


def test_a_repeated_question_takes_no_more_than_a_millisecond(living: App) -> None:
    living.search("green tea")

    def took() -> float:
        start = time.perf_counter()
        living.search("green tea")
        return time.perf_counter() - start

    assert min(took() for _ in range(50)) <= 0.001


OTHERWISE = {
    "text": "coffee", "limit": 3, "mode": "fts", "filters": Filters(tag="food"), "min_score": 0.5, "min_confidence": 0.5,
    "budget": 100, "hypothesis": "It was tea.", "imagine": str.lower, "judge": str.upper, "about": "decisions",
    "today": date(2001, 1, 1), "explain": True, "windows": (1,), "variants": ("x",), "further": ("y",), "weights": {"words": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in fields(Query) if field.name != "index"])
def test_the_key_has_every_field_of_the_question(living: App, name: str) -> None:
    assert name in OTHERWISE, "a new field: say here what else it could be"
    assert question_key(query(living, **{name: OTHERWISE[name]})) != question_key(query(living))
    assert hash(question_key(query(living, **{name: OTHERWISE[name]})))


def test_what_was_kept_too_long_is_searched_anew(living: App) -> None:
    now = [0.0]
    cache = Cache(clock=lambda: now[0])
    run, runs = counted(Outcome([], "hybrid"))

    for now[0] in (0.0, 29.9, 30.1):
        cache(query(living), 1, run)
    assert len(runs) == 2


def test_above_four_fifths_the_oldest_tenth_goes(living: App) -> None:
    cache = Cache(entries=200)
    run, _ = counted(Outcome([], "hybrid"))
    for number in range(161):
        cache(query(living), number, run)

    assert len(cache) == 141
    assert not cache.has(query(living), 19) and cache.has(query(living), 20)


def test_eight_threads_asking_the_same_search_once(living: App) -> None:
    runs: list[str] = []
    inside = living.pipeline

    def watched(asked: Query) -> Outcome:
        runs.append(asked.text)
        time.sleep(0.1)
        return inside(asked)

    living.__dict__["pipeline"] = watched
    gate = threading.Barrier(8)
    found: list[Outcome] = []

    def ask() -> None:
        gate.wait()
        found.append(living.search("green tea"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert runs == ["green tea"]
    assert len(found) == 8 and all(outcome == found[0] and outcome.results for outcome in found)


def test_threads_asking_different_things_do_not_disturb_each_other(living: App) -> None:
    texts = ["tea", "tulips", "car", "tyres", "green", "planted", "drink", "needs"]
    found: dict[str, Outcome] = {}
    threads = [threading.Thread(target=lambda t=text: found.update({t: living.search(t)})) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(found[text] == living.search(text) for text in texts)


def test_a_failure_reaches_all_who_wait_and_is_not_kept(living: App) -> None:
    cache = Cache()
    begun, release = threading.Event(), threading.Event()
    errors: list[str] = []

    def failing() -> Outcome:
        begun.set()
        release.wait()
        raise EmbeddingError("down")

    def ask() -> None:
        with pytest.raises(EmbeddingError) as caught:
            cache(query(living), 1, failing)
        errors.append(str(caught.value))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
        begun.wait()
    time.sleep(0.05)
    release.set()
    for thread in threads:
        thread.join()

    assert errors == ["down"] * 3
    assert cache(query(living), 1, lambda: Outcome([], "fts")).mode == "fts"


def test_an_answer_with_a_notice_is_not_kept(living: App) -> None:
    cache = Cache()
    run, runs = counted(Outcome([], "hybrid", notices=("searching by words only",)))
    cache(query(living), 1, run)
    cache(query(living), 1, run)

    assert len(runs) == 2


def test_the_most_frequent_questions_can_be_warmed(living: App, vault: Path) -> None:
    for text in ("tea", "tea", "tulips", "tulips", "car"):
        living.search(text)
    write(vault, {"new.md": "More tea.\n"})
    living.build()
    assert [asked.text for asked in living.cache.frequent(2)] == ["tea", "tulips"]

    before = len(living.cache)
    living.warm(2)
    assert len(living.cache) == before + 2
    assert "new.md" in [r.file_path for r in living.search("tea").results]
    assert len(living.cache) == before + 2


def test_after_a_change_of_the_notes_an_idle_moment_has_the_frequent_questions_ready(living: App, vault: Path) -> None:
    living.idle()
    for text in ("tea", "tea", "tulips"):
        living.search(text)
    write(vault, {"new.md": "More tea.\n"})
    living.refresh()

    living.idle()
    searched = runs_of(living)
    assert "new.md" in [r.file_path for r in living.search("tea").results]
    assert living.search("tulips").results and not searched
    living.idle()
    assert not searched, "nothing has changed since"

    for _ in range(3):
        living.search("car")
    assert [asked.text for asked in living.cache.frequent()] == ["tea", "car", "tulips"], "only who asks is counted"


def runs_of(app: App) -> list[str]:
    """The questions that are searched from now on, past the cache."""
    runs: list[str] = []
    run = app._run

    def watched(asked: Query, *more: Any) -> Outcome:
        runs.append(asked.text)
        return run(asked, *more)

    app.__dict__["_run"] = watched
    return runs


def test_an_idle_moment_that_is_over_searches_nothing_more(living: App, vault: Path) -> None:
    for text in ("tea", "tulips", "car"):
        living.search(text)
    write(vault, {"new.md": "More tea.\n"})
    living.refresh()
    searched = runs_of(living)

    living.idle(lambda: len(searched) == 1)
    assert len(searched) == 1


def test_an_idle_moment_loads_the_vectors(living: App) -> None:
    assert living.index.matrix is not None
    living.idle(lambda: True)
    assert living.index.matrix.rows is None

    living.idle()
    assert len(living.index.matrix.rows) == len(NOTES)


def test_nothing_is_done_in_idle_moments_once_the_app_is_closed(living: App) -> None:
    living.search("tea")
    searched = runs_of(living)
    living.__exit__()

    living.idle()
    living.warm()
    assert not searched


@pytest.mark.parametrize("settings", ["[search]\non = ['model_rerank']", "embedding = 'ollama:nomic-embed-text'"])
def test_idle_moments_ask_no_model_and_no_server(make_app: Callable[..., App], vault: Path, settings: str) -> None:
    write(vault, NOTES)
    file = make_app().config.places.config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(settings)
    app = make_app(lives=True, OLLAMA_HOST="http://127.0.0.1:9")
    app.refresh()
    app.search("tea", mode="fts")
    searched = runs_of(app)

    app.idle()
    assert not searched


def test_a_use_that_was_recorded_is_seen(living: App) -> None:
    before = living._circumstances()
    living.record_use(living.search("tea").results[:1])

    assert living._circumstances() != before


WORDS = st.sampled_from(["tea", "tulips", "car tyres", "green", ""])
ASK = st.tuples(
    st.just("ask"),
    WORDS,
    st.fixed_dictionaries(
        {},
        optional={
            "limit": st.sampled_from([1, 2, 5]),
            "mode": st.sampled_from(["hybrid", "fts", "vec"]),
            "filters": st.sampled_from([Filters(tag="food"), Filters(path="daily"), Filters(after="2026-02-01")]),
            "budget": st.sampled_from([10, 40]),
            "min_confidence": st.sampled_from([0.01, 0.2]),
        },
    ),
)
WRITE = st.tuples(st.just("write"), st.sampled_from(list(NOTES)), WORDS)
DELETE = st.tuples(st.just("delete"), st.sampled_from(list(NOTES)), st.none())
STEPS = st.lists(st.one_of(ASK, ASK, WRITE, DELETE), min_size=3, max_size=12)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_the_cache_never_serves_what_has_become_stale(steps: list[tuple[str, str, object]]) -> None:
    with TemporaryDirectory() as folder:
        vault = Path(folder) / "notes"
        write(vault, NOTES)
        config = load({}, environ={"TARS_HOME": f"{folder}/home", "TARS_MEMORY_DIR": str(vault)})
        with App(config, lives=True) as cached, App(config, lives=True) as plain:
            plain.cache = Cache(seconds=0.0)
            cached.build()
            for number, (step, name, more) in enumerate(steps):
                if step == "ask":
                    for _ in range(2):
                        assert cached.search(name, **more).results == plain.search(name, **more).results  # type: ignore[arg-type]
                    continue
                if step == "write":
                    write(vault, {name: f"{more} and {number}\n"})
                else:
                    (vault / name).unlink(missing_ok=True)
                # The run is another process's as often as our own.
                (cached if number % 2 else plain).build()
