"""Stages that know more than the question: links, communities, time, past use, and how sure a list is."""

from __future__ import annotations

import math
import os
import random
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import apsw
import pytest
from conftest import write

from tars.access import AccessLog, Statistics, Use
from tars.app import App
from tars.db import Filters, link_name, names_of
from tars.graph import louvain
from tars.indexer import FEW_LINKS
from tars.search import reciprocal_rank_fusion
from tars.search.communities import Communities
from tars.search.fusion import ReciprocalRank
from tars.search.limbic import Limbic
from tars.search.links import Links
from tars.search.pipeline import ALL, OFF
from tars.search.query import Query, RankedList, SearchResult, best_first
from tars.search.recency import Recency
from tars.search.variance import Variance, normalised, variance

TODAY = date(2026, 3, 10)
DEPLOYMENT = {
    "deployment.md": "# Deployment\n\nDeployment configuration of the servers. See [[security]].\n",
    "ops/security.md": "# Keys\n\nRotated each spring by the warden.\n",
    "authentication.md": "# Authentication\n\nTokens expire.\n",
    "rollback.md": "# Rollback\n\nUndo it after ![[Deployment]] went wrong.\n",
    "other.md": "# Other\n\nConfiguration of the heating.\n",
}


def result(rowid: int, score: float, **more: object) -> SearchResult:
    made = SearchResult(f"text {rowid}", score, f"{rowid}.md", "", "note", 1, 1, rowid)
    return replace(made, **more)  # type: ignore[arg-type]


def stored(app: App, scores: dict[str, float]) -> list[SearchResult]:
    """The first passage of each of these notes, as if found with these scores."""
    ids = app.store.file_ids(scores)
    first = {file_id: rowid for file_id, rowid, _ in reversed(app.store.passages_of(ids.values(), most=1))}
    passages = app.store.passages(list(first.values()))
    return best_first(
        result(first[ids[path]], score, file_path=path, date=passages[first[ids[path]]].date, start_line=1, end_line=9)
        for path, score in scores.items()
    )


def order(results: list[SearchResult]) -> list[str]:
    return [r.file_path for r in results]


def asked(app: App, text: str = "deployment", **more: object) -> Query:
    return replace(Query(text, app.index, today=TODAY), **more)  # type: ignore[arg-type]


@pytest.fixture
def linked(app: App, vault: Path) -> App:
    write(vault, DEPLOYMENT)
    app.build()
    return app


# ---- names and links


def test_a_link_names_a_note_by_path_end_of_path_title_or_alias_in_any_case() -> None:
    names = names_of("Work/Ideas/My Note.md", ["A Title", "Alias"])

    assert [link_name(n) for n in ("Work/Ideas/My Note", "my note.md", "ideas/my note", "../Ideas/My Note")] == [
        "work/ideas/my note", "my note", "ideas/my note", "ideas/my note",
    ]  # fmt: skip
    assert set(names) == {"work/ideas/my note", "ideas/my note", "my note", "a title", "alias"}
    assert names["work/ideas/my note"] < names["my note"] < names["alias"]


def test_a_name_that_several_notes_have_stands_for_the_one_obsidian_takes(app: App, vault: Path) -> None:
    write(
        vault,
        {
            "start.md": "[[plan]] and [[deep/down/plan]]",
            "deep/down/plan.md": "far",
            "near/plan.md": "near",
            "titled.md": "# Plan\n\nonly called so",
        },
    )
    app.build()
    ids = app.store.file_ids(["start.md", "deep/down/plan.md", "near/plan.md"])

    assert {other for _, other, _ in app.store.linked([ids["start.md"]])} == {
        ids["near/plan.md"],
        ids["deep/down/plan.md"],
    }


def test_neighbours_join_from_both_directions_at_half_the_score(linked: App) -> None:
    found = stored(linked, {"deployment.md": 0.9, "other.md": 0.3})
    given = Links(elsewhere=1.0)(found, asked(linked))

    assert order(given)[0] == "deployment.md"
    assert {r.file_path: r.score for r in given if r.ranks} == {
        "ops/security.md": pytest.approx(0.45),
        "rollback.md": pytest.approx(0.45),
    }
    assert order(given)[-1] == "other.md"


def test_a_neighbour_that_was_found_already_rises(linked: App) -> None:
    found = stored(linked, {"deployment.md": 1.0, "other.md": 0.5, "ops/security.md": 0.4})
    given = Links()(found, asked(linked))

    assert order(found) == ["deployment.md", "other.md", "ops/security.md"]
    assert [path for path in order(given) if path in order(found)] == ["deployment.md", "ops/security.md", "other.md"]
    assert given[1].score == pytest.approx(1 - 0.6 * 0.5)


def test_a_link_in_the_passage_found_counts_more_than_one_elsewhere(linked: App) -> None:
    (found,) = stored(linked, {"deployment.md": 1.0})
    beside = replace(found, start_line=7, end_line=9)
    gain = {where.end_line - where.start_line: Links()([where], asked(linked)) for where in (found, beside)}

    assert [r.score for r in gain[8] if r.file_path == "ops/security.md"] == [pytest.approx(0.5)]
    assert [r.score for r in gain[2] if r.file_path == "ops/security.md"] == [pytest.approx(0.1)]


def test_a_navigational_question_trusts_links_more_and_filters_hold_for_what_joins(linked: App) -> None:
    found = stored(linked, {"deployment.md": 0.8})
    trusting = Links()(found, asked(linked, weights={"links": 1.5}))
    narrow = Links()(found, asked(linked, filters=Filters(path="ops")))

    assert {r.file_path: r.score for r in trusting}["ops/security.md"] == pytest.approx(0.8 * 0.75)
    assert set(order(narrow)) == {"deployment.md", "ops/security.md"}


def test_the_passage_that_joins_is_the_one_with_the_querys_words(app: App, vault: Path) -> None:
    filler = "Nothing of that kind is said here at all, and it goes on. " * 12
    write(
        vault, {"a.md": "# Aye\n\nThe heron. [[b]]", "b.md": f"# Bee\n\n{filler}\n\n## Late\n\nHerons nest in March."}
    )
    app.build()
    given = Links()(stored(app, {"a.md": 1.0}), asked(app, "when do herons nest"))

    assert [r.heading for r in given if r.file_path == "b.md"] == ["Late"]


def test_without_links_nothing_is_looked_up(app: App, vault: Path) -> None:
    write(vault, {"a.md": "one", "b.md": "two"})
    app.build()
    found = stored(app, {"a.md": 0.5, "b.md": 0.4})

    assert Links()(found, asked(app)) == found


# ---- communities

CLIQUES = [(a, b) for group in (range(0, 6), range(6, 12)) for a in group for b in group if a < b]


def test_louvain_finds_two_cliques_joined_by_one_link() -> None:
    found = louvain([*CLIQUES, (5, 6)])

    assert [found[node] for node in range(12)] == [0] * 6 + [1] * 6


def test_louvain_gives_the_same_for_the_same_graph_and_nothing_for_none() -> None:
    rng = random.Random(3)
    edges = [(rng.randrange(300), rng.randrange(300)) for _ in range(600)]

    assert louvain(edges) == louvain(list(edges))
    assert louvain([]) == {}


def test_louvain_is_no_worse_than_one_community_or_each_alone() -> None:
    rng = random.Random(4)
    edges = [(a, b) for a in range(100) for b in rng.sample(range(a // 10 * 10, a // 10 * 10 + 10), 3) if a != b]
    found = louvain(edges)

    assert modularity(edges, found) > 0.6
    assert modularity(edges, dict.fromkeys(found, 0)) == pytest.approx(0)


def modularity(edges: list[tuple[int, int]], community: dict[int, int]) -> float:
    inside = sum(community[a] == community[b] for a, b in edges) / len(edges)
    ends = [community[node] for edge in edges for node in edge]
    return inside - sum((ends.count(c) / len(ends)) ** 2 for c in set(ends))


def clique_notes() -> dict[str, str]:
    return {f"{n}.md": " ".join(f"[[{b}]]" for a, b in CLIQUES if a == n) + f" note {n}" for n in range(12)}


def test_the_community_of_the_best_note_rises(app: App, vault: Path) -> None:
    write(vault, clique_notes())
    app.build()
    found = stored(app, {"0.md": 0.9, "7.md": 0.5, "3.md": 0.48})
    given = Communities(best=1)(found, asked(app))

    assert order(given) == ["0.md", "3.md", "7.md"]
    assert given[1].score == pytest.approx(0.48 * 1.1)
    assert given[2].score == 0.5


def test_communities_are_made_again_when_links_change_but_nobody_waits_for_them(app: App, vault: Path) -> None:
    many = {f"many/{n}.md": f"[[many/{n + 1}]] [[many/{n + 2}]]" for n in range(FEW_LINKS // 2 + 1)}
    write(vault, clique_notes() | many)
    app.build()
    before = app.store.communities(["0.md", "6.md"])
    write(vault, {"0.md": "[[6]] [[7]] [[8]] [[9]] [[10]] [[11]] now with the others"})
    app.build()
    deferred = app.store.communities(["0.md", "6.md"])
    os.utime(vault / "0.md", (1, 1))  # a time that is trusted, so that the next run finds nothing
    app.build()
    after = app.store.communities(["0.md", "6.md"])

    assert before["0.md"] != before["6.md"]
    assert deferred == before
    assert after["0.md"] == after["6.md"]
    assert not app.store.meta("communities_stale")


# ---- recency


@pytest.mark.parametrize(("days", "factor"), [(0, 1.2), (7, 1.2), (8, 1.1), (30, 1.1), (31, 1.0), (-1, 1.0)])
def test_the_tiers_of_recency(days: int, factor: float) -> None:
    assert Recency().factor(days) == factor


def dated(days: int) -> str:
    return (TODAY - timedelta(days=days)).isoformat()


def test_a_recent_passage_overtakes_an_old_one(linked: App) -> None:
    found = [result(1, 0.8, date=dated(90)), result(2, 0.7, date=dated(3)), result(3, 0.6)]
    given = Recency()(found, asked(linked))

    assert [r.chunk_rowid for r in given] == [2, 1, 3]
    assert given[0].score == pytest.approx(0.84)


def test_the_seeds_example_of_recency_counts_by_its_formula(linked: App) -> None:
    """RRF k = 60 of two lists; the OAuth guide is five days old, everything else older than a month."""
    authentication, security, reference, oauth = 1, 2, 3, 4
    semantic, keyword = [authentication, security, reference], [reference, authentication, oauth]
    fused = dict(reciprocal_rank_fusion(semantic, keyword))
    most = 2 / 61
    found = [result(rowid, score, date=dated(5 if rowid == oauth else 90)) for rowid, score in fused.items()]
    given = {r.chunk_rowid: r.score * most for r in Recency()(found, asked(linked))}

    assert given[authentication] == pytest.approx(1 / 61 + 1 / 62)
    assert given[reference] == pytest.approx(1 / 63 + 1 / 61)
    assert given[security] == pytest.approx(1 / 62)
    assert given[oauth] == pytest.approx(1.2 / 63)
    assert list(given) == [authentication, reference, oauth, security]


def test_evergreen_notes_and_questions_with_a_time_of_their_own_are_exempt(app: App, vault: Path) -> None:
    write(
        vault,
        {"a.md": "---\ntags: [evergreen]\ndate: 2026-03-09\n---\nalways", "b.md": "---\ndate: 2026-03-09\n---\nx"},
    )
    app.build()
    found = stored(app, {"a.md": 0.5, "b.md": 0.4})
    memory = replace(found[0], memory_type="semantic", file_path="Memory.md", chunk_rowid=99, score=0.3)

    assert [r.score for r in Recency()([*found, memory], asked(app))] == [0.5, pytest.approx(0.48), 0.3]
    assert Recency()(found, asked(app, windows=(object(),))) == found


def test_a_boost_above_one_keeps_the_order() -> None:
    given = best_first([result(1, 1.1), result(2, 1.2), result(3, 0.6)])

    assert [(r.chunk_rowid, r.score) for r in given] == [
        (2, 1.0), (1, pytest.approx(1.1 / 1.2)), (3, pytest.approx(0.5)),
    ]  # fmt: skip


# ---- variance


def test_the_weight_of_a_list_follows_the_variance_of_its_scores() -> None:
    assert variance([0.0, 1.0]) == 0.25
    assert normalised([2.0, 4.0, 3.0]) == [0.0, 1.0, 0.5]
    assert Variance().factor([1.0, 0.0]) == 1.0
    assert Variance(minimum=0.1).factor([1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0]) == pytest.approx(0.05 / 0.1)
    assert Variance(minimum=0.5).factor([0.7, 0.7, 0.7]) == 0.5
    assert Variance().factor([0.7]) == 1.0


def test_a_list_that_cannot_tell_loses_its_say(app: App) -> None:
    sure = RankedList("words", [(1, 9.0), (2, 1.0), (3, 1.0)])
    unsure = RankedList("late", [(2, 0.5), (3, 0.5), (1, 0.5)])
    question = asked(app, "one")
    fuse = ReciprocalRank(k=1.0, late=1.2)
    weighed = Variance(minimum=0.1)([sure, unsure], question)

    assert fuse([sure, unsure], question)[0].rowid == 2
    assert fuse(weighed, question)[0].rowid == 1
    assert sum(ranked.weight for ranked in weighed) == pytest.approx(2.0)
    assert Variance()([], question) == []


# ---- access


def test_what_was_used_outlasts_a_rebuild_of_the_index(linked: App) -> None:
    found = linked.search("deployment configuration").results[:2]
    assert linked.record_use(found)
    linked.build(full=True)
    again = linked.search("deployment configuration").results
    hashes = linked.store.hashes(r.chunk_rowid for r in again)
    known = linked.access.statistics([(r.file_path, hashes[r.chunk_rowid]) for r in again])

    assert {path for path, _ in known.uses} == {r.file_path for r in found}
    assert set(known.together.values()) == {1}


def test_searching_alone_counts_as_no_use(linked: App) -> None:
    linked.search("deployment configuration")

    assert not linked.access.file.exists()


def test_uses_and_days_are_counted(tmp_path: Path) -> None:
    days = iter([date(2026, 1, 1), date(2026, 1, 1), date(2026, 1, 5)])
    log = AccessLog(tmp_path / "state" / "access.db", "m", today=lambda: next(days))
    a, b = ("a.md", b"1"), ("b.md", b"2")
    assert log.record([a, b, a]) and log.record([a]) and log.record([a])

    assert log.statistics([a, b]) == Statistics(
        {a: Use(3, 2, "2026-01-05"), b: Use(1, 1, "2026-01-01")}, {a: 1, b: 1}, 3
    )
    assert log.statistics([a]).together == {a: 0}
    assert AccessLog(log.file, "another memory").statistics([a]).uses == {}
    assert stat.S_IMODE(log.file.stat().st_mode) == 0o600 or os.name == "nt"


def test_a_busy_or_broken_access_log_is_nobodys_problem(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "access.db")
    a = ("a.md", b"1")
    assert log.record([a])
    other = apsw.Connection(str(log.file))
    other.execute("BEGIN IMMEDIATE")
    assert not log.record([a])
    assert log.statistics([a]).uses[a].count == 1
    other.execute("ROLLBACK")
    other.close()
    broken = AccessLog(tmp_path / "broken.db")
    broken.file.write_bytes(b"not a database at all, but long enough to look like one" * 40)

    assert not broken.record([a])
    assert broken.statistics([a]).uses == {}


# ---- limbic


def test_the_formulas_of_limbic_ranking() -> None:
    limbic = Limbic()
    known = Statistics({("1.md", b""): Use(3, 7, "2026-03-09")}, {("1.md", b""): 4}, 7)
    importance = math.log2(4) / math.log2(8) * (1 + 0.15 * 5 / 15) * (1 + 0.2)
    whole = (1 + 0.5 * importance) * math.exp(-0.0001 * 24) * (1 + 0.01 * 4)

    assert limbic.importance(3, 7, 5, 7) == pytest.approx(importance)
    assert limbic.importance(7, 7, 99, 0) == pytest.approx(1.15)
    assert limbic.importance(0, 7, 5, 0) == 0
    assert limbic.temporal(0) == 1
    assert limbic.temporal(10_000) == pytest.approx(math.exp(-1))
    assert limbic.temporal(1_000_000) == 0.1
    assert limbic.factor(result(1, 1.0), ("1.md", b""), known, 5, TODAY) == pytest.approx(whole)


def test_the_seeds_base_is_the_cosine_or_for_words_alone_between_a_fifth_and_four_fifths() -> None:
    near = result(1, 0.9, ranks={"vectors": (1, 0.58)})
    words = [result(2, 0.8), result(3, 0.6), result(4, 0.4)]

    assert Limbic(cosine=1.0).bases([near, *words]) == [pytest.approx(x) for x in (0.58, 0.8, 0.5, 0.2)]
    assert Limbic().bases([near, *words]) == [0.9, 0.8, 0.6, 0.4]


def test_the_seeds_table_of_two_rankings_is_what_fusion_gives() -> None:
    a, b, c, d, x, y = range(6)
    fused = dict(reciprocal_rank_fusion([a, b, x, y, d], [c, d, a]))
    most = 2 / 61

    assert fused[a] * most == pytest.approx(1 / 61 + 1 / 63)
    assert fused[b] * most == pytest.approx(1 / 62)
    assert fused[c] * most == pytest.approx(1 / 61)
    assert fused[d] * most == pytest.approx(1 / 65 + 1 / 62)
    assert [node for node in fused if node in (a, b, c, d)] == [a, d, c, b]


def test_what_was_used_before_comes_first_next_time(linked: App) -> None:
    found = stored(linked, {"other.md": 0.6, "authentication.md": 0.55})
    assert Limbic()(found, asked(linked)) == found
    linked.record_use([found[1]])

    assert order(Limbic()(found, asked(linked, today=linked.now().date()))) == ["authentication.md", "other.md"]


def test_these_stages_can_all_be_switched_on(make_app: Callable[..., App], vault: Path, tmp_path: Path) -> None:
    names = ("links", "communities", "limbic", "recency", "variance")
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text(f"[search]\non = {list(names)}\n")
    write(vault, DEPLOYMENT)
    app = make_app()
    app.build()
    found = app.search("deployment configuration").results

    assert set(names) <= {getattr(stage, "name", "") for stage in app.pipeline.stages()}
    assert {"ops/security.md", "rollback.md"} <= {r.file_path for r in found}
    assert {stage for stage in names if stage not in OFF} <= {getattr(s, "name", "") for s in ALL.stages()}
