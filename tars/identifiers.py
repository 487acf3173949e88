"""Names in code: how `getUserById` and `get_user_by_id` are the same words. Knows no index and no query."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r"[A-Za-z0-9_]+")
NAME_END = re.compile(r"[A-Za-z0-9_]+\Z")
# A capital where a reader sees a new word and full text does not. It starts with the capital, not with what stands
# before it: that is four times as fast, and every passage is looked through.
HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
PLURAL = re.compile(r"[A-Z]+s")  # "URLs" is no name
# Digits stay with what they follow, so that utf8Decode is utf8_decode. Capitals before a capitalised word are one part.
PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
LONGEST = 100  # characters
LONG, SHORT_PARTS = 20, 3  # a long run of short parts is encoded data, not a name


def parts(name: str) -> tuple[str, ...]:
    """The words that a name is made of; a name of one word has one.

    >>> parts("getUserById"), parts("parse_json_data"), parts("HTTPResponseError")
    (('get', 'User', 'By', 'Id'), ('parse', 'json', 'data'), ('HTTP', 'Response', 'Error'))
    """
    return tuple(PART.findall(name))


def names(text: str) -> list[str]:
    """The names of several parts in a text, each once: those with humps and those with underscores.

    >>> names("call getUserById or get_user, not URLs")
    ['getUserById', 'get_user']
    """
    return [name for name in dict.fromkeys(NAME.findall(text)) if is_name(name)]


def is_name(name: str) -> bool:
    if len(name) > LONGEST or PLURAL.fullmatch(name):
        return False
    count = len(parts(name)) if "_" in name or HUMP.search(name) else 0
    return count > 1 and not (len(name) > LONG and len(name) < SHORT_PARTS * count)


def hidden_words(text: str) -> str:
    """The parts of the names in a text that full text does not see: it cuts at underscores but not at humps.

    >>> hidden_words("getUserById calls parse_json_data"), hidden_words("plain prose")
    ('get User By Id', '')
    """
    return " ".join(" ".join(parts(name)) for name in dict.fromkeys(humped(text)) if is_name(name))


def humped(text: str) -> Iterator[str]:
    """The runs of letters, digits and underscores with humps, in order; one too long is cut where that shows."""
    end = 0
    for hump in HUMP.finditer(text):
        if hump.start() < end:
            continue  # of the same run: a line of encoded data has a hump at every other place
        before = NAME_END.search(text, max(end, hump.start() - LONGEST), hump.start())
        start = before.start() if before else hump.start()
        end = NAME.match(text, start).end()  # type: ignore[union-attr]  # there is a capital at least
        yield text[start : min(end, start + LONGEST + 1)]
