"""/why: what a conversation was shown, and what each stage of the search had to do with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import write
from servers import finish

from tars.app import App
from tars.chat import ToolCall
from tars.conversation import Conversation
from tars.search.query import SearchResult, Step
from tars.tools import Toolbox
from tars.why import Searched, why

LINKED = {
    "boiler.md": "# Boiler\n\nThe boiler is serviced every October; see [[Plumber]].\n",
    "Plumber.md": "# Vera\n\nReach her in the morning, on 555-0134, about the boiler.\n",
    "tea.md": "# Tea\n\nGreen tea in the morning, while the boiler is serviced.\n",
}


def passage(rowid: int, *trace: Step) -> SearchResult:
    ranks = {"words": (rowid, 9.0), "vectors": (2, 0.5)}
    return SearchResult("", 0.5, f"{rowid}.md", "", "note", 1, 3, rowid, ranks=ranks, confidence=0.42, trace=trace)


def conversation_about(app: App, question: str) -> Conversation:
    conversation = Conversation(app, app.provider("recall"), save=False)
    finish(conversation.ask(question))
    return conversation


def linked_app(make_app: Callable[..., App], vault: Path) -> App:
    write(vault, LINKED)
    app = make_app(lives=True)
    app.refresh()
    return app


def test_a_passage_says_which_lists_found_it_and_what_moved_it() -> None:
    raised, passed = Step("links", 4, 2, 0.5, 0.7), Step("recency", 2, 3, 0.7, 0.7)
    text = why([Searched("tea?", (passage(1, raised, passed),), first=True)])

    assert "1. **1.md:1-3** 42 % likely" in text
    assert "words 1st, meaning 2nd; raised by linked notes (4 → 2); passed by newer ones (2 → 3)" in text


def test_many_passages_are_folded_and_all_unfolds_them() -> None:
    searched = Searched("tea?", tuple(map(passage, range(1, 9))), first=True)

    assert "**5.md:1-3**" in why([searched]) and "**6.md:1-3**" not in why([searched])
    assert "Also shown: 6. 6.md:1-3, 7. 7.md:1-3, 8. 8.md:1-3" in why([searched])
    assert "**8.md:1-3**" in why([searched], which="all") and "Also shown" not in why([searched], which="all")


def test_a_passage_shown_twice_is_told_once() -> None:
    text = why([Searched("tea?", (passage(1), passage(2)), first=True), Searched("green", (passage(2), passage(3)))])

    assert text.count("**2.md:1-3**") == 1
    assert "For the last search of memory, “green”:" in text
    assert "3. **3.md:1-3**" in text and "Shown again: 2" in text


def test_a_long_question_is_shortened() -> None:
    assert len(why([Searched("tea " * 500, (passage(1),), first=True)])) < 400


def test_a_number_tells_every_step_and_a_wrong_one_which_there_are() -> None:
    searched = Searched(
        "tea?", (passage(1, Step("links", 4, 2, 0.5, 0.7, ("place 4 → 2",))),), (Step("times", did=("windows May",)),)
    )

    assert "- links: place 4 → 2" in why([searched], which="1")
    assert "- times: windows May" in why([searched], which="1")
    assert "from 1 to 1" in why([searched], which="7") and "from 1 to 1" in why([searched], which="x")


def test_a_conversation_tells_of_its_prompt_and_of_the_stage_that_brought_a_note_in(
    make_app: Callable[..., App], vault: Path
) -> None:
    conversation = conversation_about(linked_app(make_app, vault), "when is the boiler serviced?")

    text = conversation.why()
    assert "For your first message, “when is the boiler serviced?”" in text
    assert "**boiler.md:1-3**" in text and "words 1st" in text
    assert "linked notes" in text


def test_the_trace_is_that_of_the_search_itself(make_app: Callable[..., App], vault: Path) -> None:
    app = linked_app(make_app, vault)
    conversation = conversation_about(app, "when is the boiler serviced?")
    before = conversation.why("1")
    write(vault, {"boiler.md": "Gone.\n"})
    app.refresh()

    assert conversation.why("1") == before
    assert "fusion: place" in before


def test_the_last_search_of_the_model_is_told_after_the_first_message(
    make_app: Callable[..., App], vault: Path
) -> None:
    conversation = conversation_about(linked_app(make_app, vault), "when is the boiler serviced?")
    assert conversation.talk
    tools = conversation.talk.tools
    assert isinstance(tools, Toolbox)
    for number, query in enumerate(("green tea", "Vera in the morning")):
        tools.answer(ToolCall(str(number), "memory_search", {"query": query}))

    assert "“Vera in the morning”" in conversation.why() and "“green tea”" not in conversation.why()


def test_results_from_the_cache_have_their_trace_too(make_app: Callable[..., App], vault: Path) -> None:
    app = linked_app(make_app, vault)
    plain = app.search("boiler").results
    first, again = (app.search("boiler", explain=True).results for _ in range(2))

    assert not plain[0].trace
    assert first[0].trace and again[0].trace == first[0].trace
    assert len(app.cache) == 2
