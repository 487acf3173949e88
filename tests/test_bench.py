"""Measuring search: what is judged, how it is summed up, and what `tars bench` does with it."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from conftest import write
from test_cli import tars

from tars.app import App
from tars.bench import ablation, show
from tars.bench.calibration import WEIGHTS, Recorder, Sample, fitted, held_out, reliability
from tars.bench.figures import Difference, Judged, auc, bootstrap, of_set, percentile
from tars.bench.judge import Judge, Marks
from tars.bench.own import own_questions
from tars.bench.questions import Case, Question, Span, find_cases, sample
from tars.bench.run import Way, run
from tars.config import load
from tars.errors import TarsError, UsageError
from tars.search.confidence import Confidence
from tars.search.pipeline import name_of
from tars.search.query import Query, SearchResult
from tars.search.settings import configured

ROOT = Path(__file__).parents[1]
KIT = ROOT.parent / "shared" / "bench" / "score.py"
sys.path.insert(0, str(Path(__file__).parent / "bench"))

NOTES = {
    "tea.md": "# Tea\n\nI drink green tea in the morning.\n\nThe pot is from Kyoto.\n",
    "boiler.md": "# Boiler\n\nThe boiler is serviced in October.\n",
    "ghent.md": "# Ghent\n\nWe went to Ghent by train in May.\n",
}
QUESTIONS = [
    {"query": "What tea do I drink?", "category": "food", "evidence": [{"path": "tea.md", "start_line": 3, "end_line": 3}]},
    {"query": "When is the boiler serviced?", "category": "home", "as_of": "2026-03-01",
     "evidence": [{"path": "boiler.md", "start_line": 3, "end_line": 3}]},
    {"query": "How did we get to Ghent?", "category": "travel",
     "evidence": [{"path": "ghent.md", "start_line": 3, "end_line": 3}]},
    {"query": "Which walrus sang?", "category": "trap", "adversarial": True, "evidence": []},
]  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    folder = tmp_path / "set" / "case"
    rows = [{"id": f"q{at}", "adversarial": False, **row} for at, row in enumerate(QUESTIONS)]
    write(folder / "memory", NOTES)
    write(folder, {"questions.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    return folder


def shown(path: str, lines: tuple[int, int], content: str) -> SearchResult:
    return SearchResult(content, 1.0, path, "", "note", *lines, hash((path, lines)))


def judged(name: str, recall: float, *, ms: float = 1.0, of: str = "set", adversarial: bool = False) -> Judged:
    marks = Marks({2_000: recall, 4_000: recall, 8_000: recall}, {5: recall, 10: recall}, recall)
    return Judged(of, "case", name, "", adversarial, ms, recall, marks)


# ---- judging


def test_recall_is_the_share_of_the_evidence_that_the_characters_hold(vault: Path) -> None:
    long = "".join(f"word{number:03} " for number in range(125))  # 1,000 characters, all pieces different
    short = "The pot is from Kyoto."
    write(vault, {"long.md": long, "tea.md": f"# Tea\n\n{short}\n"})
    question = Question("1", "?", evidence=(Span("long.md", 1, 1), Span("tea.md", 3, 3)))
    results = [shown("other.md", (1, 1), "x" * 1_500), shown("long.md", (1, 1), long), shown("tea.md", (3, 3), short)]

    marks = Judge(vault, (1_500, 1_760, 1_800, 2_522, 4_000))(question, results)

    # 260 characters of a long text are not enough, 300 are; a short one has to be there nearly whole.
    assert marks.within == {1_500: 0.0, 1_760: 0.0, 1_800: 0.5, 2_522: 1.0, 4_000: 1.0}
    assert marks.at == {5: 1.0, 10: 1.0}
    assert marks.reciprocal_rank == 1 / 2


def test_only_the_same_lines_of_the_same_note_count(vault: Path) -> None:
    write(vault, {"a.md": "one\ntwo\nthree\n", "b.md": "two\n"})
    question = Question("1", "?", evidence=(Span("a.md", 2, 2),))

    marks = Judge(vault)(question, [shown("b.md", (1, 1), "two"), shown("a.md", (3, 3), "two")])

    assert (marks.within[8_000], marks.at[10], marks.reciprocal_rank) == (0.0, 0.0, 0.0)


def test_marks_of_markdown_case_and_breaks_do_not_matter(vault: Path) -> None:
    write(vault, {"a.md": "- **Green** tea,\n  in the `morning`\n"})
    question = Question("1", "?", evidence=(Span("a.md", 1, 2),))

    assert Judge(vault)(question, [shown("a.md", (1, 2), "green TEA, in the morning")]).within[2_000] == 1.0


def test_evidence_that_is_not_there_is_an_error_that_names_it(vault: Path) -> None:
    question = Question("1", "?", evidence=(Span("gone.md", 1, 1),))

    with pytest.raises(TarsError, match=r"gone\.md"):
        Judge(vault)(question, [shown("gone.md", (1, 1), "text")])


# ---- figures


def test_figures_of_a_set_leave_out_what_cannot_be_answered_but_for_the_auc() -> None:
    rows = [judged("a", 1.0, ms=1), judged("b", 0.5, ms=3), judged("c", 0.0, ms=9), judged("d", 0.25, adversarial=True)]

    figures = of_set(rows)

    assert figures.questions == 3
    assert figures.within == {2_000: 0.5, 4_000: 0.5, 8_000: 0.5}
    assert (figures.mrr, figures.p50_ms, figures.p95_ms) == (0.5, 3, 9)
    assert figures.auc == pytest.approx(2 / 3)


def test_auc_is_the_chance_to_stand_above_and_a_tie_is_half() -> None:
    assert auc([3, 2], [1, 2]) == (1 + 1 + 1 + 0.5) / 4
    assert auc([1], []) is None


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([5, 1, 3], 0.5) == 3
    assert percentile([5, 1, 3], 0.95) == 5
    assert percentile([], 0.5) == 0.0


def test_the_bootstrap_of_equal_runs_is_zero_all_through() -> None:
    assert bootstrap([0.0] * 50) == Difference(0.0, 0.0, 0.0)
    assert not bootstrap([0.0] * 50).is_clear


def test_the_bootstrap_finds_a_clear_gain_and_no_gain_in_noise() -> None:
    rng = random.Random(1)
    noise = [rng.choice([-1.0, 1.0]) for _ in range(200)]
    gain = [value * 0.1 + 0.2 for value in noise]

    assert bootstrap(gain).low > 0.15
    assert bootstrap(noise).low < 0 < bootstrap(noise).high
    assert bootstrap(gain) == bootstrap(gain)


# ---- questions


def test_a_set_is_the_folder_above_its_cases_and_a_case_named_itself_is_its_own(bench: Path) -> None:
    assert [(case.set, case.name) for case in find_cases([bench.parents[1]])] == [("set", "case")]
    assert [(case.set, case.name) for case in find_cases([bench])] == [("case", "case")]


def test_a_sample_has_at_most_so_many_of_each_set_and_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    cases = [
        Case(of, name, tmp_path, tuple(Question(str(at), "?") for at in range(20)))
        for of, name in (("a", "1"), ("a", "2"), ("b", "1"))
    ]
    drawn = sample(cases, 5, 7)

    assert sum(len(case.questions) for case in drawn[:2]) == len(drawn[2].questions) == 5
    assert drawn == sample(cases, 5, 7) != sample(cases, 5, 8)


@pytest.mark.parametrize(
    ("line", "problem"),
    [("{", "questions.jsonl:2 is not a question"), ('{"category": "x"}', "'query' is missing"), ("[]", ":2 is not")],
)
def test_a_line_that_is_no_question_is_named(bench: Path, line: str, problem: str) -> None:
    write(bench, {"questions.jsonl": f'{{"query": "x"}}\n{line}\n'})

    with pytest.raises(TarsError, match=problem):
        find_cases([bench])


def test_links_make_questions_of_the_sentences_around_them(vault: Path) -> None:
    write(
        vault,
        {
            "home/Boiler.md": "# Boiler\n\nMade in 2014.\n",
            "me.md": '---\nsee: "[[Boiler]] and other things about winter storms and summer rain"\n---\nSomething else. The service of [[Boiler|the old thing]] is due every\nOctober before frost comes. See [[Boiler]].\n',
            "odd.md": "What [[nobody]] wrote about winter storms and summer rain is lost.\n`[[Boiler]]` in code asks nothing about winter storms.\n",
        },
    )
    (asked,) = own_questions(vault, max_bytes=1_000_000).questions

    assert asked.text == "The service of is due every October before frost comes."
    assert asked.evidence[0].path == "home/Boiler.md"
    assert asked.taken_from == Span("me.md", 4, 5)


def test_private_sentences_ask_nothing(vault: Path) -> None:
    said = "The service of [[Boiler]] is due every October before frost comes.\n"
    write(
        vault,
        {
            "Boiler.md": "Made in 2014.",
            "me.md": f"<private>\n{said}</private>\n",
            "own.md": f"---\nprivate: true\n---\n{said}",
        },
    )

    assert own_questions(vault, max_bytes=1_000_000).questions == ()


def test_the_sample_memory_asks_about_itself_and_always_the_same() -> None:
    asked = own_questions(ROOT / "memory", max_bytes=1_000_000).questions

    assert len(asked) >= 5
    assert any(q.evidence[0].path == "projects/square-piano.md" and "soft iron" in q.text for q in asked)
    assert all("[[" not in q.text and q.evidence[0].path != q.taken_from.path for q in asked if q.taken_from)
    assert asked == own_questions(ROOT / "memory", max_bytes=1_000_000).questions


# ---- asking


def asked_of(app: App, questions: list[Question], *ways: Way, **more: object) -> list[list[Judged]]:
    app.build()
    case = Case("set", "case", app.config.memory_dir, tuple(questions))
    named = {str(at): way for at, way in enumerate(ways)}
    return list(run([case], named, lambda case: app, **more).rows.values())  # type: ignore[arg-type]


def test_where_a_question_stands_is_no_answer_to_it(make_app: Callable[..., App], vault: Path) -> None:
    write(vault, {"a.md": "green tea with jasmine", "b.md": "green tea with jasmine from the shop"})
    question = Question("1", "green tea with jasmine", evidence=(Span("a.md", 1, 1),))
    ((row,),) = asked_of(make_app(lives=True), [replace(question, taken_from=Span("a.md", 1, 1))], Way(configured({})))
    ((free,),) = asked_of(make_app(lives=True), [question], Way(configured({})))

    assert row.marks and row.marks.at[10] == 0.0
    assert free.marks and free.marks.at[10] == 1.0


def test_the_clock_is_the_day_of_the_question_only_if_that_is_asked_for(
    make_app: Callable[..., App], vault: Path
) -> None:
    days: list[date] = []

    def look(query: Query) -> Query:
        days.append(query.today)
        return query

    write(vault, {"a.md": "tea"})
    way = Way(replace(configured({}), rewrite=(look,)))
    question = Question("1", "tea", as_of=date(2023, 5, 1))
    for clock in (True, False):
        asked_of(make_app(lives=True, TARS_NOW="2026-01-02"), [question], way, clock=clock)

    assert days == [date(2026, 1, 2), date(2023, 5, 1), date(2026, 1, 2), date(2026, 1, 2)]  # the first warms up


def test_a_way_that_cannot_be_gone_is_told_and_the_others_go_on(make_app: Callable[..., App], vault: Path) -> None:
    def broken(query: Query) -> Query:
        raise TarsError("no model here")

    write(vault, {"a.md": "tea"})
    good, bad = Way(configured({})), Way(replace(configured({}), rewrite=(broken,)))
    app = make_app(lives=True)
    app.build()
    case = Case("set", "case", vault, (Question("1", "tea"), Question("2", "tea")))
    made = run([case], {"good": good, "bad": bad}, lambda case: app)

    assert len(made.rows["good"]) == 2
    assert "bad" not in made.rows
    assert made.failed == {"bad": "no model here"}


# ---- what stages are worth


def test_a_stage_that_is_on_is_switched_off_and_one_that_is_off_on() -> None:
    names = {
        stage: {name_of(s) for s in configured(ablation.switched({}, stage)).stages()}
        for stage in ("beside", "communities")
    }

    assert "beside" not in names["beside"]
    assert "communities" in names["communities"]
    assert ablation.switched({"off": ["beside"]}, "beside") == {"on": ["beside"], "off": []}
    assert ablation.switched({}, "beside+late") == {"on": [], "off": ["beside", "late"]}


def test_worth_is_with_the_stage_minus_without_it_whichever_is_set() -> None:
    better, worse = [judged(str(at), 1.0, ms=3) for at in range(9)], [judged(str(at), 0.5, ms=1) for at in range(9)]
    made = run([], {}, lambda case: pytest.fail("there is no case"))
    made = replace(made, rows={ablation.BASE: better, "beside": worse, "communities": worse})
    on, off = ablation.worth_of_each(made, {}, ["beside", "communities"])

    assert (on.is_on, on.sets["set"].judged.mean, on.sets["set"].p50_ms, on.verdict) == (True, 0.5, 2, "pays")
    assert (off.is_on, off.sets["set"].judged.mean, off.sets["set"].p50_ms, off.verdict) == (False, -0.5, -2, "costs")


def test_a_stage_that_changes_nothing_makes_no_difference() -> None:
    rows = [judged(str(at), at / 10) for at in range(10)]
    (worth,) = ablation.compare(rows, rows).values()

    assert worth.judged == Difference(0.0, 0.0, 0.0)
    assert ablation.Row("x", True, {"set": worth}).verdict == "no difference"


def test_only_stages_that_there_are_and_that_search_can_do_without_can_be_switched() -> None:
    for name in ("besides", "fusion", "beside+besides"):
        with pytest.raises(UsageError, match="no stage"):
            ablation.switchable([name])
    assert "fusion" not in ablation.switchable([])
    assert {"beside", "expand+expanded"} <= set(ablation.switchable([]))


# ---- confidence


def test_reliability_sets_what_was_predicted_against_what_was() -> None:
    samples = [Sample("a", (), 0.25, relevant) for relevant in (True, False, False, False)]
    samples += [Sample("a", (), 0.95, relevant) for relevant in (True, False)]
    found = reliability(samples)

    assert [(b.low, b.count, b.predicted, b.actual) for b in found.bins] == [(0.2, 4, 0.25, 0.25), (0.9, 2, 0.95, 0.5)]
    assert found.mean_error == pytest.approx((4 * 0.0 + 2 * 0.45) / 6)


def made_samples(weights: tuple[float, ...], count: int, of: str, seed: int) -> list[Sample]:
    rng = random.Random(seed)
    samples = []
    for _ in range(count):
        features = (1.0, rng.random(), rng.random())
        chance = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, features, strict=True))))
        samples.append(Sample(of, features, chance, rng.random() < chance))
    return samples


def test_a_fit_finds_the_weights_that_made_the_samples() -> None:
    assert fitted(made_samples((-2.0, 3.0, 1.0), 20_000, "a", 1)).tolist() == pytest.approx([-2.0, 3.0, 1.0], abs=0.2)


def test_the_held_out_set_has_no_part_in_its_fit() -> None:
    fits = held_out(made_samples((-2.0, 3.0, 1.0), 4_000, "a", 1) + made_samples((2.0, -3.0, 1.0), 4_000, "b", 2))

    assert fits["a"].weights["late"] < 0 < fits["b"].weights["late"]
    assert fits["a"].mean_error > 0.2
    assert held_out(made_samples((0.0, 0.0, 0.0), 10, "a", 1)) == {}


def test_what_is_recorded_gives_the_confidence_again(app: App, vault: Path) -> None:
    write(vault, NOTES)
    app.build()
    stage = Confidence()
    recorder = Recorder(stage, {})
    pipeline = configured({}).changed(lambda each: recorder if isinstance(each, Confidence) else each)
    results = pipeline(Query("when is the boiler serviced", app.index)).results

    for result in results:
        z = sum(getattr(stage, w) * x for w, x in zip(WEIGHTS, recorder.last[result.chunk_rowid], strict=True))
        assert 1 / (1 + math.exp(-z)) == pytest.approx(result.confidence)
    assert results


# ---- showing


def test_tables_come_for_terminals_and_for_markdown() -> None:
    rows = [["beside", "+0.1"], ["x", "-"]]

    assert show.table(["stage", "R<4k"], rows) == "stage   R<4k\nbeside  +0.1\nx          -"
    assert show.table(["stage", "R<4k"], rows, markdown=True).split("\n")[1] == "| --- | ---: |"


def test_a_plot_draws_each_curve_higher_where_recall_is() -> None:
    drawn = show.plot({"good": {2_000: 0.8, 4_000: 0.9}, "bad": {2_000: 0.1, 4_000: 0.2}})
    rows = drawn.split("\n")

    assert min(at for at, row in enumerate(rows) if "o" in row) < min(at for at, row in enumerate(rows) if "x" in row)
    assert "o good   x bad" in rows[-1]
    assert show.between({2_000: 0.8, 4_000: 0.9}, 3_000) == pytest.approx(0.85)


# ---- the command


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(f): (f.read_bytes() if f.is_file() else b"", f.stat().st_mtime_ns) for f in sorted(folder.rglob("*"))}


def test_bench_prints_a_row_per_set_and_writes_nothing_into_the_folder(environ: dict[str, str], bench: Path) -> None:
    before = contents(bench)
    done = tars(environ, "bench", str(bench.parent), "--categories", "--plot")
    lines = done.stdout.split("\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].split() == "set n R<2k R<4k R<8k R@5 R@10 MRR p50 ms p95 ms AUC".split()
    assert lines[1].split()[:8] == ["set", "3", *["1.000"] * 6]
    assert [line.split()[0] for line in lines[2:6]] == ["food", "home", "trap", "travel"]
    assert "characters" in done.stdout
    assert contents(bench) == before
    assert not list((Path(environ["TARS_HOME"])).rglob("*.db"))


def test_bench_compares_modes_and_gives_json(environ: dict[str, str], bench: Path, tmp_path: Path) -> None:
    flags = ("--mode", "fts", "--mode", "vec", "--json", "--state", str(tmp_path / "state"))
    done = tars(environ, "bench", str(bench), *flags)
    modes = json.loads(done.stdout)["modes"]

    assert list(modes) == ["fts", "vec"]
    assert modes["fts"]["sets"]["case"]["within"]["4000"] == 1.0
    assert len(modes["vec"]["questions"]) == 4
    assert list((tmp_path / "state").rglob("*.db"))


def test_bench_ablates_the_stages_named(environ: dict[str, str], bench: Path) -> None:
    done = tars(environ, "bench", str(bench), "--ablate", "--stages", "beside", "links", "--json")
    stages = json.loads(done.stdout)["stages"]

    assert stages[0]["is_on"] is True
    assert [row["stage"] for row in stages] == ["beside", "links"]
    assert all(-1 <= row["sets"]["case"]["judged"]["mean"] <= 1 for row in stages)


def test_an_ablation_comes_in_markdown_ready_to_paste(environ: dict[str, str], bench: Path) -> None:
    done = tars(environ, "bench", str(bench), "--ablate", "--stages", "beside", "--markdown")

    assert "| `beside` | on | +0.000 [+0.000, +0.000] (+0.000 / +0.000) |" in done.stdout


def test_bench_checks_confidence(environ: dict[str, str], bench: Path) -> None:
    done = tars(environ, "bench", str(bench), "--calibration")

    assert done.stdout.split("\n")[0].split() == ["set", "confidence", "passages", "predicted", "actual"]
    assert "mean error" in done.stdout
    assert "Two sets or more" in done.stdout


def test_bench_asks_the_memory_about_itself(environ: dict[str, str]) -> None:
    done = tars(environ, "bench", "--self", "--memory", str(ROOT / "memory"))

    assert done.returncode == 0
    assert done.stdout.split("\n")[1].startswith("memory")


@pytest.mark.parametrize(
    ("args", "status", "problem"),
    [
        ([], 2, "name the folders to measure"),
        (["nowhere"], 1, "there is no folder"),
        (["notes"], 1, "no questions.jsonl in or below"),
        (["--self"], 3, "there is nothing to ask"),
        (["set", "--stages", "beside"], 2, "add --ablate"),
        (["set", "--ablate", "--stages", "besides"], 2, "no stage 'besides'"),
        (["set", "--ablate", "--plot"], 2, "--plot draws recall"),
    ],
)
def test_bench_says_what_is_wrong(
    environ: dict[str, str], bench: Path, vault: Path, args: list[str], status: int, problem: str
) -> None:
    done = tars(environ, "bench", *args)

    assert done.returncode == status
    assert problem in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(not KIT.exists(), reason="the measuring kit is not there")
def test_the_figures_are_those_of_the_measuring_kit(environ: dict[str, str], bench: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = f"{sys.executable} -m tars"
    subprocess.run([sys.executable, KIT, bench, "--command", command, "--json", out], check=True, capture_output=True)
    theirs = json.loads(out.read_text())["sets"]["set"]
    ours = json.loads(tars(environ, "bench", str(bench), "--json").stdout)["modes"]["hybrid"]["sets"]["case"]

    for budget in (2000, 4000, 8000):
        assert ours["within"][str(budget)] == pytest.approx(theirs["overall"][f"b{budget}"])
    assert ours["mrr"] == pytest.approx(theirs["overall"]["rr"])
    assert ours["auc"] == pytest.approx(theirs["abstention"]["confidence"]["auc"])


# ---- the linked vault


def test_the_linked_vault_is_the_same_each_time_and_its_evidence_is_there(tmp_path: Path) -> None:
    from linked import write_folder

    notes, questions = write_folder(tmp_path / "a")
    write_folder(tmp_path / "b")
    (case,) = find_cases([tmp_path / "a"])
    files = [f.relative_to(tmp_path / "a") for f in sorted((tmp_path / "a").rglob("*")) if f.is_file()]

    assert (notes, questions) == (len(files) - 1, len(case.questions))
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)
    for question in case.questions:
        for span in question.evidence:
            lines = (case.memory / span.path).read_text().split("\n")
            assert lines[span.start_line - 1].strip(), question


def test_the_linked_vault_shows_what_links_are_worth(tmp_path: Path) -> None:
    from linked import write_folder

    write_folder(tmp_path / "linked")
    cases = sample(find_cases([tmp_path / "linked"]), 60, 0)
    config = load({"memory_dir": str(cases[0].memory)}, environ={"TARS_HOME": str(tmp_path / "home")})
    made = run(cases, ablation.ways({}, ["links"], "hybrid"), lambda case: App(config, lives=True))
    (row,) = ablation.worth_of_each(made, {}, ["links"])

    assert row.sets["linked"].judged.low > 0
    assert row.verdict == "pays"
