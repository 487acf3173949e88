"""Reading a question from left to right: words, then points in time, then bounds and ranges of points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from tars.search.when.periods import (
    Days,
    Found,
    Mark,
    Period,
    Yearly,
    beside_unit,
    bounded,
    days,
    joined,
    moved,
    nth_day,
    nth_stretch,
    occurrence,
    on_weekday,
    one_day,
    resolved,
    whole_months,
)
from tars.search.when.vocabulary import (
    ADJECTIVES,
    ALSO_WORDS,
    AND,
    BOUNDS,
    COUNTS,
    DASHES,
    DEPTH,
    FEASTS,
    FIRM,
    HALF,
    LEADS,
    LISTING,
    LONGEST_FEAST,
    LOOSE,
    MANY,
    MONTHS,
    NAMED,
    ORDINALS,
    PARTS,
    PHRASES,
    POSSESSIVES,
    SEASONS,
    SLACK,
    STARTS,
    SURE,
    TO,
    UNITS,
    VAGUE,
    WEEKDAYS,
    WHICH,
    YEAR_CUES,
)

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


def longest(*found: Found) -> Found:
    """The one that read most; of equals the first."""
    return max((each for each in found if each), key=lambda each: each[1], default=None)
