"""Answers without a model: quotations from real notes, found by the real search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import write
from servers import finish

from tars.app import App
from tars.chat import Message, Text, ToolAnswer
from tars.chat.recall import Passage, Recall, quotable
from tars.conversation import Conversation

SAMPLE = Path(__file__).resolve().parents[1] / "memory"


@pytest.fixture
def recall(make_app: Callable[..., App]) -> Callable[..., str]:
    def ask(question: str, **more: str) -> str:
        app = make_app(TARS_NOW="2026-04-10", **more)
        app.refresh()
        events, _ = finish(Conversation(app, app.provider("recall"), save=False).ask(question))
        return "".join(event.text for event in events if isinstance(event, Text))

    return ask


def test_on_the_sample_memory_the_right_sentence_is_quoted_with_its_line(recall: Callable[..., str]) -> None:
    answer = recall("when is the boiler service due?", TARS_MEMORY_DIR=str(SAMPLE))

    assert answer.startswith("From your notes:\n")
    assert "- “The next service is due **by 14 October 2026**.” (home/Boiler.md:25)" in answer
    for line in answer.splitlines()[2:]:
        path, _, number = line.rpartition("(")[2].rstrip(")").rpartition(":")
        assert line[3:20] in (SAMPLE / path).read_text().splitlines()[int(number) - 1]


def test_the_same_question_has_the_same_answer(recall: Callable[..., str]) -> None:
    answers = {recall("what is Tomasz allergic to?", TARS_MEMORY_DIR=str(SAMPLE)) for _ in range(3)}

    assert len(answers) == 1 and "walnuts" in answers.pop()


def test_what_only_the_title_names_is_found(recall: Callable[..., str]) -> None:
    assert "birthday:: 23 November" in recall("when is Tomasz's birthday?", TARS_MEMORY_DIR=str(SAMPLE))


def test_words_that_were_searched_with_before_are_no_answer(recall: Callable[..., str], vault: Path) -> None:
    write(
        vault,
        {
            "people/Tomasz.md": "# Tomasz\n\n- Ideas for a birthday present: the bone folder.\n",
            "sessions/2026-04-01-tomasz.md": "# Conversation of 1 April\n\n- Tomasz birthday present\n",
        },
    )
    answer = recall("Tomasz birthday present")

    assert "bone folder" in answer and "sessions/" not in answer


def test_quotations_are_in_reading_order_and_each_is_there_once(recall: Callable[..., str], vault: Path) -> None:
    write(
        vault,
        {
            "tea.md": "# Tea\n\nGreen tea is best at 80 degrees.\n\nFiller about nothing much.\n\nGreen tea is best with jasmine.\n",
            "copy.md": "# Copy\n\n- green tea is best at 80 degrees\n",
        },
    )
    lines = recall("how is green tea best?").splitlines()

    places = [line.rpartition("(")[2] for line in lines if line.startswith("- ") and "tea.md" in line]
    assert places == ["tea.md:3)", "tea.md:7)"]
    assert sum("80 degrees" in line for line in lines) == 1


def test_a_list_comes_with_the_sentence_that_announces_it(recall: Callable[..., str], vault: Path) -> None:
    write(vault, {"cake.md": "# Cake\n\nFor the plum cake buy:\n\n- flour\n- plums\n"})
    answer = recall("what should I buy for the plum cake?")

    assert answer.index("buy:") < answer.index("flour") < answer.index("plums” (cake.md:6)")


def test_a_sentence_over_several_lines_is_quoted_whole_with_its_first_line() -> None:
    text = "# T\n\nThe well is deep\nand dry. It is\nold.\n- item one\n  goes on\nkey:: value\n\n(a.md:3, 4)\n```\ncode line\n```"
    found = [(q.line, q.text) for q in quotable([Passage("a.md", 10, text)])]

    assert found == [
        (12, "The well is deep and dry."), (13, "It is old."), (15, "item one goes on"), (17, "key:: value"),
        (21, "code line"),
    ]  # fmt: skip


def test_nothing_found_is_said_with_the_reason(recall: Callable[..., str], vault: Path) -> None:
    write(vault, {"a.md": "# Tea\n\nGreen.\n"})
    answer = recall("xyzzyq")

    assert answer.startswith("Your notes do not seem to say.") and "(" in answer


def test_what_hardly_fits_is_called_the_nearest(recall: Callable[..., str]) -> None:
    answer = recall("what medication do I take?", TARS_MEMORY_DIR=str(SAMPLE))

    assert answer.startswith(("Your notes may not say.", "Your notes do not seem to say."))


def test_what_is_told_is_not_answered_as_if_it_were_asked(recall: Callable[..., str]) -> None:
    known = recall("I like tea", TARS_MEMORY_DIR=str(SAMPLE))
    unknown = recall("I bought a zeppelin.", TARS_MEMORY_DIR=str(SAMPLE))

    assert "Tea, never coffee after noon.” (Memory.md:19)" in known
    assert unknown.startswith(("Your notes say nothing like that.", "Your notes may say nothing about that."))
    assert all("tars remember" in answer for answer in (known, unknown))


def test_a_search_that_failed_is_said() -> None:
    failed = Message("tool", answers=(ToolAnswer("1", "memory_search", '{"error": "the disk is on fire"}', True),))
    _, reply = finish(Recall(lambda q, texts: [0.0 for _ in texts]).stream("", [Message("user", "tea?"), failed], ()))

    assert reply.text == "Your notes could not be searched: the disk is on fire"


def test_without_memory_it_says_that_there_is_nothing_to_quote() -> None:
    _, reply = finish(Recall(lambda q, texts: []).stream("", [Message("user", "tea?")], ()))

    assert "no memory" in reply.text


def test_what_an_answer_cites_counts_as_used_and_what_was_only_found_does_not(
    make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, {"boiler.md": "The boiler is serviced in October.", "other.md": "The boiler room has a door."})
    app = make_app()
    app.refresh()
    finish(Conversation(app, app.provider("recall")).ask("when is the boiler serviced?"))
    hashes = app.store.hashes(app.store.rowid_sets()["chunks"])
    passages = app.store.passages(list(hashes))
    uses = app.access.statistics([(passages[rowid].path, digest) for rowid, digest in hashes.items()]).uses

    assert [path for path, _ in uses] == ["boiler.md"]
