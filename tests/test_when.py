"""The times a question names: what each expression means on Tuesday 14 October 2025, and what is no time at all."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tars.search.when import STARTS, Window, easter, find_windows

NOW = date(2025, 10, 14)


def shown(window: Window) -> str:
    """A window as text: "2025-06-01/…", "about" if it may only boost, "every" with its days in 2025 if it comes back."""
    if window.yearly:
        start, end = window.yearly.in_year(2025)
        return f"every {start:%m-%d}/{end:%m-%d}"
    return f"{'' if window.exact else 'about '}{window.start or '…'}/{window.end or '…'}"


def meant(text: str, now: date = NOW) -> list[str]:
    return [shown(window) for window in find_windows(text, now)]


MEANINGS = {
    # dates in figures
    "2025-06-03": "2025-06-03/2025-06-03",
    "(2025-08-21)": "2025-08-21/2025-08-21",
    "2025/6/3": "2025-06-03/2025-06-03",
    "log of 2025-06-03T10:00": "2025-06-03/2025-06-03",
    "03.06.2025": "2025-06-03/2025-06-03",
    "22/10/2024": "2024-10-22/2024-10-22",
    "10/22/2024": "2024-10-22/2024-10-22",
    "05/05/2024": "2024-05-05/2024-05-05",
    "2025-06": "2025-06-01/2025-06-30",
    "2025": "2025-01-01/2025-12-31",
    "my goals in 2024": "2024-01-01/2024-12-31",
    "the 2024 review": "2024-01-01/2024-12-31",
    # days and months in words
    "on 3 May": "every 05-03/05-03",
    "on May 3rd": "every 05-03/05-03",
    "on may 3": "every 05-03/05-03",
    "the 3rd of May 2024": "2024-05-03/2024-05-03",
    "May 3, 2024": "2024-05-03/2024-05-03",
    "May 3,2024": "2024-05-03/2024-05-03",
    "on 7 March, 2024": "2024-03-07/2024-03-07",
    "the fourth of July": "every 07-04/07-04",
    "Saturday 8 June 2024": "2024-06-08/2024-06-08",
    "on Tues., March 4": "every 03-04/03-04",
    "29 February": "every 02-28/02-28",
    "January 2025": "2025-01-01/2025-01-31",
    "Jan '25": "2025-01-01/2025-01-31",
    "Jan ’98": "1998-01-01/1998-01-31",
    "in March": "every 03-01/03-31",
    "in march": "every 03-01/03-31",
    "IN MAY": "every 05-01/05-31",
    "the June report": "every 06-01/06-30",
    "the plans for August": "every 08-01/08-31",
    "Sept 2024": "2024-09-01/2024-09-30",
    "Sep. 3": "every 09-03/09-03",
    "March of last year": "2024-03-01/2024-03-31",
    # quarters, seasons, feasts
    "Q3 2024": "2024-07-01/2024-09-30",
    "2024 Q3": "2024-07-01/2024-09-30",
    "the second quarter": "every 04-01/06-30",
    "the 2nd quarter of 2024": "2024-04-01/2024-06-30",
    "summer 2024": "2024-06-01/2024-08-31",
    "the summer of 2024": "2024-06-01/2024-08-31",
    "winter": "every 12-01/02-28",
    "winter 2023": "about 2023-12-01/2024-02-29",
    "in the fall": "every 09-01/11-30",
    "in autumn": "every 09-01/11-30",
    "Christmas": "every 12-24/12-26",
    "Christmas 2024": "2024-12-24/2024-12-26",
    "New Year's Eve": "every 12-31/12-31",
    "New Year’s Day": "every 01-01/01-01",
    "Valentine's Day": "every 02-14/02-14",
    "Halloween last year": "2024-10-31/2024-10-31",
    "Easter": "every 04-18/04-21",
    "Easter 2024": "2024-03-29/2024-04-01",
    "Thanksgiving 2024": "2024-11-28/2024-12-01",
    # parts
    "early January": "every 01-01/01-13",
    "mid-January": "every 01-08/01-24",
    "mid January 2025": "2025-01-08/2025-01-24",
    "late February": "every 02-19/02-28",
    "mid-to-late March": "every 03-08/03-31",
    "the beginning of March": "every 03-01/03-11",
    "the middle of March": "every 03-08/03-24",
    "the end of March": "every 03-21/03-31",
    "the first week of May": "every 05-01/05-10",
    "the second week of May": "every 05-05/05-17",
    "the last week of May 2024": "2024-05-22/2024-05-31",
    "the first three days of May": "every 05-01/05-03",
    "the first Monday in May": "every 05-05/05-05",
    "the last weekend of March 2024": "2024-03-30/2024-03-31",
    "the first half of 2024": "2024-01-01/2024-06-30",
    "the second half of the year": "every 07-01/12-31",
    "mid-2024": "2024-04-29/2024-09-03",
    "early 2024": "2024-01-01/2024-05-03",
    "the end of last month": "2025-09-21/2025-09-30",
    "early last week": "2025-10-06/2025-10-08",
    # counted from now
    "today": "2025-10-14/2025-10-14",
    "yesterday": "2025-10-13/2025-10-13",
    "tomorrow": "2025-10-15/2025-10-15",
    "the day before yesterday": "2025-10-12/2025-10-12",
    "last night": "2025-10-13/2025-10-14",
    "this morning": "2025-10-14/2025-10-14",
    "last week": "2025-10-06/2025-10-12",
    "this week": "2025-10-13/2025-10-19",
    "next week": "2025-10-20/2025-10-26",
    "the week before last": "2025-09-29/2025-10-05",
    "last month": "2025-09-01/2025-09-30",
    "this month": "2025-10-01/2025-10-31",
    "last year": "2024-01-01/2024-12-31",
    "this year": "2025-01-01/2025-12-31",
    "last quarter": "2025-07-01/2025-09-30",
    "two days ago": "2025-10-12/2025-10-12",
    "a couple of days ago": "2025-10-11/2025-10-12",
    "a few days ago": "2025-10-09/2025-10-12",
    "two weeks ago": "2025-09-27/2025-10-03",
    "3 months ago": "2025-06-30/2025-07-30",
    "a year ago": "2024-04-15/2025-04-14",
    "in two weeks' time or two weeks from now": "2025-10-25/2025-10-31",
    "last Monday": "2025-10-13/2025-10-13",
    "last Tuesday": "2025-10-07/2025-10-07",
    "next Tuesday": "2025-10-21/2025-10-21",
    "this Friday": "2025-10-17/2025-10-17",
    "on Tuesday": "about 2025-10-14/2025-10-14",
    "on Wednesday": "about 2025-10-08/2025-10-08",
    "on Sat": "about 2025-10-11/2025-10-11",
    "this weekend": "2025-10-18/2025-10-19",
    "last weekend": "2025-10-11/2025-10-12",
    "at the weekend": "about 2025-10-11/2025-10-12",
    "in the past 10 days": "2025-10-04/2025-10-14",
    "over the last two months": "2025-08-14/2025-10-14",
    "over the past week": "2025-10-07/2025-10-14",
    "recently": "about 2025-09-14/2025-10-14",
    "lately": "about 2025-09-14/2025-10-14",
    "the other day": "about 2025-10-07/2025-10-13",
    "earlier this month": "2025-10-01/2025-10-14",
    "later this week": "2025-10-14/2025-10-19",
    "last March": "2025-03-01/2025-03-31",
    "last October": "2024-10-01/2024-10-31",
    "this October": "2025-10-01/2025-10-31",
    "next March": "2026-03-01/2026-03-31",
    "last summer": "2025-06-01/2025-08-31",
    "last Christmas": "2024-12-24/2024-12-26",
    # counted from another time
    "two days before Christmas": "every 12-23/12-23",
    "two days before Christmas 2024": "2024-12-23/2024-12-23",
    "the day after Thanksgiving": "every 11-28/11-28",
    "the week after Easter": "every 04-21/04-27",
    "a week before 10 May 2024": "2024-04-30/2024-05-06",
    "the weekend before May 16, 2024": "2024-05-11/2024-05-12",
    "the Sunday before June 5, 2024": "2024-06-02/2024-06-02",
    "the week of 12 May": "every 05-12/05-18",
    # bounds and ranges
    "between March and May": "every 03-01/05-31",
    "from 3 to 10 May": "every 05-03/05-10",
    "3-10 May 2024": "2024-05-03/2024-05-10",
    "May 3–10": "every 05-03/05-10",
    "May 3 to 10, 2024": "2024-05-03/2024-05-10",
    "from May 28 to June 3": "every 05-28/06-03",
    "late December to early January": "every 12-19/01-13",
    "from January to March 2025": "2025-01-01/2025-03-31",
    "from November to January 2025": "2024-11-01/2025-01-31",
    "2025-01-03 to 2025-01-09": "2025-01-03/2025-01-09",
    "2023-2024": "2023-01-01/2024-12-31",
    "from last Monday to today": "2025-10-13/2025-10-14",
    "from March until now": "2025-03-01/2025-10-14",
    "since March": "about 2025-03-01/…",
    "since 2025-06": "2025-06-01/…",
    "since last week": "2025-10-06/…",
    "from June 2025 onwards": "2025-06-01/…",
    "until April": "about …/2025-04-30",
    "before June 2024": "…/2024-05-31",
    "after 2024-02-01": "2024-02-02/…",
    "by the end of May 2025": "…/2025-05-31",
    "before may": "every 04-01/05-31",
    "since Friday": "about 2025-10-10/…",
    "before Christmas": "every 11-25/12-26",
    "after Easter": "every 04-18/05-20",
    "after yesterday's talk": "2025-10-13/2025-10-13",
}


@pytest.mark.parametrize(("text", "meaning"), MEANINGS.items())
def test_an_expression_means_its_window(text: str, meaning: str) -> None:
    assert meant(text) == [meaning]
    assert meant(f"What did I write about tea, {text}?") == [meaning]


@pytest.mark.parametrize(
    "text",
    [
        "may I ask", "May I ask you something?", "you may go", "may 3 people come?", "May Smith", "a gift for May Smith", "written by May Smith",
        "march on", "they march 3 miles", "the march of progress", "an august body", "August Wilson", "What did June say?",
        "in the sun", "mon ami", "he sat down", "we wed", "a fall from grace", "the hot spring", "the Spring Festival", "the Mid-Autumn Festival", "Chinese New Year",
        "Summer Palace", "Friday's restaurant", "on Friday's menu", "classes on Fridays", "weekend plans",
        "the second one", "first things first", "a second opinion", "in 3 minutes", "an hour ago", "how long ago",
        "how many days ago", "the last day of the course", "on Wednesday evenings", "a week later", "the next day", "the following week", "the next week", "the last chapter",
        "the end of the road", "early morning", "late again", "the end of the month", "early bird",
        "version 2025.1", "release 2025.1.3", "about 2000 people", "2000 people in 3 rooms", "$2000", "room 2024b",
        "+44 20 7946 2025", "555-2025", "1,999", "10:30", "31/31/2024", "03/05/2024", "2025-13-01", "2025-02-30",
        "1 in 10", "last but not least", "this one", "next to the door", "before dinner", "after the party", "by bus",
        "since he left", "from top to bottom", "between us", "one day", "a good year", "new shoes", "mother of two", "",
    ],
)  # fmt: skip
def test_what_is_no_time_gives_no_window(text: str) -> None:
    assert meant(text) == []


def test_several_times_are_several_windows_in_order() -> None:
    question = "How did May 6, May 8 and the end of May 2024 differ from last week?"
    windows = find_windows(question, NOW)

    assert [window.text for window in windows] == ["May 6", "May 8", "the end of May 2024", "last week"]
    assert all(question[slice(*window.span)] == window.text for window in windows)


def test_a_year_after_a_list_belongs_to_all_of_it() -> None:
    assert meant("in January and February 2025") == ["2025-01-01/2025-01-31", "2025-02-01/2025-02-28"]
    assert meant("January versus February 2025")[0] == "every 01-01/01-31"
    assert meant("January and May") == ["every 01-01/01-31", "every 05-01/05-31"]
    assert meant("on May 6, May 8, and May 21, 2024")[0] == "2024-05-06/2024-05-06"


def test_recently_counts_from_now_only_if_no_other_time_is_named() -> None:
    assert meant("What had recently happened in March?") == ["every 03-01/03-31"]
    assert meant("What do I do on Wednesday in January?") == ["every 01-01/01-31"]


def test_a_weekday_may_be_followed_by_anything_but_a_plural() -> None:
    assert meant("what I said on Tuesday was wrong") == meant("On Tuesday Maria called") == meant("on Tuesday")


def test_a_window_knows_how_far_a_day_is_from_it() -> None:
    [march], [since] = find_windows("in March", NOW), find_windows("since 2025-06", NOW)

    assert [march.days_from(day) for day in (date(2024, 3, 9), date(2024, 2, 27), date(2023, 4, 2))] == [0, 3, 2]
    assert [since.days_from(day) for day in (date(2026, 1, 1), date(2025, 5, 30))] == [0, 2]


def test_a_window_without_a_year_contains_its_days_in_any_year_and_does_not_filter() -> None:
    [winter] = find_windows("winter", NOW)
    [easter_week] = find_windows("the week after Easter", NOW)

    assert winter.recurring and not winter.exact
    assert all(winter.contains(day) for day in (date(2019, 12, 1), date(2020, 1, 15), date(2020, 2, 29)))
    assert not winter.contains(date(2020, 3, 1))
    assert easter_week.contains(date(2024, 4, 3)) and not easter_week.contains(date(2025, 4, 3))


def test_an_open_window_contains_all_that_lies_beyond_its_bound() -> None:
    [since] = find_windows("since 2025-06", NOW)

    assert since.contains(date(2025, 6, 1)) and since.contains(date.max)
    assert not since.contains(date(2025, 5, 31))


def test_relative_times_follow_the_clock() -> None:
    assert meant("yesterday", date(2024, 3, 1)) == ["2024-02-29/2024-02-29"]
    assert meant("last month", date(2024, 1, 15)) == ["2023-12-01/2023-12-31"]
    assert meant("this winter", date(2024, 1, 15)) == ["about 2023-12-01/2024-02-29"]
    assert meant("last quarter", date(2024, 2, 15)) == ["2023-10-01/2023-12-31"]
    assert meant("at the weekend", date(2025, 10, 12)) == ["about 2025-10-11/2025-10-12"]


@pytest.mark.parametrize("day", ["1961-04-02", "2000-04-23", "2019-04-21", "2024-03-31", "2025-04-20", "2038-04-25"])
def test_easter_is_when_it_is(day: str) -> None:
    assert easter(int(day[:4])) == date.fromisoformat(day)


WORDS = st.sampled_from(
    [*sorted(STARTS), "of", "and", "to", "in", "on", "ago", "-", "–", ",", "'s", "’25", "half", "eve", "May", "quarter"]
)
NUMBERS = st.one_of(st.integers(0, 40), st.integers(1890, 2110), st.integers()).map(str)
DATES = st.dates().map(date.isoformat)
QUESTIONS = st.one_of(st.text(), st.lists(st.one_of(WORDS, NUMBERS, DATES), max_size=12).map(" ".join))


@settings(max_examples=400, deadline=None)
@given(QUESTIONS, st.dates(), st.dates())
def test_any_text_at_any_time_gives_windows_in_order_that_hold_their_own_days(text: str, now: date, day: date) -> None:
    windows = find_windows(text, now)

    assert windows == find_windows(text, now)
    ends = [0] + [window.span[1] for window in windows]
    assert all(end <= window.span[0] < window.span[1] for end, window in zip(ends, windows, strict=False))
    for window in windows:
        assert window.text == text[slice(*window.span)]
        assert not (window.exact and window.recurring)
        assert isinstance(window.contains(day), bool)
        assert not window.start or not window.end or window.start <= window.end
        assert window.start is None or window.contains(window.start)
        assert window.end is None or window.contains(window.end)


@pytest.mark.parametrize("now", [date.min, date.max, date(2024, 2, 29)])
def test_no_clock_is_too_early_or_too_late(now: date) -> None:
    for text in MEANINGS:
        for window in find_windows(text, now):
            assert window.contains(now) in (True, False)


@pytest.mark.parametrize(
    "piece",
    ["9", "1-", "the a ", "2025-", "last ", "the day before ", "the end of the beginning of ", "from May to ", "between 3 and ",
     "early to mid ", "May 3, ", "a ", "'s", "first week of ", "New Year "],
)  # fmt: skip
def test_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    def calls(length: int) -> int:
        """Calls are counted, not seconds: the machine may be busy."""
        counted = Counter[str]()
        sys.setprofile(lambda frame, event, arg: counted.update([event]))
        try:
            find_windows((piece * length)[:length], NOW)
        finally:
            sys.setprofile(None)
        return counted.total()

    assert calls(20_000) < 15 * calls(2_000)


def test_a_day_is_in_the_window_of_its_own_date_written_out() -> None:
    for days in range(0, 800, 7):
        day = NOW - timedelta(days)
        written = (f"{day}", f"{day:%d.%m.%Y}", f"{day.day} {day:%B %Y}", f"{day:%b} {day.day}, {day.year}")

        for text in written:
            assert [(w.start, w.end, w.exact) for w in find_windows(text, NOW)] == [(day, day, True)], text
