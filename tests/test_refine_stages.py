"""Stages after the fusion: dedup, diversity, reranking, parents, budget, and what --explain says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import write

from tars.app import App
from tars.errors import ChatError, TarsError
from tars.search.budget import Budget
from tars.search.dedup import NearMeaning, NearText, SameText, alike, jaccard, runs_of
from tars.search.diversity import Diverse, PerNote
from tars.search.explain import explain, explain_query, steps_json
from tars.search.parents import Sections, Windows
from tars.search.query import Query, RankedList, SearchResult
from tars.search.rerank import CrossEncoder, ModelRerank
from tars.search.whole_notes import WholeNotes

LONG = "\n\n".join(
    [
        *("# Garden", "## Spring"),
        *(f"Spring line {n}: " + "tulips and daffodils " * 12 for n in range(6)),
        *("## Autumn",),
        *(f"Autumn line {n}: " + "apples and walnuts " * 12 for n in range(3)),
    ]
)


@pytest.fixture
def memory(app: App, vault: Path) -> App:
    write(vault, {"garden.md": LONG + "\n", "tea.md": "I drink green tea.\n", "car.md": "The car needs new tyres.\n"})
    app.build()
    return app


def query(app: App, text: str = "anything", **more: object) -> Query:
    return replace(Query(text, app.index), **more)  # type: ignore[arg-type]


def result(rowid: int, score: float, content: str = "", **more: object) -> SearchResult:
    lines = content.count("\n")
    made = SearchResult(content or f"text {rowid}", score, f"{rowid}.md", "", "note", 1, 1 + lines, rowid)
    return replace(made, **more)  # type: ignore[arg-type]


def rowids(results: list[SearchResult]) -> list[int]:
    return [result.chunk_rowid for result in results]


def stored(app: App) -> list[SearchResult]:
    """Every passage of the memory as a result, in the order of the notes."""
    passages = sorted(app.store.siblings(app.store.vector_rowids(), query(app).filters), key=lambda p: p.rowid)
    return [
        SearchResult(
            p.content, 1 - at / 100, p.path, p.title, p.memory_type, p.start_line, p.end_line, p.rowid,
            position=p.position, heading=p.heading,
        )
        for at, p in enumerate(passages)
    ]  # fmt: skip


def lines_of(vault: Path, found: SearchResult) -> str:
    return "\n".join((vault / found.file_path).read_text().split("\n")[found.start_line - 1 : found.end_line])


# ---- whole notes


def test_a_passage_of_a_note_with_more_to_say_comes_first(memory: App) -> None:
    garden = [r.chunk_rowid for r in stored(memory) if r.file_path == "garden.md"]
    (tea,) = [r.chunk_rowid for r in stored(memory) if r.file_path == "tea.md"]
    words = RankedList("words", [(tea, 5.0), (garden[0], 4.0), (garden[1], 3.0)])

    found = WholeNotes()(query(memory), [words])
    assert [rowid for rowid, _ in found.hits] == [garden[0], garden[1], tea]
    assert found.hits[0][1] == pytest.approx(7 / 5) and found.weight == 0.2
    assert WholeNotes(best=1)(query(memory), [words]).hits[0][0] == tea
    assert WholeNotes()(query(memory), []).hits == []


# ---- dedup


def test_the_same_text_is_returned_once_whatever_its_case_and_white_space(memory: App) -> None:
    results = [result(1, 0.9, "Green  tea\n"), result(2, 0.8, "green tea"), result(3, 0.7, "black tea")]

    assert rowids(SameText()(results, query(memory))) == [1, 3]


def test_what_shares_41_of_59_runs_is_no_duplicate() -> None:
    one, other = (frozenset(str(n) for n in range(*ends)) for ends in ((0, 48), (7, 59)))

    assert runs_of("hello world", 3) == {"hel", "ell", "llo", "lo ", "o w", " wo", "wor", "orl", "rld"}
    assert jaccard(one, other) == pytest.approx(41 / 59)
    assert not alike(one, other, NearText().threshold)


def test_the_seeds_sentences_are_counted_by_its_formula() -> None:
    """Its example gives the pair 41 of 59, which is not what its own formula makes of them."""
    one = runs_of("Configure the authentication settings in config.toml", 3)
    other = runs_of("Configure authentication settings in the config.toml file", 3)

    assert jaccard(one, other) == pytest.approx(43 / 52)


def test_of_two_texts_that_are_nearly_the_same_the_better_stays(memory: App) -> None:
    text = "Configure the authentication settings in config.toml before the first start"
    results = [result(1, 0.9, text), result(2, 0.8, text + "."), result(3, 0.7, "Buy apples")]

    assert rowids(NearText()(results, query(memory))) == [1, 3]
    assert rowids(NearText(threshold=1.0)(results, query(memory))) == [1, 2, 3]


def test_a_passage_of_the_same_meaning_is_dropped(app: App, vault: Path) -> None:
    write(vault, {"a.md": "I drink green tea.", "b.md": "Green tea I drink!", "c.md": "The car needs tyres."})
    app.build()
    a, b, c = stored(app)

    assert rowids(NearMeaning()([a, b, c], query(app))) == rowids([a, c])
    assert rowids(NearMeaning(threshold=1.1)([a, b, c], query(app))) == rowids([a, b, c])


# ---- diversity


def test_what_is_new_comes_before_more_of_the_same(app: App, vault: Path) -> None:
    write(vault, {"a.md": "I drink green tea.", "b.md": "Green tea I drink!", "c.md": "The car needs tyres."})
    app.build()
    a, b, c = (replace(r, score=score) for r, score in zip(stored(app), (0.9, 0.8, 0.7), strict=True))

    diverse = Diverse()([a, b, c], query(app))
    assert rowids(diverse) == rowids([a, c, b])
    assert [r.score for r in diverse] == sorted((r.score for r in diverse), reverse=True)
    assert diverse[0].score == pytest.approx(0.7 * 0.9 + 0.3)
    assert rowids(Diverse(relevance=1.0)([a, b, c], query(app))) == rowids([a, b, c])


def test_one_note_gives_no_more_passages_than_allowed(memory: App) -> None:
    results = [result(n, 1 - n / 10, file_path="same.md") for n in range(4)] + [result(9, 0.1)]

    assert rowids(PerNote(most=2)(results, query(memory))) == [0, 1, 9]


# ---- reranking


def test_the_model_puts_the_first_results_in_order(memory: App) -> None:
    results = [result(n, 1 - n / 10) for n in range(5)]
    prompts: list[str] = []

    def judge(prompt: str) -> str:
        prompts.append(prompt)
        return "3, 1 and not 77"

    ranked = ModelRerank(first=3)(results, query(memory, "the question", judge=judge))
    assert rowids(ranked) == [2, 0, 1, 3, 4]
    assert [r.score for r in ranked] == [r.score for r in results]
    assert "the question" in prompts[0] and "text 2" in prompts[0] and "text 3" not in prompts[0]


def test_what_is_private_is_not_shown_to_the_model_and_keeps_its_place(memory: App) -> None:
    results = [result(1, 0.9, "secret", private=True), result(2, 0.8), result(3, 0.7)]
    prompts: list[str] = []

    ranked = ModelRerank()(results, query(memory, judge=lambda prompt: prompts.append(prompt) or "2"))  # type: ignore[func-returns-value]
    assert rowids(ranked) == [1, 3, 2]
    assert "secret" not in prompts[0]


def test_a_model_that_fails_or_is_not_there_leaves_the_order(memory: App) -> None:
    def failing(prompt: str) -> str:
        raise ChatError("down")

    results = [result(1, 0.9), result(2, 0.8)]
    assert ModelRerank()(results, query(memory, judge=failing)) == results
    assert ModelRerank()(results, query(memory)) == results


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A real ONNX model that counts the tokens of the pair: the longer passage wins."""
    onnx = pytest.importorskip("onnx", reason="onnx builds the model of this test")
    pytest.importorskip("onnxruntime", reason="the extra `rerank` is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `rerank` is not installed")
    kind = onnx.TensorProto
    nodes = [
        onnx.helper.make_node("Cast", ["attention_mask"], ["ones"], to=kind.FLOAT),
        onnx.helper.make_node("ReduceSum", ["ones", "axis"], ["logits"], keepdims=1),
    ]
    graph = onnx.helper.make_graph(
        nodes, "length",
        [onnx.helper.make_tensor_value_info("attention_mask", kind.INT64, ["batch", "tokens"])],
        [onnx.helper.make_tensor_value_info("logits", kind.FLOAT, ["batch", 1])],
        [onnx.helper.make_tensor("axis", kind.INT64, [1], [1])],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "model.onnx"))
    words = tokenizers.models.WordLevel({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_cross_encoder_from_a_folder_puts_the_first_results_in_order(memory: App, encoder: Path) -> None:
    results = [
        result(1, 0.9, "one"),
        result(2, 0.8, "one two three"),
        result(3, 0.7, "one two"),
        result(4, 0.1, "a b c d"),
    ]

    ranked = CrossEncoder(folder=str(encoder), first=3)(results, query(memory))
    assert rowids(ranked) == [2, 3, 1, 4]
    assert [r.score for r in ranked] == [0.9, 0.8, 0.7, 0.1]


def test_a_folder_without_a_model_is_named(memory: App, encoder: Path) -> None:
    results = [result(1, 0.9), result(2, 0.8)]
    (encoder / "model.onnx").unlink()

    with pytest.raises(TarsError, match=r"has no model\.onnx"):
        CrossEncoder(folder=str(encoder))(results, query(memory))
    assert CrossEncoder()(results, query(memory)) == results


# ---- parents


def test_a_passage_becomes_its_section_word_for_word(memory: App, vault: Path) -> None:
    autumn = [r for r in stored(memory) if "Autumn line" in r.content]
    assert len(autumn) > 1

    (section,) = Sections()(autumn[1:] + autumn[:1], query(memory))
    assert section.content == lines_of(vault, section)
    assert "Autumn line 0" in section.content and "Autumn line 2" in section.content
    assert "Spring" not in section.content
    assert section.score == autumn[1].score


def test_a_section_that_is_too_long_is_cut_around_the_passage_and_never_returned_twice(
    memory: App, vault: Path
) -> None:
    spring = [r for r in stored(memory) if "Spring line" in r.content]

    sections = Sections(max_chars=700)(spring[2:3] + spring, query(memory))
    assert all(len(s.content) <= 700 and s.content == lines_of(vault, s) for s in sections)
    ranges = sorted((s.start_line, s.end_line) for s in sections)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    assert spring[2].content in sections[0].content


def test_windows_that_meet_become_one_at_the_better_place(memory: App, vault: Path) -> None:
    garden = [r for r in stored(memory) if r.file_path == "garden.md"]
    other = next(r for r in stored(memory) if r.file_path == "tea.md")

    windows = Windows()([garden[1], other, garden[3]], query(memory))
    assert [w.file_path for w in windows] == ["garden.md", "tea.md"]
    assert (windows[0].start_line, windows[0].end_line) == (garden[0].start_line, garden[4].end_line)
    assert all(w.content == lines_of(vault, w) for w in windows)
    assert Windows(before=0, after=0)([garden[1], other], query(memory)) == [garden[1], other]


def test_windows_do_not_join_what_is_private_to_what_is_not(app: App, vault: Path) -> None:
    write(
        vault,
        {"a.md": "# A\n\nopen words " + "x " * 300 + "\n\n<private>\nhidden words " + "y " * 300 + "\n</private>\n"},
    )
    app.build()
    results = stored(app)
    assert len(results) > 1

    for window in Windows(before=5, after=5)(results, query(app)):
        assert not ("open words" in window.content and "hidden words" in window.content)


# ---- budget


def test_what_is_returned_fits_the_budget_and_is_cut_at_the_end_of_a_line(memory: App) -> None:
    results = [
        result(1, 0.9, "a" * 50),
        result(2, 0.8, "b" * 30 + "\n" + "c" * 30, start_line=5, end_line=6),
        result(3, 0.7, "d"),
    ]

    kept = Budget(least=10)(results, query(memory, budget=90))
    assert [r.content for r in kept] == ["a" * 50, "b" * 30]
    assert (kept[1].start_line, kept[1].end_line) == (5, 5)
    assert rowids(Budget(least=40)(results, query(memory, budget=90))) == [1]
    assert Budget()(results, query(memory)) == results


def test_the_first_result_is_there_even_if_it_has_to_be_cut_within_a_line(memory: App) -> None:
    (kept,) = Budget()([result(1, 0.9, "a" * 50 + "\nb")], query(memory, budget=20))
    assert (kept.content, kept.end_line) == ("a" * 20, 1)


def test_a_search_keeps_to_its_budget(memory: App, vault: Path) -> None:
    everything = memory.search("tulips apples walnuts", limit=50).results
    within = memory.search("tulips apples walnuts", budget=900).results

    assert sum(len(r.content) for r in everything) > 900
    assert 600 < sum(len(r.content) for r in within) <= 900
    assert all(r.content == lines_of(vault, r) for r in within)
    assert rowids(within) == rowids(everything)[: len(within)]


# ---- explain


def test_each_result_says_what_every_stage_did_to_it(make_app: Callable[..., App], vault: Path) -> None:
    app = make_app()
    write(vault, {"garden.md": LONG, "tea.md": "I drink green tea in March.\n"})
    app.build()
    plain = app.search("tulips in March", limit=3)
    told = app.search("tulips in March", limit=3, explain=True)

    assert told.results == plain.results and told.trace and not plain.trace
    assert not plain.results[0].trace
    said = explain(told.results[0])
    assert "words: place" in said and "\nfusion: place" in said and "confidence 0." in said
    assert "times: windows" in explain_query(told) and "fusion: words × " in explain_query(told)
    steps = steps_json(told.results[0].trace)
    assert steps[-1]["rank"] == 1 and json.dumps(steps)
    assert [step["rank"] for step in steps if step["stage"] == "cut"] == [1]


def test_a_stage_that_moves_a_result_says_from_where_to_where(memory: App) -> None:
    from tars.search.explain import Trace
    from tars.search.pipeline import Outcome

    one, two = result(1, 0.9), result(2, 0.8)
    trace = Trace(query(memory))
    trace(Budget(), [one, two])
    trace(ModelRerank(), [replace(two, score=0.9), replace(one, score=0.8)])

    told = trace.onto(Outcome([two], "hybrid")).results[0]
    assert told.trace[-1].rank_before == 2 and told.trace[-1].rank == 1
    assert "model_rerank: place 2 → 1, score 0.800 → 0.900" in explain(told)
