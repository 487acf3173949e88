"""Days that come back every year, days that do not, and the arithmetic of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta

from tars.search.when.vocabulary import NEAR, UNITS, WEEKDAYS, Origin


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


# ---- arithmetic of days


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
