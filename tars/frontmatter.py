"""What a note says about itself in YAML frontmatter, and dates in words, pure: text in, values out."""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from typing import Any

MAX_CHARS = 65_536  # longer "frontmatter" is text; YAML is too slow a parser for more
MAX_VALUES = 500  # nodes looked at under one key: a few aliases can stand for billions
MAX_DEPTH = 200  # nested collections; no source of so many characters is deeper
MAX_PROPERTIES = 4_000  # characters of unknown keys' values

DATE_KEYS = ("date", "created", "updated")
COMMA_KEYS = frozenset(("alias", "aliases", "keyword", "keywords"))  # a plain string names several
KNOWN_KEYS = COMMA_KEYS.union(DATE_KEYS, ("title", "tag", "tags", "description", "author", "private"))
NOTHING = frozenset(("", "~", "null"))
NO = NOTHING | {"false", "no", "off", "n", "0"}

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"([0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = r"([0-9]{4})(?![0-9])"
DATE = re.compile(
    rf"(?<![0-9])([0-9]{{4}})([-/])([0-9]{{1,2}})\2([0-9]{{1,2}})(?![0-9])"
    rf"|(?<![0-9]){_DAY}(?: of)? {_MONTH},? {_YEAR}"
    rf"|\b{_MONTH} {_DAY},? {_YEAR}",
    re.IGNORECASE,
)
COMPACT_DATE = re.compile(r"(?<![0-9])([0-9]{4})(_?)([0-9]{2})\2([0-9]{2})(?![0-9])")
CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
SAYS_PRIVATE = re.compile(r"^private\s*:[ \t]*([^\s#]+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Properties:
    """The frontmatter of a note; `other` holds the values of unknown keys, as words."""

    title: str | None = None
    date: str | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    description: str = ""
    author: str = ""
    other: str = ""
    private: bool = False


def read_frontmatter(text: str) -> tuple[Properties, int]:
    """What the frontmatter says, and how many lines it takes: 0 if there is none that can be read."""
    first_line, newline, _ = text[:256].partition("\n")
    if first_line.rstrip() != "---" or not newline:
        return Properties(), 0
    start = len(first_line) + 1
    closing = CLOSING.search(text, start, start + MAX_CHARS)
    if closing and text[closing.end() : closing.end() + 1] in ("", "\n"):  # not cut off by the limit
        source = text[start : closing.start()]
        values = _mapping(source)
        if values is not None:
            found, said = properties(values), SAYS_PRIVATE.findall(source)
            if len(said) > 1:  # YAML takes the last word for it
                found = replace(found, private=found.private or any(map(_is_yes, said)))
            return found, 1 + source.count("\n") + 1
    else:
        source = text[start : start + MAX_CHARS].partition("\n\n")[0]
    # A slip in the YAML must not publish a note that was meant to be private.
    return Properties(private=any(_is_yes(said) for said in SAYS_PRIVATE.findall(source))), 0


def _mapping(source: str) -> dict[str, Any] | None:
    """The mapping that YAML source stands for, all scalars as written; None if it is not one."""
    import yaml  # costs 20 ms, and many notes have no frontmatter

    # The base loader leaves dates, numbers and booleans as written: no impossible days, no merge keys.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        # libyaml's composer recurses in C: ten thousand brackets would end the process, not raise.
        if len(source) > MAX_DEPTH and _depth(yaml.parse(source, Loader=loader)) > MAX_DEPTH:
            return None
        values = yaml.load(source, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a lone surrogate
        return None
    if values is None:
        return {}
    return values if isinstance(values, dict) else None


def _depth(events: Iterable[Any]) -> int:
    """How deep a stream of YAML events nests; it is read no further than what is too deep."""
    depth = deepest = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def properties(values: Mapping[str, Any]) -> Properties:
    """Properties from frontmatter values (or `key:: value` fields); keys in any case."""
    given = {name: _leaves(name, value) for key, value in values.items() if (name := key.lower().strip())}
    dates = (date_in(said) for key in DATE_KEYS for said in given.get(key, ()))
    unknown = (word for key, words in given.items() if key not in KNOWN_KEYS for word in words)

    def under(*keys: str) -> list[str]:
        return [word for key in keys for word in given.get(key, ())]

    return Properties(
        title=" ".join(under("title")) or None,
        date=next(filter(None, dates), None),
        aliases=unique(under("aliases", "alias")),
        tags=unique(tag for words in under("tags", "tag") for tag in tags_in(words)),
        keywords=unique(under("keywords", "keyword")),
        description=" ".join(under("description")),
        author=", ".join(under("author")),
        other=" ".join(islice(unknown, MAX_VALUES))[:MAX_PROPERTIES],
        private=any(map(_is_yes, under("private"))),
    )


def tags_in(value: str) -> list[str]:
    """The tags of a comma- or space-separated list, without '#', in lower case."""
    tags = (tag.strip("#/").lower() for tag in value.replace(",", " ").split())
    return [tag for tag in tags if tag]


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, each once."""
    return tuple(dict.fromkeys(names))


def _leaves(key: str, value: Any) -> list[str]:
    """The words at the leaves of a YAML value, looking at a bounded number of nodes."""
    if isinstance(value, str) and key in COMMA_KEYS:
        value = value.split(",")
    found: list[str] = []
    queue, room = deque([value]), MAX_VALUES
    while queue and room > 0:
        node, room = queue.popleft(), room - 1
        if isinstance(node, str):
            words = " ".join(node.split())
            room -= len(words) // 200  # a long text repeated by aliases counts for more
            if words.lower() not in NOTHING:
                found.append(words)
        elif node:
            queue.extend(islice(node.values() if isinstance(node, dict) else node, MAX_VALUES))
    return found


def _is_yes(value: str) -> bool:
    """Whether a value of `private` hides the note: everything but a clear no does."""
    return value.strip(" \t\"'").lower() not in NO


def date_in(text: str) -> str | None:
    """The first full date in the text, as yyyy-mm-dd.

    >>> date_in("Thursday 2 January 2025"), date_in("Jan 2nd, 2025"), date_in("2025-02-31")
    ('2025-01-02', '2025-01-02', None)
    """
    return next(filter(None, (_iso(*_parts(match)) for match in DATE.finditer(text))), None)


def date_of_name(name: str) -> str | None:
    """The date in a path: the file name's own, else the nearest folder's, else one spread over folders.

    >>> date_of_name("2020-01-01 move/20260301 trip.md"), date_of_name("2026/03/01.md")
    ('2026-03-01', '2026-03-01')
    """
    parts = (*reversed(name.split("/")), name)
    return next(filter(None, (date_in(part) or _compact_date(part) for part in parts)), None)


def _compact_date(text: str) -> str | None:
    found = (_iso(match[1], match[3], match[4]) for match in COMPACT_DATE.finditer(text))
    return next(filter(None, found), None)


def _parts(match: re.Match[str]) -> tuple[str, str, str]:
    """Year, month and day of a DATE match, the month as a number."""
    year, _, month, day, d2, m2, y2, m3, d3, y3 = match.groups()
    if year:
        return year, month, day
    name = m2 or m3
    return y2 or y3, str(MONTHS.index(name[:3].lower()) + 1), d2 or d3


def _iso(year: str, month: str, day: str) -> str | None:
    """The ISO date, or None if there is no such day."""
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
