"""Windows: the days that a question names, with the words they came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date

from tars.search.when.grammar import Grammar, Token, read
from tars.search.when.periods import Days, Period, Yearly, days_outside
from tars.search.when.vocabulary import LISTING


@dataclass(frozen=True, slots=True)
class Window:
    """Days that a question names. Only an `exact` one may filter; one that is `yearly` means any year."""

    start: date | None  # inclusive; None is open, or not known because it comes back every year
    end: date | None
    exact: bool
    yearly: Yearly | None = field(default=None, kw_only=True)
    text: str = field(default="", kw_only=True)  # the words it came from
    span: tuple[int, int] = field(default=(0, 0), kw_only=True)  # where they stand in the question

    @property
    def recurring(self) -> bool:
        return self.yearly is not None

    def contains(self, day: date) -> bool:
        return self.days_from(day) == 0

    def days_from(self, day: date) -> int:
        """How many days outside; what was done on a day is often written down on the next."""
        if self.yearly:
            return self.yearly.days_from(day)
        return days_outside(day, self.start or date.min, self.end or date.max)


def find_windows(text: str, now: date) -> tuple[Window, ...]:
    """The times that the text names, in order; where they overlap, the longest.

    >>> [(w.text, w.start, w.end) for w in find_windows("What did I read since June 2025?", date(2025, 10, 14))]
    [('since June 2025', datetime.date(2025, 6, 1), None)]
    """
    tokens = read(text)
    found = list(Grammar(tokens, now).periods())
    found = [each for each in found if not is_vague(each[0])] or found
    return tuple(
        window_of(period, text, (tokens[at].start, tokens[after - 1].end))
        for period, at, after in share_years(found, tokens)
    )


def is_vague(period: Period) -> bool:
    """Is it "recently", "on Tuesday" or the like, which count from now only if no other time is named?"""
    return isinstance(period, Days) and not period.sure and period.start is not None and period.end is not None


def window_of(period: Period, text: str, span: tuple[int, int]) -> Window:
    words = text[slice(*span)]
    if isinstance(period, Days):
        return Window(period.start, period.end, period.sure, text=words, span=span)
    if period.year is None:
        return Window(None, None, False, yearly=period, text=words, span=span)
    start, end = period.in_year(period.year)
    one_reading = start.year == end.year  # "winter 2024" begins or ends in 2024
    return Window(start, end, one_reading, text=words, span=span)


def share_years(found: list[tuple[Period, int, int]], tokens: list[Token]) -> list[tuple[Period, int, int]]:
    """ "January and February 2025": the year belongs to both."""
    shared = found[-1:]
    for period, at, after in reversed(found[:-1]):
        following, start, _ = shared[0]
        if (
            isinstance(period, Yearly)
            and isinstance(following, Yearly)
            and period.year is None
            and 0 < start - after <= 2
            and all(token.word in LISTING for token in tokens[after:start])
        ):
            period = replace(period, year=following.year)
        shared.insert(0, (period, at, after))
    return shared
