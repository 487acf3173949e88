"""The stages that rewrite the question or add a way of looking: what each promises, and an order that it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import write
from servers import ScriptedOllama, nobody, reply
from test_cli import tars

from tars.app import App
from tars.db import Filters
from tars.errors import UsageError
from tars.identifiers import hidden_words, names, parts
from tars.search.boosters import PRESETS, Boosters
from tars.search.classify import Classify, kind_of
from tars.search.code import Code, terms_of
from tars.search.expand import Expand, Expanded, intent_of, nearest_terms
from tars.search.fusion import ReciprocalRank, reciprocal_rank_fusion
from tars.search.hyde import Hyde, Imagine
from tars.search.pipeline import ALL, DEFAULT, OFF, Pipeline, name_of
from tars.search.query import Query, RankedList, normalise
from tars.search.short_circuit import ShortCircuit, normalised

NOTES = {
    "tea.md": "# Tea\n\nI drink green tea in the morning.\n",
    "physician.md": "# Appointments\n\nThe physician at the clinic sees me on Tuesday.\n",
    "clinic.md": "# Bills\n\nThe physician sent a bill for the clinic.\n",
    "garden.md": "# Garden\n\nPlanted tulips by the fence on Sunday.\n",
    "chose.md": "# Database\n\nThe decision was for the small database; we chose it for its speed.\n",
    "plain.md": "# Database\n\nThe small database is on the shelf and has its own lamp.\n",
}


@pytest.fixture
def memory(app: App, vault: Path) -> App:
    write(vault, NOTES)
    app.build()
    return app


def query(app: App, text: str, **more: Any) -> Query:
    return replace(Query(normalise(text), app.index), **more)


def with_stages(*names: str) -> Pipeline:
    """The default pipeline and these stages that are off in it."""
    return ALL.without(*(OFF - set(names)))


def paths(asked: Query, pipeline: Pipeline = DEFAULT) -> list[str]:
    return [result.file_path for result in pipeline(asked).results]


# ---- what all of them promise

REWRITES = (Classify(), Code(), Imagine(), Expand(), Boosters())
LISTS = (Hyde(), Expanded(), ShortCircuit())


@pytest.mark.parametrize("stage", REWRITES)
@pytest.mark.parametrize("text", ["", "?", "☃", "what did the doctor say about getUserById in `v1.2`?", "the of and"])
def test_a_rewrite_leaves_its_input_and_the_limits_alone(memory: App, stage: Any, text: str) -> None:
    asked = query(memory, text, limit=3, mode="fts", filters=Filters(tag="x"), imagine=str.upper)
    before = replace(asked)
    given = stage(asked)

    assert asked == before
    assert (given.index, given.limit, given.mode, given.filters) == (asked.index, 3, "fts", Filters(tag="x"))
    assert given.text == asked.text
    if not text:
        assert given == asked


@pytest.mark.parametrize("stage", LISTS)
def test_a_list_is_unique_and_descending_and_empty_for_nothing(memory: App, stage: Any) -> None:
    asked = query(memory, "doctor", hypothesis="the physician at the clinic", variants=("doctor physician bill",))
    before = [RankedList("words", [(1, 3.0), (2, 1.0)])]
    hits = stage(asked, before).hits

    assert len({rowid for rowid, _ in hits}) == len(hits)
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    assert before == [RankedList("words", [(1, 3.0), (2, 1.0)])]
    assert list(stage(query(memory, ""), []).hits) == []
    assert not stage(query(memory, ""), []).enough


@pytest.mark.parametrize("stage", [Hyde(), Expanded()])
def test_a_list_keeps_to_the_filters(memory: App, stage: Any) -> None:
    asked = query(
        memory,
        "doctor",
        hypothesis="the physician at the clinic",
        variants=("doctor physician bill",),
        filters=Filters(path="clinic.md"),
    )
    rowids = [rowid for rowid, _ in stage(asked, []).hits]

    assert {passage.path for passage in memory.store.passages(rowids).values()} == {"clinic.md"}


def test_all_stages_together_answer(memory: App) -> None:
    for text in ("", "?", "what is wrong with getUserById?", "doctor"):
        found = ALL.without("model_rerank", "cross_encoder")(query(memory, text, about="changes", hypothesis="tea"))
        assert found.results or found.empty_reason


# ---- query class


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("getUserById function", "factual"),
        ("How do I configure authentication?", "exploratory"),
        ("parse_json_data", "factual"),
        ("the `walrus` operator", "factual"),
        ("released in v2.11.3-beta", "factual"),
        ('who said "so it goes"?', "factual"),
        ("what does HTTPError mean?", "factual"),
        ("installation guide", "navigational"),
        ("where is the section on tea?", "navigational"),
        ("[[Garden]] plans", "navigational"),
        ("why tulips", "exploratory"),
        ("tulips?", "exploratory"),
        ("tulips in the garden", "plain"),
        ("", "plain"),
    ],
)
def test_the_first_kind_that_fits_is_the_class(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_the_class_multiplies_the_weight_of_its_list(memory: App) -> None:
    assert Classify()(query(memory, "getUserById function")).weights == {"words": 1.5}
    assert Classify()(query(memory, "How do I configure authentication?")).weights == {"vectors": 1.3}
    assert Classify()(query(memory, "setup guide")).weights == {"links": 1.5}
    assert Classify()(query(memory, "tulips")).weights == {}
    assert Classify()(query(memory, "tulips?", weights={"vectors": 2.0})).weights == {"vectors": 2.6}


def test_a_name_in_the_question_lets_the_words_decide(memory: App) -> None:
    lists = [RankedList("words", [(1, 9.0), (2, 8.0)]), RankedList("vectors", [(2, 0.9), (1, 0.8)])]
    fuse, asked = ReciprocalRank(vectors=1.2), query(memory, "`tea`")

    assert fuse(lists, asked)[0].rowid == 2
    assert fuse(lists, Classify()(asked))[0].rowid == 1


# ---- intent and vocabulary


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("why does the login fail?", "error"),
        ("how to implement a cache", "question"),
        ("the heating does not work", "error"),
        ("implement the design", "implementation"),
        ("architecture of the house", "architecture"),
        ("green tea", "general"),
    ],
)
def test_the_first_intent_that_fits_counts(text: str, intent: str) -> None:
    assert intent_of(text)[0] == intent


def test_an_error_is_also_looked_for_as_its_remedy_and_variants_are_four_at_most(memory: App) -> None:
    variants = Expand(min_cosine=2.0)(query(memory, "boiler error")).variants

    assert variants == ("boiler error fix", "boiler error debug", "boiler error solution")
    assert len(Expand(min_cosine=-1.0)(query(memory, "doctor failed")).variants) == 4
    assert Expand(most=1)(query(memory, "boiler error")).variants == variants[:1]


def test_the_nearest_terms_are_words_of_this_memory_and_not_of_the_question(memory: App) -> None:
    near = nearest_terms(query(memory, "doctor"), 3, min_cosine=0.5, min_count=2)

    assert "physician" in near
    assert len(near) <= 3
    assert nearest_terms(query(memory, "physicians"), 3, min_cosine=0.99, min_count=1) == []
    assert nearest_terms(query(memory, "doctor"), 3, min_cosine=0.5, min_count=3) == []


def test_the_vocabulary_follows_the_notes(memory: App, vault: Path) -> None:
    assert "physician" in nearest_terms(query(memory, "doctor"), 3, min_cosine=0.5, min_count=1)
    (vault / "physician.md").unlink()
    (vault / "clinic.md").write_text("nothing of the kind")
    memory.build()

    assert "physician" not in nearest_terms(query(memory, "doctor"), 3, min_cosine=0.5, min_count=1)


def test_expansion_finds_by_words_what_the_question_does_not_say(memory: App) -> None:
    expanding = with_stages("expand", "expanded")
    alone, beside = query(memory, "doctor", mode="fts"), query(memory, "doctor shelf morning", mode="fts")

    assert paths(alone) == []
    assert paths(alone, expanding)[0] in ("physician.md", "clinic.md")
    bold = {"expand": Expand(terms=2, min_cosine=0.25), "expanded": Expanded(weight=9.0)}
    assert set(paths(beside)) == {"plain.md", "tea.md"}
    order = paths(beside, expanding.changed(lambda stage: bold.get(name_of(stage), stage)))
    assert order.index("clinic.md") < order.index("plain.md")


# ---- code


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("getUserById", ("get", "User", "By", "Id")),
        ("parse_json_data", ("parse", "json", "data")),
        ("HTTPResponseError", ("HTTP", "Response", "Error")),
        ("utf8Decode", ("utf8", "Decode")),
        ("parseV2Response", ("parse", "V2", "Response")),
        ("get_userName", ("get", "user", "Name")),
        ("__init__", ("init",)),
        ("plain", ("plain",)),
        ("", ()),
    ],
)
def test_a_name_is_cut_where_a_reader_would(name: str, expected: tuple[str, ...]) -> None:
    assert parts(name) == expected


def test_only_names_of_several_parts_are_names() -> None:
    assert names("We met Anna; see URLs, NASA, 3rd, __init__ and x_1 or HTTPServer2 twice: HTTPServer2") == [
        "x_1", "HTTPServer2"
    ]  # fmt: skip
    assert names("x" * 90 + "Y" * 90) == []
    assert names("aGVsbG8gd29ybGQhIHRoaXMgaXMgYmFzZTY0IGRhdGE") == []
    assert hidden_words("aB" * 500_000 + " getUser") == "get User"  # in a moment, and without copies of it
    assert hidden_words("snake_case is cut by the full text itself") == ""
    assert hidden_words("Plain prose with NASA and URLs.") == ""


def test_the_question_looks_for_the_name_its_parts_together_and_each() -> None:
    assert terms_of("getUserById") == ["get user by id", "get", "user", "id"]
    assert terms_of("parse_json_data") == ["parse json data", "parse", "json", "data"]
    assert terms_of("HTTPResponseError") == ["http response error", "http", "response", "error"]


FENCE = "# Service\n\nIt is called so:\n\n```python\nrow = {}(7)\n```\n"
PROSE = "# Service\n\nThe row comes from {}, which asks the store.\n"


@pytest.mark.parametrize("form", [FENCE, PROSE])
@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("getUserById", "get_user_by_id"),
        ("get_user_by_id", "getUserById"),
        ("parseJsonData", "parse_json_data"),
        ("parse_json_data", "ParseJSONData"),
        ("http_response_error", "HTTPResponseError"),
        ("HTTPResponseError", "http_response_error"),
        ("utf8_decode", "utf8Decode"),
        ("getUserById", "getUserById"),
    ],
)
def test_one_way_to_write_a_name_finds_the_other(app: App, vault: Path, form: str, asked: str, written: str) -> None:
    near = "# Users\n\nTo get a user, parse the data of the http response; decode it by its id, or there is an error.\n"
    write(vault, {"code.md": form.format(written), "near.md": near, "far.md": "Tulips in the garden."})
    app.build()

    assert paths(query(app, asked, mode="fts"))[0] == "code.md"
    assert paths(query(app, asked))[0] == "code.md"


def test_without_the_stage_camel_case_does_not_find_snake_case(app: App, vault: Path) -> None:
    write(vault, {"code.md": PROSE.format("get_user_by_id"), "far.md": "Tulips for the row."})
    app.build()
    asked = query(app, "getUserById row", mode="fts")

    assert paths(asked)[0] == "code.md"
    assert paths(asked, DEFAULT.without("code"))[0] == "far.md"


def test_names_in_titles_and_headings_are_found_in_parts_and_so_are_those_of_a_remade_full_text(
    app: App, vault: Path
) -> None:
    write(
        vault, {"a.md": "---\ntitle: WalrusFeeder\n---\ntext", "b.md": "# Zoo\n\n## otterPool\n\ntext", "c.md": "text"}
    )
    app.build()
    for _ in range(2):
        assert paths(query(app, "feeder", mode="fts")) == ["a.md"]
        assert paths(query(app, "pool", mode="fts")) == ["b.md"]
        app.store.conn.execute("DROP TABLE chunks_fts")
        app.build()


# ---- hypothesis

GUESS = "Planted tulips by the fence in the garden"


def test_a_hypothesis_brings_up_what_resembles_the_answer(memory: App) -> None:
    asked = query(memory, "what did I buy?")
    guess = replace(asked, hypothesis=GUESS)

    assert paths(asked)[0] != "garden.md"
    assert paths(guess)[0] == "garden.md"
    assert paths(replace(guess, mode="vec"))[0] == "garden.md"
    assert paths(replace(guess, mode="fts")) == paths(replace(asked, mode="fts"))


def test_a_hypothesis_is_embedded_as_a_note_is(memory: App) -> None:
    hits = Hyde()(query(memory, "x", hypothesis="Garden\nGarden\nPlanted tulips by the fence on Sunday."), []).hits

    assert hits[0][1] == pytest.approx(1.0, abs=0.05)


def test_the_model_writes_a_hypothesis_only_if_the_caller_gave_none(memory: App) -> None:
    def guess(question: str) -> str:
        return f"  a guess\nat {question} "

    assert Imagine()(query(memory, "tea", imagine=guess)).hypothesis == "a guess at tea"
    assert Imagine()(query(memory, "tea", imagine=guess, hypothesis="mine")).hypothesis == "mine"
    assert Imagine()(query(memory, "tea")).hypothesis == ""


def test_with_the_stage_on_the_chat_model_is_asked_and_its_guess_changes_the_order(
    memory: App, make_app: Callable[..., App], tmp_path: Path
) -> None:
    config = tmp_path / "home" / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text('[search]\non = ["imagine"]\n')
    text = "what did I buy?"
    with ScriptedOllama([reply(GUESS)]) as server:
        guessing = make_app(TARS_MODEL="ollama:llama3.2", OLLAMA_HOST=server.url)
        assert guessing.search(text).results[0].file_path == "garden.md"
        assert text in json.dumps(server.requests[-1].body)
    alone = make_app(TARS_MODEL="recall")
    assert alone.search(text).results[0].file_path != "garden.md"


def test_a_model_that_is_down_is_no_reason_not_to_search(memory: App, make_app: Callable[..., App]) -> None:
    said: list[str] = []
    app = make_app(TARS_MODEL="ollama:llama3.2", OLLAMA_HOST=nobody())
    app.say = said.append

    assert app.imagine("tea") == ""
    assert said and "hypothesis" in said[0]


# ---- short circuit


def test_bm25_is_normalised_into_zero_to_one() -> None:
    assert normalised(9.0) == pytest.approx(0.9) == normalised(-9.0)
    assert normalised(0.0) == 0
    assert 0 <= normalised(1e12) < 1


@pytest.mark.parametrize(
    ("scores", "clear"),
    [
        ([], False),
        ([6.0], True),  # one hit leads by any measure
        ([5.0], False),  # 0.83
        ([9.0, 3.0], True),  # 0.90 and 0.75
        ([9.0, 3.1], False),
        ([100.0, 50.0], False),
    ],
)
def test_it_is_enough_when_the_best_is_high_and_far_ahead(scores: list[float], clear: bool) -> None:
    assert ShortCircuit().is_clear([(n, score) for n, score in enumerate(scores)]) == clear


def test_if_the_words_are_clear_no_vectors_are_looked_for(memory: App, vault: Path) -> None:
    write(vault, {f"noise/{n}.md": f"# Note {n}\n\nThe weather was mild." for n in range(60)})
    write(vault, {"zeppelin.md": "# Zeppelin walrus\n\nA zeppelin, a walrus."})
    memory.build()
    asked, ran = query(memory, "zeppelin walrus"), []
    found = with_stages("short_circuit")(asked, lambda stage, gave: ran.append(getattr(stage, "name", "")))

    assert [r.file_path for r in found.results] == ["zeppelin.md"]
    assert "short_circuit" in ran and not {"vectors", "late"} & set(ran)
    assert len(paths(asked)) > 1
    assert found.results[0].confidence == pytest.approx(DEFAULT(asked).results[0].confidence, rel=1e-3)
    assert len(paths(replace(asked, hypothesis="a seal in the sky"), with_stages("short_circuit"))) > 1


# ---- presets


def test_a_preset_adds_the_words_of_its_kind(memory: App) -> None:
    assert Boosters()(query(memory, "database", about="decisions")).text == "database decision chose architecture"
    assert Boosters()(query(memory, "database", about="changes")).text == "database changed modified refactored"
    assert Boosters()(query(memory, "database", about="how")).text == "database architecture design pattern implements"
    assert Boosters()(query(memory, "", about="decisions")).text == PRESETS["decisions"]
    assert Boosters()(query(memory, "database")).text == "database"


def test_a_preset_changes_the_order(memory: App) -> None:
    asked = query(memory, "small database shelf lamp")

    assert paths(asked)[0] == "plain.md"
    assert paths(query(memory, "small database", about="decisions"))[0] == "chose.md"
    assert paths(query(memory, "", about="decisions"))[0] == "chose.md"


def test_an_unknown_preset_is_refused(memory: App) -> None:
    with pytest.raises(UsageError, match="decisions, changes, how"):
        memory.search("tea", about="gossip")


# ---- fusion, as an option


def test_rank_bonus_and_doubled_lists_are_the_seeds_formula() -> None:
    first, second, third = [1, 2, 3, 4], [2, 1], [3]
    fused = dict(reciprocal_rank_fusion(first, second, third, k=60, weights=[2, 2, 1], bonus=(0.05, 0.02, 0.02)))
    most = 5 / 61 + 3 * 0.05

    assert fused[1] == pytest.approx((2 / 61 + 0.05 + 2 / 62 + 0.02) / most)
    assert fused[3] == pytest.approx((2 / 63 + 0.02 + 1 / 61 + 0.05) / most)
    assert fused[4] == pytest.approx((2 / 64) / most)
    assert max(fused.values()) <= 1


def test_doubling_the_first_two_lists_changes_the_order(memory: App) -> None:
    lists = [
        RankedList("words", [(1, 9.0)]),
        RankedList("vectors", [(2, 0.9)]),
        RankedList("expanded", [(3, 0.9)], 1.5),
    ]
    even = ReciprocalRank(words=1.0, vectors=1.0)

    assert even(lists, query(memory, "tea"))[0].rowid == 3
    assert replace(even, first_two=2.0)(lists, query(memory, "tea"))[0].rowid == 1


def test_a_rank_bonus_lets_one_first_place_beat_two_good_ones(memory: App) -> None:
    lists = [RankedList("words", [(1, 9.0), (2, 8.0)]), RankedList("other", [(3, 9.0), (2, 8.0)])]
    plain = ReciprocalRank(k=60.0, bonus=())

    assert plain(lists, query(memory, "tea"))[0].rowid == 2
    assert replace(plain, bonus=(0.05, 0.0, 0.0))(lists, query(memory, "tea"))[0].rowid == 1


# ---- the command line


def test_the_flags_reach_the_search(environ: dict[str, str], vault: Path) -> None:
    write(vault, NOTES)

    def first(*args: str) -> str:
        done = tars(environ, "search", "--json", *args)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["results"][0]["path"])

    assert first("small database", "--about", "decisions") == "chose.md"
    assert first("--about", "decisions") == "chose.md"
    assert first("what did I buy?") != "garden.md"
    assert first("what did I buy?", "--hypothesis", GUESS) == "garden.md"
    assert tars(environ, "search", "tea", "--about", "gossip").returncode == 2
