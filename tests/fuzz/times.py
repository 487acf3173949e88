"""Times in English: any text with any clock, and expressions whose days are worked out here in another way."""

from __future__ import annotations

import calendar
from datetime import date, timedelta

from hypothesis import strategies as st

from tars.search.when import STARTS, find_windows

DAY = timedelta(1)
MONTHS = [calendar.month_name[number] for number in range(1, 13)]
WEEKDAYS = list(calendar.day_name)
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()

WORDS = st.sampled_from(
    [
        *sorted(STARTS),
        *"of and to in on ago - – , 's ’25 '99 half eve May quarter now week day months 2024 31 3rd 29".split(),
    ]
)
TEXTS = st.one_of(
    st.lists(st.one_of(WORDS, st.integers(0, 2200).map(str), st.dates().map(str)), max_size=14).map(" ".join),
    st.text(max_size=60),
)
CLOCKS = st.one_of(
    st.dates(),
    st.sampled_from([date.min, date.max, date(2024, 2, 29), date(1900, 2, 28), date(2025, 3, 30), date(1, 1, 2)]),
)
QUESTIONS = st.tuples(TEXTS, CLOCKS)

Meaning = tuple[str, date | None, date | None]  # the words, the first day and the last


def time_holds(given: tuple[str, date]) -> None:
    """Windows stand in order, begin before they end, hold their own days, and are the same when asked again."""
    text, now = given
    windows = find_windows(text, now)

    assert windows == find_windows(text, now)
    at = 0
    for window in windows:
        assert at <= window.span[0] < window.span[1] <= len(text)
        at = window.span[1]
        assert window.text == text[slice(*window.span)]
        assert not (window.exact and window.recurring)
        for day in (now, date.min, date.max, window.start, window.end):
            assert window.days_from(day or now) >= 0
        assert not window.start or not window.end or window.start <= window.end
        assert all(window.contains(day) for day in (window.start, window.end) if day)


# ---- what expressions mean, reckoned without the grammar

NOWS = st.dates(date(1950, 1, 1), date(2080, 12, 31))
DAYS = st.dates(date(1950, 1, 1), date(2080, 12, 31))
COUNT = st.integers(1, 12)


def written(day: date) -> st.SearchStrategy[str]:
    """A day as people write it, always with its year."""
    ordinal = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    month = MONTHS[day.month - 1]
    forms = [
        f"{day}",
        f"{day:%d.%m.%Y}",
        f"{day:%Y/%m/%d}",
        f"{day.day} {month} {day.year}",
        f"{day.day}{ordinal} of {month} {day.year}",
        f"the {day.day}{ordinal} of {month}, {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{month} {day.day}{ordinal} {day.year}",
        f"{day:%b} {day.day} {day.year}",
        f"{WEEKDAYS[day.weekday()]}, {day.day} {month} {day.year}",
    ]
    return st.sampled_from(forms)


def month_of(day: date) -> tuple[date, date]:
    return day.replace(day=1), day.replace(day=calendar.monthrange(day.year, day.month)[1])


def months_on(day: date, count: int) -> date:
    """The first of a month so many months on, a step at a time."""
    day = day.replace(day=1)
    for _ in range(abs(count)):
        day = (day + 31 * DAY if count > 0 else day - DAY).replace(day=1)
    return day


@st.composite
def meanings(draw: st.DrawFn) -> tuple[date, Meaning]:
    now, day, count = draw(NOWS), draw(DAYS), draw(COUNT)
    number = draw(st.sampled_from([str(count), NUMBERS[count - 1]]))
    step, which = draw(st.sampled_from([(-1, "last"), (0, "this"), (1, "next")]))
    monday = now - now.weekday() * DAY + 7 * step * DAY
    month = months_on(now, step)
    weekday = draw(st.integers(0, 6))
    past = next(now - n * DAY for n in range(1, 8) if (now - n * DAY).weekday() == weekday)
    coming = next(now + n * DAY for n in range(1, 8) if (now + n * DAY).weekday() == weekday)
    other = max(day, day + draw(st.integers(1, 500)) * DAY)
    said, then = draw(written(day)), draw(written(other))
    plural = "s" if count > 1 else ""
    christmas = date(day.year, 12, 25)
    season, first = draw(st.sampled_from([("spring", 3), ("summer", 6), ("autumn", 9), ("fall", 9)]))
    quarter = draw(st.integers(1, 4))
    year = day.year
    return now, draw(
        st.sampled_from(
            [
                (f"on {said}", day, day),
                (f"since {said}", day, None),
                (f"until {said}", None, day),
                (f"before {said}", None, day - DAY),
                (f"after {said}", day + DAY, None),
                (f"from {said} to {then}", day, other),
                (f"between {said} and {then}", day, other),
                (f"{which} week", monday, monday + 6 * DAY),
                (f"{which} weekend", monday + 5 * DAY, monday + 6 * DAY),
                (f"{which} month", *month_of(month)),
                (f"{which} year", date(now.year + step, 1, 1), date(now.year + step, 12, 31)),
                (f"last {WEEKDAYS[weekday]}", past, past),
                (f"next {WEEKDAYS[weekday]}", coming, coming),
                ("yesterday", now - DAY, now - DAY),
                ("today", now, now),
                ("tomorrow", now + DAY, now + DAY),
                ("the day before yesterday", now - 2 * DAY, now - 2 * DAY),
                (f"{number} day{plural} ago", now - count * DAY, now - count * DAY),
                (f"{number} day{plural} from now", now + count * DAY, now + count * DAY),
                (f"{number} week{plural} ago", now - (7 * count + 3) * DAY, now - (7 * count - 3) * DAY),
                (f"the past {number} day{plural}", now - count * DAY, now),
                (f"in {MONTHS[day.month - 1]} {year}", *month_of(day)),
                (f"{MONTHS[day.month - 1]} of {year}", *month_of(day)),
                (f"in {year}-{day.month:02}", *month_of(day)),
                (f"since {MONTHS[day.month - 1]} {year}", month_of(day)[0], None),
                (f"during {year}", date(year, 1, 1), date(year, 12, 31)),
                (f"in {season} {year}", date(year, first, 1), date(year, first + 2, 30 if first in (9,) else 31)),
                (f"Q{quarter} {year}", date(year, 3 * quarter - 2, 1), month_of(date(year, 3 * quarter, 1))[1]),
                (f"{number} day{plural} before Christmas {year}", christmas - count * DAY, christmas - count * DAY),
                (f"{number} day{plural} after Christmas Day {year}", christmas + count * DAY, christmas + count * DAY),
                (f"on Boxing Day {year}", christmas + DAY, christmas + DAY),
                (f"the week after {said}", day + DAY, day + 7 * DAY),
                (f"the week before {said}", day - 7 * DAY, day - DAY),
            ]
        )
    )


SENTENCES = st.sampled_from(
    ["{}", "What did I read {}?", "{} I met Ada", "notes on the boiler ({})", "Who came {}, and why?"]
)
EXPRESSIONS = st.tuples(meanings(), SENTENCES)


def expression_holds(given: tuple[tuple[date, Meaning], str]) -> None:
    """An expression means the days that a calendar on the wall says, wherever it stands."""
    (now, (words, start, end)), sentence = given
    windows = find_windows(sentence.format(words), now)

    assert [(window.start, window.end) for window in windows] == [(start, end)], (sentence.format(words), now, windows)
