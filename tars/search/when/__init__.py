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

from tars.search.when.periods import easter
from tars.search.when.vocabulary import STARTS
from tars.search.when.windows import Window, find_windows

__all__ = ["STARTS", "Window", "easter", "find_windows"]
