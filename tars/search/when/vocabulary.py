"""The English words that name times, and what each stands for: tables, no logic."""

from __future__ import annotations

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
