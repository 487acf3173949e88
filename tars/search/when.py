"""The times that an English question names, as windows of days; it knows the clock it is given and no notes.

A small grammar read from left to right: words, then points ("3 May", "last week", "mid-January", "two days before
Christmas"), then bounds and ranges of points ("since March", "from 3 to 10 May"). A month, season, feast or day
without a year is a `Yearly` and stays one: it means any year. Everything else becomes days of the calendar.

What is left to choose, and what was chosen:

- Weeks run from Monday to Sunday, seasons are whole months of the northern half, winter begins in December.
- "Early", "mid" and "late" are thirds, "beginning" and "end" quarters, each with `SLACK` days more.
- "Two weeks ago" is that day, give or take half of the unit; a weekday without more is the nearest past one.
- "Before" and "after" a time without a year mean the `NEAR` days beside it; "since" and "until" mean the latest one.
- 03/05/2024 has two readings and is no date here; 22/10/2024 and 03.05.2024 have one.
- Words that are also names or verbs (may, march, june, spring, sun, …) need a word or number beside them that
  makes them a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import NamedTuple

SLACK = 3  # days that the thirds and quarters of a period and the weeks of a month reach into their neighbours
NEAR = 30  # days that "before Easter", "after Easter" and "recently" reach
DEPTH = 3  # "the day before the day before the day before …" ends somewhere

MONTHS = {
    name: number
    for number, names in enumerate(
        """january jan, february feb, march mar, april apr, may, june jun, july jul, august aug,
        september sept sep, october oct, november nov, december dec""".split(","),
        start=1,
    )
    for name in names.split()
}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # the first of their three months
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        """monday mon, tuesday tue tues, wednesday wed, thursday thu thur thurs, friday fri, saturday sat,
        sunday sun""".split(",")
    )
    for name in names.split()
}
SURE = frozenset(  # these mean a time whatever stands beside them
    "january february july september october november december summer autumn winter".split()
)
ALSO_WORDS = frozenset("may march august mar dec jan spring fall mon wed sat sun".split())  # in small letters

UNITS = {"day": 1.0, "night": 1.0, "week": 7.0, "fortnight": 14.0, "month": 30.44, "year": 365.25}  # in days
HALF = {"week": 3, "fortnight": 5, "month": 15, "year": 182}  # what "two … ago" may be off by
COUNTS = {"a": (1, 1), "an": (1, 1), "couple": (2, 3), "few": (2, 5), "several": (3, 7)} | {
    word: (number, number)
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
ORDINALS = {
    word: number
    for number, words in enumerate(
        """first, second, third, fourth, fifth, sixth, seventh, eighth, ninth, tenth, eleventh, twelfth""".split(","),
        start=1,
    )
    for word in words.split()
} | {"last": -1, "final": -1}

PARTS = {  # of a period: from, to, and the days it may be off by
    "early": (0, 1 / 3, SLACK),
    "mid": (1 / 3, 2 / 3, SLACK),
    "middle": (1 / 3, 2 / 3, SLACK),
    "late": (2 / 3, 1, SLACK),
    "beginning": (0, 1 / 4, SLACK),
    "start": (0, 1 / 4, SLACK),
    "end": (3 / 4, 1, SLACK),
    "first half": (0, 1 / 2, 0),
    "second half": (1 / 2, 1, 0),
    "latter half": (1 / 2, 1, 0),
}
ADJECTIVES = frozenset(("early", "mid", "late"))  # "early March"; the others are "the end of March"

Origin = tuple[int, ...] | str  # (month, day), (month, weekday, which of them) or "easter"

FEASTS: dict[str, tuple[Origin, int, int]] = {  # the day, and the days from and to which its window reaches
    "christmas": ((12, 25), -1, 1),
    "xmas": ((12, 25), -1, 1),
    "christmas eve": ((12, 24), 0, 0),
    "christmas day": ((12, 25), 0, 0),
    "boxing day": ((12, 26), 0, 0),
    "new year": ((1, 1), -1, 1),
    "new years": ((1, 1), -1, 1),
    "new year's": ((1, 1), -1, 1),
    "new years eve": ((12, 31), 0, 0),
    "new year's eve": ((12, 31), 0, 0),
    "new years day": ((1, 1), 0, 0),
    "new year's day": ((1, 1), 0, 0),
    "valentine's": ((2, 14), 0, 0),
    "valentines day": ((2, 14), 0, 0),
    "valentine's day": ((2, 14), 0, 0),
    "st patrick's day": ((3, 17), 0, 0),
    "april fools day": ((4, 1), 0, 0),
    "april fool's day": ((4, 1), 0, 0),
    "qingming": ((4, 5), -1, 1),
    "qingming festival": ((4, 5), -1, 1),
    "may day": ((5, 1), 0, 0),
    "mother's day": ((5, 6, 2), 0, 0),
    "memorial day": ((5, 0, -1), 0, 0),
    "father's day": ((6, 6, 3), 0, 0),
    "juneteenth": ((6, 19), 0, 0),
    "independence day": ((7, 4), 0, 0),
    "labor day": ((9, 0, 1), 0, 0),
    "halloween": ((10, 31), 0, 0),
    "veterans day": ((11, 11), 0, 0),
    "bonfire night": ((11, 5), 0, 0),
    "thanksgiving": ((11, 3, 4), 0, 3),
    "thanksgiving day": ((11, 3, 4), 0, 0),
    "black friday": ((11, 3, 4), 1, 1),
    "good friday": ("easter", -2, -2),
    "easter": ("easter", -2, 1),
    "easter sunday": ("easter", 0, 0),
    "easter monday": ("easter", 1, 1),
}
LONGEST_FEAST = 4  # in words; "'s" is one

NAMED = {"today": (0, 0), "tonight": (0, 0), "yesterday": (-1, -1), "tomorrow": (1, 1)}  # days from now
VAGUE = {"recently": (-NEAR, 0), "lately": (-NEAR, 0)}  # said of another time as often as of now
PHRASES = {
    ("last", "night"): (-1, 0),
    ("this", "morning"): (0, 0),
    ("this", "afternoon"): (0, 0),
    ("this", "evening"): (0, 0),
}
WHICH = {"last": -1, "this": 0, "next": 1}
BOUNDS = frozenset("since until till before after by from".split())
TO = frozenset(("to", "until", "till", "through", "-", "–", "—"))
DASHES = frozenset(("-", "–", "—"))
AND = DASHES | {"and"}
LISTING = frozenset((",", "and", "or", "&"))
FIRM = frozenset("in during since until till throughout through this last next early mid late".split())
LOOSE = frozenset("of for by before after around from to the".split())  # "of May" is a time, "of May Smith" is not
YEAR_CUES = FIRM | LOOSE | frozenset("year my our his her their your its and between (".split())
POSSESSIVES = frozenset(("'s", "’s"))
MANY = POSSESSIVES | {"mornings", "afternoons", "evenings", "nights"}  # after a weekday: not one day, or a name

STARTS = (
    MONTHS.keys() | SEASONS.keys() | WEEKDAYS.keys() | COUNTS.keys() | ORDINALS.keys() | NAMED.keys()
    | VAGUE.keys() | UNITS.keys() | WHICH.keys() | BOUNDS
    | {name.split()[0].removesuffix("'s") for name in FEASTS | PARTS}
    | {"the", "other", "past", "between", "earlier", "later", "weekend", "q1", "q2", "q3", "q4"}
)  # fmt: skip
LEADS = BOUNDS | {"the", "a", "an", "between"}  # these begin a time only if the next word could

TOKEN = re.compile(
    r"[0-9]+(?:[.,/:-][0-9]+)*[^\W_]*"  # a number, and all that hangs on it: 3rd, 2025-06-03T10:00, 1,000, 10:30
    r"|['’](?:s|[0-9]{2})\b"  # Friday's, '25
    r"|[^\W\d_]\w*"
    r"|\S"
)
YMD = re.compile(r"([0-9]{4})([-/])([0-9]{1,2})\2([0-9]{1,2})(?:t[0-9].*)?")
YM = re.compile(r"([0-9]{4})[-/]([0-9]{2})")
DMY = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})")
PAIR = re.compile(r"([0-9]{1,2}|[0-9]{4})([,-])([0-9]{1,2}(?:st|nd|rd|th)?|[0-9]{4})")  # "3-10 May", "May 3,2024"
DAY = re.compile(r"([0-9]{1,2})(st|nd|rd|th)?")


# ---- days that come back, and days that do not


@dataclass(frozen=True, slots=True)
class Mark:
    """A day of every year: so many days from the third of May, the fourth Thursday of November or Easter."""

    origin: Origin
    offset: int = 0

    def in_year(self, year: int) -> date:
        match self.origin:
            case (month, day):
                found = clipped(year, month, day)
            case (month, weekday, which):
                found = nth_weekday(year, month, weekday, which)
            case _:
                found = easter(year)
        return moved(found, self.offset)


@dataclass(frozen=True, slots=True)
class Yearly:
    """Days from one mark to the next that follows, in any year or in one."""

    first: Mark
    last: Mark
    year: int | None = None

    def in_year(self, year: int) -> tuple[date, date]:
        """The occurrence that belongs to this year: winter 2024 ends in 2025."""
        start, end = self.first.in_year(year), self.last.in_year(year)
        if end < start:
            end = max(start, self.last.in_year(year + 1))
        return start, end

    def days_from(self, day: date) -> int:
        return min(days_outside(day, *self.in_year(day.year + years)) for years in (-1, 0, 1))

    def beside(self, first: int, last: int, *, end: bool) -> Yearly:
        """The days so far from where it begins or ends; those of a feast count from the feast itself."""
        anchor = self.last if end else self.first
        if self.first.origin == self.last.origin:
            anchor = Mark(anchor.origin, self.first.offset if self.first == self.last else 0)
        shift = anchor.offset
        return replace(self, first=Mark(anchor.origin, shift + first), last=Mark(anchor.origin, shift + last))

    def part(self, start: float, end: float, slack: int) -> Yearly | None:
        """A share of its months, each taken as 31 days; None for what is shorter than that."""
        match self.first, self.last:
            case Mark((month, 1), 0), Mark((last, 31), 0):
                begin, length = (month - 1) * 31, ((last - month) % 12 + 1) * 31
            case _:
                return None
        first, last = share(length, start, end, slack)
        return replace(self, first=Mark(month_day(begin + first)), last=Mark(month_day(begin + last)))


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the calendar; None is open. `sure` when no other reading is likely."""

    start: date | None
    end: date | None
    sure: bool = True

    def beside(self, first: int, last: int, *, end: bool) -> Days:
        anchor = (self.end if end else self.start) or date.min
        return replace(self, start=moved(anchor, first), end=moved(anchor, last))

    def part(self, start: float, end: float, slack: int) -> Days | None:
        if self.start is None or self.end is None or self.start == self.end:
            return None
        length = (self.end - self.start).days + 1
        first, last = share(length, start, end, min(slack, length // 7))
        return replace(self, start=moved(self.start, first), end=moved(self.start, last))


Period = Yearly | Days
Found = tuple[Period, int] | None  # what was read, and the token after it


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


# ---- reading


class Token(NamedTuple):
    raw: str
    word: str  # in small letters
    start: int
    end: int


def read(text: str) -> list[Token]:
    """The words, numbers and signs of a text; "3-10" and "3,2024" are three of them."""
    tokens = []
    for match in TOKEN.finditer(text):
        pair = PAIR.fullmatch(match[0]) if match[0][0].isdigit() and not YM.fullmatch(match[0]) else None
        if pair:
            at = match.start()
            tokens += [Token(pair[n], pair[n], at + pair.start(n), at + pair.end(n)) for n in (1, 2, 3)]
        else:
            tokens.append(Token(match[0], match[0].lower(), *match.span()))
    return tokens


class Grammar:
    """Each method reads one thing at a token and gives it with the token after it, or None.

    `inside` says that what stands before already makes it a time. Every method looks at a bounded number of tokens,
    which is why a few empty ones at the end are enough; the last of them is also what stands before the first.
    """

    def __init__(self, tokens: list[Token], now: date) -> None:
        self.size = len(tokens)
        self.raw = [token.raw for token in tokens] + [""] * 8
        self.words = [token.word for token in tokens] + [""] * 8
        self.now = now

    def periods(self) -> Iterator[tuple[Period, int, int]]:
        at, listed = 0, False
        while at < self.size:
            found = self.time(at, listed) if self.promising(at) else None
            if found:
                yield found[0], at, found[1]
                at, listed = found[1], True
            else:
                listed = listed and self.word(at) in LISTING
                at += 1

    def promising(self, at: int) -> bool:
        """Could a time begin here? Of two leading words, the third tells ("after the end")."""
        for word in (self.word(at), self.word(at + 1), self.word(at + 2)):
            if word not in LEADS:
                return word in STARTS or word[:1].isdigit()
        return False

    def word(self, at: int) -> str:
        return self.words[at]

    def capital(self, at: int) -> bool:
        return self.raw[at][:1].isupper()

    def skip(self, at: int, *words: str) -> int:
        return at + 1 if self.word(at) in words else at

    # -- bounds and ranges

    def time(self, at: int, inside: bool = False) -> Found:
        if self.word(at) in BOUNDS or self.word(at) == "between":
            return longest(self.span(at), self.bound(at))
        likely = self.point(at, inside=True)
        if not likely:
            return self.days_of_month(at, TO)
        return self.days_of_month(at, TO) or self.up_to(likely, TO) or (likely if inside else self.point(at))

    def span(self, at: int) -> Found:
        """ "between March and May", "from 3 to 10 May", "from January to March 2025"."""
        opening = self.word(at)
        if opening not in ("between", "from"):
            return None
        joints = AND if opening == "between" else TO
        return self.days_of_month(at + 1, joints) or self.two_points(at + 1, joints)

    def days_of_month(self, at: int, joints: frozenset[str]) -> Found:
        """ "3 to 10 May": the month stands after the second day only."""
        first = self.day_number(self.skip(at, "the"))
        if not first or self.word(first[1]) not in joints:
            return None
        match self.dated(self.skip(first[1] + 1, "the"), inside=True):
            case Yearly(Mark((month, day), 0), Mark((_, last), 0)) as period, after if first[0] < day == last:
                return replace(period, first=Mark((month, first[0]))), after
        return None

    def two_points(self, at: int, joints: frozenset[str]) -> Found:
        left = self.point(at, inside=True)
        return self.up_to(left, joints) if left else None

    def up_to(self, left: tuple[Period, int], joints: frozenset[str]) -> Found:
        """The range that a first point begins, if a second one follows."""
        period, at = left
        if self.word(at) not in joints:
            return None
        if self.word(at + 1) == "now":
            return joined(period, Days(self.now, self.now), at + 2, self.now)
        right = self.second_day(period, at + 1) or self.point(at + 1, inside=True)
        return joined(period, right[0], right[1], self.now) if right else None

    def second_day(self, left: Period, at: int) -> Found:
        """The 10 of "May 3–10": a later day of the same month."""
        number = self.day_number(at)
        match left:
            case Yearly(Mark((month, day), 0), Mark((_, last), 0)) if number and day == last < number[0]:
                if self.counts(number[1]) or self.word(self.skip(number[1], "of")) in MONTHS:
                    return None
                mark = Mark((month, number[0]))
                return self.with_year(replace(left, first=mark, last=mark), number[1])
        return None

    def bound(self, at: int) -> Found:
        """ "since March", "until April", "before June 2024", "by the end of May", "from March on"."""
        word = self.word(at)
        found = self.point(at + 1, inside=word in FIRM) if word in BOUNDS else None
        if not found:
            return None
        period, after = found
        if self.word(after) in POSSESSIVES:
            return None  # "after yesterday's talk" was yesterday
        if word == "from":
            onwards = self.word(after) in ("on", "onward", "onwards")
            return (bounded("since", period, self.now), after + 1) if onwards else None
        return bounded(word, period, self.now), after

    # -- points

    def point(self, at: int, inside: bool = False, depth: int = DEPTH) -> Found:
        if depth == 0:
            return None
        return longest(
            self.counted(at, depth),
            self.unit_beside(at, depth),
            self.part(at, depth),
            self.nth(at, depth),
            self.relative(at),
            self.weekday(at, inside),
            self.dated(at, inside),
        )

    def counted(self, at: int, depth: int) -> Found:
        """ "two weeks ago", "a couple of days before Christmas", "the past ten days"."""
        past = self.word(self.skip(at, "the")) in ("past", "last")
        start = self.skip(at, "the") + 1 if past else at
        count = self.count(start)
        unit, after = self.unit(count[1] if count else start)
        if not unit or not (count or past):
            return None
        (low, high), word = count[0] if count else (1, 1), self.word(after)
        if past:
            rolling = (count or self.word(at) in ("the", "past")) and unit != "night" and word != "of"
            return (days(self.now, -round(high * UNITS[unit]), 0), after) if rolling else None
        nearest, farthest = (round(number * UNITS[unit]) for number in (low, high))
        nearest, farthest = nearest - HALF.get(unit, 0), farthest + HALF.get(unit, 0)
        if word == "ago":
            return days(self.now, -farthest, -nearest), after + 1
        if word == "from" and self.word(after + 1) == "now":
            return days(self.now, nearest, farthest), after + 2
        anchor = self.point(after + 1, True, depth - 1) if word in ("before", "after") else None
        if not anchor:
            return None
        if word == "before":
            return anchor[0].beside(-farthest, -nearest, end=False), anchor[1]
        return anchor[0].beside(nearest, farthest, end=True), anchor[1]

    def unit_beside(self, at: int, depth: int) -> Found:
        """ "the day before yesterday", "the week after Easter", "the weekend before 16 May", "the week of 12 May"."""
        before = self.skip(at, "the")
        start = self.skip(before, "last", "next")
        word, side = self.word(start), self.word(start + 1)
        if word not in UNITS and word not in WEEKDAYS and word != "weekend":
            return None
        if side == "before" and self.word(start + 2) == "last":
            found = self.current(word, -2)
            return (found, start + 3) if found else None
        anchor = self.point(start + 2, True, depth - 1) if side in ("before", "after", "of") else None
        if not anchor or (side == "of" and (word != "week" or start > before)):
            return None
        return beside_unit(anchor[0], word, side, self.now), anchor[1]

    def part(self, at: int, depth: int) -> Found:
        """ "mid-January", "early to mid March", "the end of May", "earlier this month", "the first half of 2024"."""
        first = self.part_word(self.skip(at, "the"))
        if not first:
            return self.so_far(at)
        (start, end, slack), after = first
        if self.word(after) in TO | LISTING:
            second = self.part_word(self.skip(after + 1, *DASHES))
            if second and second[0][1] > end:
                (_, end, _), after = second
        whole = self.whole(after, depth)
        divided = whole[0].part(start, end, slack) if whole else None
        return (divided, whole[1]) if whole and divided else None

    def part_word(self, at: int) -> tuple[tuple[float, float, int], int] | None:
        """The share that is named, and where its whole begins: behind "of", "in" or a dash."""
        word = self.word(at)
        if word in ADJECTIVES:
            after = at + 1 + (self.word(at + 1) in DASHES or self.word(at + 1) == "in")
            return PARTS[word], after
        pair = f"{word} {self.word(at + 1)}"
        name, after = (pair, at + 2) if pair in PARTS else (word, at + 1)
        return (PARTS[name], after + 1) if name in PARTS and self.word(after) == "of" else None

    def so_far(self, at: int) -> Found:
        """ "earlier this month" ends now, "later this week" begins now."""
        word = self.word(at)
        found = self.relative(at + 1) if word in ("earlier", "later") and self.word(at + 1) == "this" else None
        if not found:
            return None
        start, end = resolved(found[0], self.now)
        if not start <= self.now <= end:
            return found
        return Days(start, self.now) if word == "earlier" else Days(self.now, end), found[1]

    def whole(self, at: int, depth: int) -> Found:
        """What can have parts; "the year" is any year."""
        if self.word(at) == "the" and self.word(at + 1) == "year":
            return whole_months(1, 12), at + 2
        return self.point(at, True, depth - 1)

    def nth(self, at: int, depth: int) -> Found:
        """ "the second quarter", "the last week of May", "the first few days of 2024", "the first Monday in May"."""
        start = self.skip(at, "the")
        which = self.ordinal(start)
        if not which:
            return None
        if self.word(start + 1) == "quarter" and 1 <= which <= 4:
            return self.with_year(whole_months(3 * which - 2, 3), start + 2)
        count = self.count(start + 1)
        at_unit = count[1] if count else start + 1
        unit, after = self.unit(at_unit)
        day = self.word(at_unit)
        whole = self.whole(after + 1, depth) if self.word(after) in ("of", "in") else None
        if not whole or (count and which not in (1, -1)):
            return None
        if unit:
            length = round(UNITS[unit] * (count[0][1] if count else 1))
            return nth_stretch(whole[0], which, length, SLACK if unit == "week" else 0), whole[1]
        found = nth_day(whole[0], which, day) if not count else None
        return (found, whole[1]) if found else None

    def relative(self, at: int) -> Found:
        """ "yesterday", "recently", "last night", "this week", "next Monday", "last March", "this weekend"."""
        word, following = self.word(at), self.word(at + 1)
        if word in NAMED:
            return days(self.now, *NAMED[word]), at + 1
        if word in VAGUE:
            return replace(days(self.now, *VAGUE[word]), sure=False), at + 1
        if (word, following) in PHRASES:
            return days(self.now, *PHRASES[word, following]), at + 2
        if word == "the":
            return self.the_weekend(at) or self.the_other_day(at)
        if word not in WHICH or self.word(at - 1) == "the":
            return None  # "the next week" follows one that the question does not date
        after = self.skip(at + 1, "past") if word == "this" else at + 1
        step = -1 if after > at + 1 else WHICH[word]
        current = self.current(self.word(after), step) if not self.counts_days(after) else None
        if current:
            return current, after + 1
        return self.which_yearly(after, step)

    def which_yearly(self, at: int, step: int) -> Found:
        match self.yearly(at, inside=True):
            case (Yearly(year=None) as period, after):
                return occurrence(period, step, self.now), after
        return None

    def current(self, word: str, step: int) -> Period | None:
        """The week, month or Monday that is so many steps from this one."""
        monday = moved(self.now, -self.now.weekday() + 7 * step)
        month = self.now.year * 12 + self.now.month - 1
        if word == "week":
            return days(monday, 0, 6)
        if word == "weekend":
            return days(monday, 5, 6)
        if word == "month":
            return whole_months((month + step) % 12 + 1, 1, (month + step) // 12)
        if word == "quarter":
            quarter = month // 3 + step
            return whole_months(quarter % 4 * 3 + 1, 3, quarter // 4)
        if word == "year":
            return whole_months(1, 12, self.now.year + step)
        if word in WEEKDAYS:
            return on_weekday(self.now, WEEKDAYS[word], step)
        return None

    def counts_days(self, at: int) -> bool:
        """ "last sun" and "last Monday's" are too little to go by."""
        abbreviated = self.word(at) in ALSO_WORDS and not self.capital(at)
        return self.word(at) in WEEKDAYS and (abbreviated or self.word(at + 1) in POSSESSIVES)

    def the_weekend(self, at: int) -> Found:
        if self.word(at + 1) != "weekend" or self.word(at - 1) not in ("on", "at", "over", "during"):
            return None
        saturday = moved(self.now, -(self.now.weekday() - 5) % -7)
        return replace(days(saturday, 0, 1), sure=False), at + 2

    def the_other_day(self, at: int) -> Found:
        if self.word(at + 1) != "other" or self.word(at + 2) != "day":
            return None
        return replace(days(self.now, -7, -1), sure=False), at + 3

    def weekday(self, at: int, inside: bool) -> Found:
        """ "on Tuesday" is the nearest past one; "Tuesday, 4 March" is that day."""
        if self.word(at) not in WEEKDAYS:
            return None
        short = len(self.word(at)) < len("monday")
        after = self.skip(at + 1, ".") if short else at + 1
        dated = self.dated(self.skip(self.skip(after, ","), "the"), inside=True)
        if dated and isinstance(dated[0], Yearly) and dated[0].first == dated[0].last:
            return dated
        a_word = short and (self.capital(after) or (self.word(at) in ALSO_WORDS and not self.capital(at)))
        if a_word or self.word(after) in MANY or not (inside or self.word(at - 1) in BOUNDS | {"on"}):
            return None
        latest = moved(self.now, -((self.now.weekday() - WEEKDAYS[self.word(at)]) % 7))
        return Days(latest, latest, sure=False), after

    # -- dates

    def dated(self, at: int, inside: bool) -> Found:
        return self.numeric(at) or self.yearly(at, inside) or self.year(at, inside)

    def numeric(self, at: int) -> Found:
        """2025-06-03, 2025/06/03, 2025-06, 03.06.2025, and 22/10/2025, which has one reading."""
        word = self.word(at)
        if not word[:1].isdigit() or len(word) > 40:
            return None
        if match := YMD.fullmatch(word):
            return one_day({(int(match[1]), int(match[3]), int(match[4]))}, at + 1)
        if match := YM.fullmatch(word):
            year, month = int(match[1]), int(match[2])
            return (whole_months(month, 1, year), at + 1) if 1 <= month <= 12 and 1900 <= year < 2100 else None
        if match := DMY.fullmatch(word):
            first, second, year = int(match[1]), int(match[3]), int(match[4])
            readings = {(year, second, first)} | ({(year, first, second)} if match[2] != "." else set())
            return one_day(readings, at + 1)
        return None

    def yearly(self, at: int, inside: bool) -> Found:
        """A day, month, season, quarter or feast, with its year if that is said."""
        year = self.year_number(at)
        start = at + 1 if year else at
        found = longest(
            self.month_and_day(start, inside),
            self.month(start, inside or year is not None),
            self.season(start, inside or year is not None),
            self.feast(self.skip(start, "the")),
            self.quarter(start),
        )
        if not found or not isinstance(found[0], Yearly):
            return None
        if year:
            return (replace(found[0], year=year), found[1]) if found[1] > start else None
        return self.with_year(found[0], found[1])

    def month_and_day(self, at: int, inside: bool) -> Found:
        """ "3 May", "the 3rd of May", "May 3rd", "May the third"."""
        before = self.skip(at, "the")
        day = self.day_number(before) or self.day_word(before)
        if day:
            at_month = self.skip(day[1], "of")
            month, after = self.month_name(at_month)
        else:
            at_month = at
            month, after = self.month_name(at)
            day = self.day_number(self.skip(after, "the"))
            after = day[1] if day else after
        if not month or not day or (self.word(day[1]) == "of" and self.word(day[1] - 1).isdigit()):
            return None  # "week 2 of May"
        plain = self.word(day[1] - 1).isdigit() and self.word(at_month) in ALSO_WORDS and not self.capital(at_month)
        if plain and not (inside or self.word(at - 1) in ("on", "of", "by") or self.year_after(after)):
            return None  # "may 3 people", "march 3 miles"
        return Yearly(Mark((month, day[0])), Mark((month, day[0]))), after

    def month(self, at: int, inside: bool) -> Found:
        month, after = self.month_name(at)
        if not month or not (inside or self.backed(at, after)):
            return None
        return whole_months(month, 1), after

    def season(self, at: int, inside: bool) -> Found:
        word = self.word(at)
        a_name = self.capital(at) and (self.capital(at + 1) or self.word(at - 1) in DASHES)  # the Mid-Autumn Festival
        if word not in SEASONS or a_name or not (inside or self.backed(at, at + 1)):
            return None
        return whole_months(SEASONS[word], 3), at + 1

    def quarter(self, at: int) -> Found:
        word = self.word(at)
        return (whole_months(3 * int(word[1]) - 2, 3), at + 1) if word in ("q1", "q2", "q3", "q4") else None

    def feast(self, at: int) -> Found:
        name, best = "", None
        if self.word(at - 1) in ("chinese", "lunar"):
            return None
        for after in range(at, at + LONGEST_FEAST):
            word = self.word(after).replace("’", "'")
            name += word if word == "'s" or not name else f" {word}"
            if name in FEASTS:
                origin, first, last = FEASTS[name]
                best = Yearly(Mark(origin, first), Mark(origin, last)), after + 1
        return best

    def year(self, at: int, inside: bool) -> Found:
        """A year on its own, if it is not a number of things."""
        year = self.year_number(at)
        if not year or self.counts(at + 1):
            return None
        alone = not self.word(at + 1)[:1].isalnum() and self.word(at - 1) in ("", ",", "(")
        if not (inside or alone or self.word(at - 1) in YEAR_CUES or self.word(at - 1) in POSSESSIVES):
            return None
        return whole_months(1, 12, year), at + 1

    def with_year(self, period: Yearly, at: int) -> Found:
        """The period with the year that follows it: "2024", ", 2024", "of 2024", "'24", "last year"."""
        found = self.year_after(at)
        return (replace(period, year=found[0]), found[1]) if found else (period, at)

    def year_after(self, at: int) -> tuple[int, int] | None:
        start = self.skip(at, ",", "of", "in")
        year = self.year_number(start)
        if year:
            return year, start + 1
        word = self.word(start)
        if len(word) == 3 and word[0] in "'’" and word[1:].isdigit():
            century = self.now.year // 100 * 100
            short = int(word[1:])
            return (century + short if short <= self.now.year % 100 + 10 else century - 100 + short), start + 1
        if word in WHICH and self.word(start + 1) == "year":
            return self.now.year + WHICH[word], start + 2
        return None

    # -- words and numbers

    def backed(self, at: int, after: int) -> bool:
        """Does what stands beside a word make it a month or season rather than a name or a verb?"""
        word, before = self.word(at), self.word(at - 1)
        if before in FIRM or (before == "the" and self.word(at - 2) in FIRM):
            return True
        if self.year_after(after) and (self.capital(at) or self.year_number(after)):
            return True
        if word in SURE:
            return word in MONTHS or not self.capital(at) or before in LOOSE
        a_month = self.capital(at) or word not in ALSO_WORDS or before in BOUNDS
        return before in LOOSE and a_month and not self.capital(after)

    def month_name(self, at: int) -> tuple[int | None, int]:
        word = self.word(at)
        shortened = word in MONTHS and len(word) < 5 and word not in ("may", "june", "july")
        return MONTHS.get(word), self.skip(at + 1, ".") if shortened else at + 1

    def day_number(self, at: int) -> tuple[int, int] | None:
        match = DAY.fullmatch(self.word(at))
        return (int(match[1]), at + 1) if match and 1 <= int(match[1]) <= 31 else None

    def day_word(self, at: int) -> tuple[int, int] | None:
        day = ORDINALS.get(self.word(at), 0)
        return (day, at + 1) if day > 0 and self.word(at + 1) == "of" else None

    def ordinal(self, at: int) -> int | None:
        match = DAY.fullmatch(self.word(at))
        return int(match[1]) if match and match[2] else ORDINALS.get(self.word(at))

    def count(self, at: int) -> tuple[tuple[int, int], int] | None:
        """ "two", "10", "a few", "a couple of"."""
        word = self.word(at)
        if word.isascii() and word.isdigit() and len(word) <= 3:
            return (int(word), int(word)), at + 1
        if word == "a" and self.word(at + 1) in ("couple", "few"):
            at, word = at + 1, self.word(at + 1)
        return (COUNTS[word], self.skip(at + 1, "of")) if word in COUNTS else None

    def unit(self, at: int) -> tuple[str | None, int]:
        word = self.word(at).removesuffix("s")
        return (word if word in UNITS else None), at + 1

    def year_number(self, at: int) -> int | None:
        word = self.word(at)
        plain = len(word) == 4 and word.isascii() and word.isdigit() and 1900 <= int(word) < 2100
        return int(word) if plain and self.word(at - 1) not in ("$", "€", "£", "#", "about", "version") else None

    def counts(self, at: int) -> bool:
        """Is this word what a number before it counts? "2000 people", "10 miles", "2000 %"."""
        word = self.word(at)
        plural = word.endswith("s") and len(word) > 3 and word not in POSSESSIVES and not self.capital(at)
        return plural or word in ("people", "%", "percent", "km", "mg", "kg", "words", "°", "€", "$")


# ---- arithmetic of days


def longest(*found: Found) -> Found:
    """The one that read most; of equals the first."""
    return max((each for each in found if each), key=lambda each: each[1], default=None)


def moved(day: date, by: int) -> date:
    """The day so many days on, or the last there is in that direction."""
    try:
        return day + timedelta(by)
    except OverflowError:
        return date.max if by > 0 else date.min


def days_outside(day: date, start: date, end: date) -> int:
    return max((start - day).days, (day - end).days, 0)


def clipped(year: int, month: int, day: int) -> date:
    """The day of a month, or the month's last if it is shorter."""
    year = min(max(year, date.min.year), date.max.year)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 29 if month == 2 and leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return date(year, month, min(day, length))


def nth_weekday(year: int, month: int, weekday: int, which: int) -> date:
    """The second Monday of a month is 2, the last is -1."""
    if which < 0:
        last = clipped(year, month, 31)
        return moved(last, -((last.weekday() - weekday) % 7))
    first = clipped(year, month, 1)
    return moved(first, (weekday - first.weekday()) % 7 + 7 * (which - 1))


def easter(year: int) -> date:
    """Easter Sunday of the Gregorian calendar (Meeus, Jones and Butcher)."""
    century, rest = divmod(year, 100)
    golden = year % 19
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    week = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    late = (golden + 11 * epact + 22 * week) // 451
    month, day = divmod(epact + week - 7 * late + 114, 31)
    return clipped(year, month, day + 1)


def days(now: date, first: int, last: int) -> Days:
    return Days(moved(now, first), moved(now, last))


def one_day(readings: set[tuple[int, int, int]], after: int) -> Found:
    """The date, if just one reading is a date; as a `Yearly`, so that it can be the end of a range."""
    valid = [(y, m, d) for y, m, d in readings if y and 1 <= m <= 12 and 1 <= d == clipped(y, m, d).day]
    if len(valid) != 1:
        return None
    [(year, month, day)] = valid
    return Yearly(Mark((month, day)), Mark((month, day)), year), after


def whole_months(month: int, count: int, year: int | None = None) -> Yearly:
    return Yearly(Mark((month, 1)), Mark(((month + count - 2) % 12 + 1, 31)), year)


def month_day(ordinal: int) -> tuple[int, int]:
    """The month and day of a place in a year whose months all have 31 days."""
    return ordinal // 31 % 12 + 1, ordinal % 31 + 1


def share(length: int, start: float, end: float, slack: int) -> tuple[int, int]:
    """First and last of the days, counted from 0, of a part of so many; slack only where it has a neighbour."""
    first, last = round(length * start), round(length * end) - 1
    return max(0, first - slack) if start else 0, min(length - 1, last + slack) if end < 1 else length - 1


def latest(period: Yearly, now: date) -> int:
    """The year of the occurrence that is going on or began last."""
    return next((year for year in (now.year + 1, now.year) if period.in_year(year)[0] <= now), now.year - 1)


def resolved(period: Period, now: date) -> tuple[date, date]:
    """The days meant if one year must be: the one that is said, or the latest."""
    if isinstance(period, Days):
        return period.start or date.min, period.end or date.max
    return period.in_year(latest(period, now) if period.year is None else period.year)


def occurrence(period: Yearly, step: int, now: date) -> Yearly:
    """ "last March" is over, "next March" has not begun, "this March" is now or in this year."""
    year = latest(period, now)
    start, end = period.in_year(year)
    if step < 0:
        return replace(period, year=year if end < now else year - 1)
    if step > 0:
        return replace(period, year=year + 1)
    return replace(period, year=year if start <= now <= end else now.year)


def on_weekday(now: date, weekday: int, step: int) -> Days:
    """Last Monday is the nearest before today, next Monday the nearest after, this Monday that of this week."""
    if step == 0:
        return days(now, weekday - now.weekday(), weekday - now.weekday())
    away = step * ((step * (weekday - now.weekday()) - 1) % 7 + 1)
    return days(now, away, away)


def bounded(word: str, period: Period, now: date) -> Period:
    """What lies before or after a period, up to a bound or without end."""
    if isinstance(period, Yearly) and period.year is None:
        if word == "before":
            return replace(period, first=period.beside(-NEAR, 0, end=False).first)
        if word == "after":
            return replace(period, last=period.beside(0, NEAR, end=True).last)
    start, end = resolved(period, now)
    sure = period.sure if isinstance(period, Days) else period.year is not None
    if word == "since":
        return Days(start, None, sure)
    if word == "after":
        return Days(moved(end, 1), None, sure)
    return Days(None, moved(start, -1) if word == "before" else end, sure)


def joined(left: Period, right: Period, after: int, now: date) -> Found:
    """From the beginning of one to the end of the other; a year that only one has is the other's too."""
    if isinstance(left, Yearly) and isinstance(right, Yearly):
        if left.year is None and right.year is None:
            return Yearly(left.first, right.last), after
        if left.year is None:
            left = replace(left, year=latest(left, resolved(right, now)[1]))
        elif right.year is None:
            right = replace(right, year=left.year)
            if resolved(right, now)[1] < resolved(left, now)[0]:
                right = replace(right, year=left.year + 1)
    sure = all(period.sure for period in (left, right) if isinstance(period, Days))
    start, end = resolved(left, now)[0], resolved(right, now)[1]
    return (Days(start, end, sure), after) if start <= end else None


def beside_unit(anchor: Period, word: str, side: str, now: date) -> Period:
    """The week, weekend or Friday before or after a time, or the week of a day."""
    if word in UNITS:
        length = round(UNITS[word])
        if side == "of":
            return anchor.beside(0, 6, end=False)
        return anchor.beside(-length, -1, end=False) if side == "before" else anchor.beside(1, length, end=True)
    if isinstance(anchor, Yearly) and anchor.year is None:
        return anchor.beside(-7, -1, end=False) if side == "before" else anchor.beside(1, 7, end=True)
    start, end = resolved(anchor, now)
    weekday = WEEKDAYS.get(word, 6 if side == "before" else 5)
    day = on_weekday(start, weekday, -1) if side == "before" else on_weekday(end, weekday, 1)
    if word != "weekend":
        return day
    return day.beside(-1, 0, end=True) if side == "before" else day.beside(0, 1, end=False)


def nth_stretch(whole: Period, which: int, length: int, slack: int) -> Period:
    """So many days from the beginning or the end of a period."""
    if which < 0:
        return whole.beside(1 - length - slack, 0, end=True)
    start = (which - 1) * length
    return whole.beside(max(0, start - slack), start + length - 1 + slack, end=False)


def nth_day(whole: Period, which: int, word: str) -> Period | None:
    """The first Monday or weekend of a month."""
    if word not in WEEKDAYS and word != "weekend":
        return None
    match whole:
        case Yearly(Mark((month, 1)), Mark((last, 31)), year) if month == last:
            mark = Mark((month, WEEKDAYS.get(word, 5), which))
            return Yearly(mark, Mark(mark.origin, 1) if word == "weekend" else mark, year)
    return None
