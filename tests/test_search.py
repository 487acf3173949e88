"""Search: what each stage promises, and what the whole does."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from conftest import write

from tars.app import App
from tars.db import Filters
from tars.embeddings.builtin import StaticTable
from tars.errors import EmbeddingError
from tars.search import reciprocal_rank_fusion, search_fts, search_vec
from tars.search.beside import Beside
from tars.search.confidence import Confidence
from tars.search.fusion import ReciprocalRank
from tars.search.late import LateInteraction, max_similarity
from tars.search.pipeline import cut
from tars.search.query import Query, RankedList, SearchResult, content_words, normalise
from tars.search.same_day import SameDay
from tars.search.times import InTime, Times
from tars.search.vectors import Vectors
from tars.search.words import Words, any_of

NOTES = {
    "Memory.md": "# Memory\n\n## Food\n\n- I drink green tea in the morning.\n- I am allergic to peanuts.\n",
    "sessions/2026-01-05-trip.md": "---\ndate: 2026-01-05\ntags: [travel]\n---\n# Trip to Ghent\n\nWe took the train.\n",
    "daily/2026-02-01.md": "# Sunday\n\nPlanted tulips in the garden.\n",
    "work/api.md": "---\ntags: [work/api]\n---\n# API\n\n## Errors\n\nThe server answers 429 when there are too many.\n",
    "physician.md": "# Appointments\n\nThe physician at the clinic sees me on Tuesday.\n",
}


@pytest.fixture
def memory(app: App, vault: Path) -> App:
    write(vault, NOTES)
    app.build()
    return app


def query(app: App, text: str, **more: object) -> Query:
    return replace(Query(normalise(text), app.index), **more)  # type: ignore[arg-type]


def paths(app: App, text: str, **more: object) -> list[str]:
    return [result.file_path for result in app.search(text, **more).results]  # type: ignore[arg-type]


def result(rowid: int, score: float, **more: object) -> SearchResult:
    made = SearchResult(f"text {rowid}", score, f"{rowid}.md", "", "note", 1, 1, rowid)
    return replace(made, **more)  # type: ignore[arg-type]


# ---- fusion


def test_fusion_is_the_sum_of_reciprocal_ranks_over_the_most_that_could_be_had() -> None:
    fused = dict(reciprocal_rank_fusion([1, 2, 3], [3, 1]))
    most = 2 / 61

    assert fused[1] == pytest.approx((1 / 61 + 1 / 62) / most)
    assert fused[3] == pytest.approx((1 / 63 + 1 / 61) / most)
    assert fused[2] == pytest.approx((1 / 62) / most)
    assert list(fused) == [1, 3, 2]


def test_the_first_of_every_list_scores_one_and_none_scores_more() -> None:
    assert reciprocal_rank_fusion([7, 8], [7], [7, 9], k=10, weights=[1, 0.5, 2])[0] == (7, pytest.approx(1.0))
    assert reciprocal_rank_fusion() == []
    assert reciprocal_rank_fusion([], []) == []


def test_a_rowid_twice_in_a_list_counts_once() -> None:
    assert dict(reciprocal_rank_fusion([5, 5, 6])) == dict(reciprocal_rank_fusion([5, 6]))


def test_a_short_question_trusts_meanings_and_a_long_one_its_words(memory: App) -> None:
    lists = [RankedList("words", [(1, 9.0), (2, 8.0)]), RankedList("late", [(2, 0.9), (1, 0.8)])]

    short = ReciprocalRank()(lists, query(memory, "tea"))
    long = ReciprocalRank()(lists, query(memory, " ".join(f"word{n}" for n in range(20))))
    assert short[0].rowid == 2
    assert long[0].rowid == 1
    assert short[0].ranks == {"words": (2, 8.0), "late": (1, 0.9)}


# ---- lists


def test_any_of_the_words_is_enough_and_stop_words_do_not_count(memory: App) -> None:
    assert paths(memory, "what is there about tulips and unicorns?", mode="fts") == ["daily/2026-02-01.md"]
    assert content_words("What is the boiler?") == ("boiler",)
    assert content_words("who am I") == ("who", "am", "i")


def test_words_are_stemmed(memory: App) -> None:
    assert paths(memory, "planting gardens", mode="fts") == ["daily/2026-02-01.md"]


def test_every_field_of_a_note_is_searched(app: App, vault: Path) -> None:
    fields = {
        "title": "walrusa", "aliases": "walrusb", "tags": "walrusc", "keywords": "walrusd",
        "description": "walruse", "author": "walrusf", "status": "walrusg",
    }  # fmt: skip
    front = "".join(f"{key}: {value}\n" for key, value in fields.items())
    write(vault, {"a.md": f"---\n{front}---\n# Heading\n\n## walrush\n\nbody", "b.md": "nothing of that"})
    app.build()

    for word in (*fields.values(), "walrush"):
        assert paths(app, word, mode="fts") == ["a.md"], word


def test_a_title_counts_more_than_the_body(app: App, vault: Path) -> None:
    write(vault, {"body.md": "walrus and more", "title.md": "---\ntitle: Walrus\n---\nsomething and more"})
    app.build()

    assert paths(app, "walrus", mode="fts")[0] == "title.md"
    even = Words(weights=(5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))(query(app, "walrus"), [])
    assert app.store.passages([even.hits[0][0]])[even.hits[0][0]].path == "body.md"


def test_vectors_find_what_the_words_miss(memory: App) -> None:
    assert paths(memory, "doctor", mode="fts") == []
    assert paths(memory, "doctor", mode="vec")[0] == "physician.md"
    assert paths(memory, "doctor")[0] == "physician.md"


def test_the_matrix_of_a_living_process_ranks_as_the_database_does(memory: App, make_app: Callable[..., App]) -> None:
    living = make_app(lives=True)
    for text in ("doctor", "train travel", "peanut butter"):
        one = Vectors()(query(memory, text), []).hits
        two = Vectors()(query(living, text), []).hits
        assert [rowid for rowid, _ in one] == [rowid for rowid, _ in two]
        assert [score for _, score in one] == pytest.approx([score for _, score in two], abs=1e-5)


def test_the_matrix_is_patched_when_the_index_changes(memory: App, vault: Path, make_app: Callable[..., App]) -> None:
    living = make_app(lives=True)
    assert "Memory.md" in paths(living, "green tea", mode="vec")
    write(vault, {"new.md": "a veterinarian for the dog"})
    (vault / "Memory.md").unlink()
    memory.build()

    assert paths(living, "animal doctor", mode="vec")[0] == "new.md"
    assert "Memory.md" not in paths(living, "green tea", mode="vec")
    assert set(living.index.matrix.rowids.tolist()) == living.store.rowid_sets()["vec_chunks"]  # type: ignore[union-attr]


def test_late_interaction_prefers_the_passage_that_answers_to_every_word(memory: App) -> None:
    ids = {p.path: rowid for rowid, p in memory.store.passages(list(memory.store.rowid_sets()["chunks"])).items()}
    asked = query(memory, "green tea in the morning")
    scores = max_similarity(asked, list(ids.values()))
    order = LateInteraction()(asked, [RankedList("words", [(rowid, 1.0) for rowid in ids.values()])])

    assert order.hits[0] == (ids["Memory.md"], pytest.approx(1.0, abs=1e-4))
    assert all(0 <= score <= 1.0001 for score in scores.values())


LONG = "The weather was fine and we talked of this and that for a good while. " * 8
ASKED, TOLD = f"Where is the gramophone?\n{LONG}", f"In the cellar, behind the stove.\n{LONG}"


def late_order(app: App, around: float) -> list[str]:
    """The first words of what late interaction finds in notes of a few long passages."""
    passages = app.store.passages(list(app.store.rowid_sets()["chunks"]))
    lists = [RankedList("words", [(rowid, 1.0) for rowid in passages])]
    hits = LateInteraction(around=around)(query(app, "gramophone behind the stove"), lists).hits
    return [passages[rowid].content.split()[0] for rowid, _ in hits]


def test_words_of_the_passage_before_help_the_answer_after_it(app: App, vault: Path) -> None:
    write(vault, {"other.md": f"Nothing is behind the stove.\n{LONG}", "talk.md": f"{ASKED}\n\n{TOLD}"})
    app.build()

    assert late_order(app, around=0.0).index("Nothing") < late_order(app, around=0.0).index("In")
    assert late_order(app, around=0.7).index("In") < late_order(app, around=0.7).index("Nothing")


def test_private_words_do_not_help_a_passage_that_is_not_private(app: App, vault: Path) -> None:
    write(vault, {"talk.md": f"<private>\n{ASKED}\n</private>\n\n{TOLD}"})
    app.build()
    passages = app.store.passages(list(app.store.rowid_sets()["chunks"]))
    told = next(rowid for rowid, passage in passages.items() if passage.content.startswith("In"))
    asked = query(app, "gramophone behind the stove")

    assert max_similarity(asked, [told]) == max_similarity(asked, [told], around=0.0)


@pytest.mark.parametrize("retrieve", [Words(), Vectors(), LateInteraction()])
def test_every_list_is_unique_and_descending_and_empty_for_nothing(memory: App, retrieve: object) -> None:
    before = [RankedList("words", [(rowid, 1.0) for rowid in memory.store.rowid_sets()["chunks"]])]

    hits = retrieve(query(memory, "tea and the train to the doctor"), before).hits  # type: ignore[operator]
    assert len({rowid for rowid, _ in hits}) == len(hits) > 0
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    assert list(retrieve(query(memory, "\u2603"), []).hits) == []  # type: ignore[operator]


def test_the_doors_for_callers_give_rowids(memory: App) -> None:
    conn = memory.store.conn
    (rowid,) = search_fts(conn, "tulips", limit=5)

    assert memory.store.passages([rowid])[rowid].path == "daily/2026-02-01.md"
    assert search_fts(conn, '"*(', limit=5) == []
    assert search_vec(conn, memory.table.query("tulips in the garden").tolist(), limit=1) == [rowid]


def test_a_time_in_the_question_brings_what_is_dated_then_to_the_front(app: App, vault: Path) -> None:
    write(vault, {f"daily/2026-{month:02}-15.md": "We met for lunch at the harbour." for month in range(1, 13)})
    app.build()
    later = "We met for lunch at the harbour. Lunch was good, and the harbour too."
    write(vault, {"daily/2026-01-15.md": later})
    app.build()

    assert paths(app, "harbour lunch")[0] == "daily/2026-01-15.md"
    assert paths(app, "harbour lunch in March")[0] == "daily/2026-03-15.md"


def test_a_date_just_beside_the_window_is_raised_less(memory: App) -> None:
    windows = Times()(query(memory, "on 10 May 2024")).windows
    inside, beside, far = (InTime().nearness(day, windows) for day in ("2024-05-10", "2024-05-11", "2024-05-20"))

    assert 1 == inside > beside > far == 0
    assert InTime().nearness("no date", windows) == InTime().nearness(None, windows) == 0


def test_lists_keep_their_order_if_the_question_names_no_time(memory: App) -> None:
    lists = [RankedList("words", [(2, 9.0), (1, 8.0)])]

    assert InTime()(lists, query(memory, "tea")) == lists


# ---- refining


def test_confidence_grows_with_what_the_passage_answers_to_and_keeps_the_order(memory: App) -> None:
    weak = result(1, 0.9, ranks={"late": (1, 0.2), "words": (1, 2.0)})
    strong = result(2, 0.8, ranks={"late": (2, 0.9), "words": (2, 9.0)})
    rated = Confidence()([weak, strong], query(memory, "tea"))

    assert [r.chunk_rowid for r in rated] == [1, 2]
    assert 0 < rated[0].confidence < rated[1].confidence < 1
    assert weak.confidence == 0.0


def test_confidence_of_nonsense_is_low_although_its_best_score_is_high(memory: App) -> None:
    nonsense = memory.search("quantum chromodynamics of mortgage derivatives").results[0]
    sense = memory.search("green tea in the morning").results[0]

    assert nonsense.score > 0.5
    assert nonsense.confidence < 0.05 < sense.confidence


def test_a_passage_beside_a_better_one_overtakes_one_that_stands_alone(memory: App) -> None:
    best, alone = result(1, 1.0, position=4), result(2, 0.5, file_path="other.md")
    beside = result(3, 0.4, file_path="1.md", position=5)
    raised = Beside(share=0.3)([best, alone, beside], query(memory, "x"))

    assert [r.chunk_rowid for r in raised] == [1, 3, 2]
    assert raised[1].score == pytest.approx((0.4 + 0.3 * 1.0) / 1.3)
    assert beside.score == 0.4


def test_a_passage_of_a_day_of_which_better_notes_tell_overtakes_one_of_another_day(memory: App) -> None:
    best, alone = result(1, 1.0, date="2024-05-03"), result(2, 0.5, date="2024-05-09")
    same, own = result(3, 0.45, date="2024-05-03"), result(4, 0.3, date="2024-05-03", file_path="1.md")
    raised = SameDay(share=0.6, notes=1)([best, alone, same, own], query(memory, "x"))

    assert [r.chunk_rowid for r in raised] == [1, 3, 2, 4]
    assert raised[1].score == pytest.approx((0.45 + 0.6 * 1.0 * (1 - 2 / 3)) / 1.6)
    assert raised[3].score == pytest.approx((0.3 + 0.6 * 0.45 * (1 - 2 / 3)) / 1.6)  # not its own note's
    assert same.score == 0.45


def test_a_day_that_all_notes_share_says_nothing(memory: App) -> None:
    some = [result(1, 0.50, date="2024-05-03"), result(2, 0.49, date="2024-05-03"), result(3, 0.48, date="2024-05-03")]
    raised = SameDay()(some, query(memory, "x"))

    assert [r.score for r in raised] == [pytest.approx(r.score / 1.4) for r in some]


def test_cut_keeps_the_limit_and_both_minima(memory: App) -> None:
    some = [result(n, 1 - n / 10, confidence=0.1 * n) for n in range(8)]

    assert [r.chunk_rowid for r in cut(some, query(memory, "x", limit=3))] == [0, 1, 2]
    assert [r.chunk_rowid for r in cut(some, query(memory, "x", min_score=0.75))] == [0, 1, 2]
    assert [r.chunk_rowid for r in cut(some, query(memory, "x", min_confidence=0.55))] == [6, 7]
    assert cut([], query(memory, "x")) == []


# ---- the whole


def test_results_are_unique_descending_within_the_limit_and_in_range(memory: App) -> None:
    for text in ("tea", "what did I do in the garden on Sunday?", "server train doctor tulips"):
        for limit in (1, 2, 50):
            results = memory.search(text, limit=limit).results
            scores = [r.score for r in results]
            assert 0 < len(results) <= limit
            assert len({r.chunk_rowid for r in results}) == len(results)
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= r.score <= 1 and 0 <= r.confidence <= 1 for r in results)


def test_the_same_question_gives_the_same_answer(memory: App, make_app: Callable[..., App]) -> None:
    assert memory.search("tea doctor").results == make_app().search("tea doctor").results


def test_a_result_quotes_the_lines_it_names(memory: App, vault: Path) -> None:
    for found in memory.search("tea train tulips server physician", limit=50).results:
        lines = (vault / found.file_path).read_text().split("\n")
        assert "\n".join(lines[found.start_line - 1 : found.end_line]) == found.content


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(after="2026-02-01"), {"daily/2026-02-01.md"}),
        (Filters(before="2026-01-31"), {"sessions/2026-01-05-trip.md"}),
        (Filters(after="2026-01-05", before="2026-01-05"), {"sessions/2026-01-05-trip.md"}),
        (Filters(type="semantic"), {"Memory.md", "work/api.md", "physician.md"}),
        (Filters(type="episodic"), {"sessions/2026-01-05-trip.md", "daily/2026-02-01.md"}),
        (Filters(type="daily"), {"daily/2026-02-01.md"}),
        (Filters(path="sessions/*"), {"sessions/2026-01-05-trip.md"}),
        (Filters(path="work"), {"work/api.md"}),
        (Filters(path="Memory.md"), {"Memory.md"}),
        (Filters(tag="travel"), {"sessions/2026-01-05-trip.md"}),
        (Filters(tag="#work"), {"work/api.md"}),
        (Filters(tag="wor"), set()),
    ],
)
def test_filters_act_inside_retrieval(
    memory: App, vault: Path, make_app: Callable[..., App], filters: Filters, expected: set[str]
) -> None:
    # Fifty better matches elsewhere would push the right one out of any list that is filtered afterwards.
    write(vault, {f"noise/{n}.md": "tea train tulips server physician " * 3 for n in range(150)})
    for note in (vault / "noise").iterdir():
        note.write_text("---\ndate: 2026-01-20\n---\n" + note.read_text())
    memory.build()
    if filters.after and not filters.before:
        expected |= {"Memory.md", "work/api.md", "physician.md"}  # dated by their time, which is now
    noise = filters.type == "semantic" or (filters.before == "2026-01-31" and not filters.after)
    for app in (memory, make_app(lives=True)):
        for mode in ("hybrid", "fts", "vec"):
            found = set(paths(app, "tea train tulips server physician", mode=mode, filters=filters, limit=100))
            if noise:
                assert {p for p in found if not p.startswith("noise/")} <= expected
            else:
                assert found == expected


def test_without_a_query_the_filters_list_newest_first(memory: App) -> None:
    assert paths(memory, "  ", filters=Filters(type="episodic")) == [
        "daily/2026-02-01.md", "sessions/2026-01-05-trip.md"
    ]  # fmt: skip


# ---- nothing found


def test_an_empty_folder_is_a_reason(app: App) -> None:
    app.build()
    outcome = app.search("anything")

    assert outcome.results == []
    assert outcome.empty_reason and outcome.empty_reason.code == "empty_folder"


def test_no_match_names_the_words_that_are_unknown(memory: App) -> None:
    reason = memory.search("xyzzyq tulipz", mode="fts").empty_reason

    assert reason and reason.code == "no_match"
    assert reason.details["unknown_terms"] == ["xyzzyq", "tulipz"]


def test_a_filter_that_removes_everything_says_how_many(memory: App) -> None:
    reason = memory.search("tulips", filters=Filters(tag="travel", after="2026-01-01"), mode="fts").empty_reason

    assert reason and reason.code == "filtered"
    assert reason.details["removed"] == {"after": 0, "tag": 1}


def take_embedder_down(app: App) -> None:
    class Down(StaticTable):
        def query(self, text: str) -> NoReturn:
            raise EmbeddingError("the backend is down")

    app.embedder = Down()
    app.__dict__.pop("index", None)


def test_asked_for_vectors_while_the_embedder_is_down_the_words_are_searched_and_it_is_said(memory: App) -> None:
    take_embedder_down(memory)
    outcome = memory.search("green tea", mode="vec")

    assert outcome.mode == "fts" and outcome.results[0].file_path == "Memory.md"
    assert outcome.notices == ("searching by words only: the backend is down",)
    assert memory.search("xyzzy", mode="vec").empty_reason.code == "no_match"  # type: ignore[union-attr]


def test_filters_have_their_reason_while_the_embedder_is_down(memory: App) -> None:
    take_embedder_down(memory)
    outcome = memory.search("tulips", filters=Filters(tag="travel"))

    assert outcome.empty_reason and outcome.empty_reason.code == "filtered"
    assert any("down" in notice for notice in outcome.notices)


def test_below_the_minimum_tells_the_best_value_seen(memory: App) -> None:
    reason = memory.search("tulips", min_confidence=0.9999).empty_reason

    assert reason and reason.code == "below_minimum"
    assert 0 < float(str(reason.details["best_confidence"])) < 0.9999


def test_a_search_before_any_index_says_so(app: App) -> None:
    reason = app.search("tulips").empty_reason

    assert reason and reason.code == "no_index"


# ---- any text is a query

SPECIALS = ['"', "'", "*", "^", "(", ")", "{", "}", "[", "]", ":", "+", "-", "~", ",", ".", "\\", "/", ";", "%", "\0",
            "AND", "OR", "NOT", "NEAR", "NEAR(", "NEAR/3", "content:", "rowid", "rank", "-content", "MATCH", "--", "/*",
            "\ud800", "\udcff", "🎉", "👩‍👩‍👧", "é", "ﬁ", "\u202e", "\ufeff", "日本語", "Ω", "\t", "\r", "\n",
            "\x1b[31m", "tea", "tulips", "the", "a" * 300, "_", "__init__", "getUserById", "$1", "?1",
            "'; DROP TABLE chunks; --"]  # fmt: skip


def strange(rng: random.Random) -> str:
    kind = rng.randrange(5)
    if kind == 0:
        return "".join(rng.choice(SPECIALS) for _ in range(rng.randrange(1, 12)))
    if kind == 1:
        return " ".join(rng.choice(SPECIALS) for _ in range(rng.randrange(1, 12)))
    if kind == 2:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(1, 40)))
    if kind == 3:
        return "".join(rng.choice(string.printable) for _ in range(rng.randrange(0, 80)))
    return rng.choice(SPECIALS) * rng.randrange(1, 50)


def test_any_text_is_a_fair_query(memory: App) -> None:
    rng = random.Random(0)
    texts = [strange(rng) for _ in range(1_990)]
    texts += ["x" * 100_000, "tea " * 25_000, '"' * 100_000, " ".join(f"w{n}" for n in range(20_000)), "\0", "\ud800"]
    texts += [any_of([s for s in SPECIALS if s.isprintable()]), "(" * 5_000, "NEAR(" * 2_000, "🎉" * 50_000]

    assert len(texts) >= 2_000
    for text in texts:
        for mode in ("hybrid", "fts", "vec"):
            outcome = memory.search(text, mode=mode, limit=3)
            assert outcome.results or (outcome.empty_reason and outcome.empty_reason.message)
    assert memory.store.counts()["chunks"] > 0


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("mode", ["hybrid", "fts", "vec"])
def test_the_order_in_which_notes_came_in_does_not_show_in_answers(
    vault: Path, tmp_path: Path, make_app: Callable[..., App], mode: str, lives: bool
) -> None:
    same = "The boiler hums.\n\nSee [[twin]].\n"
    write(vault, {f"{number:03}.md": same for number in range(50, 150)} | {"z/twin.md": "Of boilers.\n"})
    make_app().build()
    write(vault, {f"{number:03}.md": same for number in range(50)} | {"a/twin.md": "Of boilers.\n"})
    make_app().build()
    fresh = make_app(lives=lives, TARS_HOME=str(tmp_path / "other"))
    fresh.build()
    grown = make_app(lives=lives)

    def found(app: App) -> list[tuple[str, float]]:
        return [(result.file_path, result.score) for result in app.search("boiler hums", mode=mode, limit=30).results]

    assert found(grown) == found(fresh)
