"""The arguments of a tool call against its JSON schema, pure: lenient in form, strict in meaning."""

from __future__ import annotations

import calendar
import difflib
import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from tars.errors import TarsError

SHOWN_CHARS = 80  # of a wrong argument, told back

Schema = Mapping[str, Any]


class WrongCall(TarsError):
    """The model called a tool that there is not, or with arguments that it does not take."""


def checked(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the types of the schema, defaults filled in; WrongCall names everything that is wrong."""
    properties: Mapping[str, Schema] = schema["properties"]
    problems = [unknown(name, properties) for name in arguments if name not in properties]
    values: dict[str, Any] = {}
    for name, wanted in properties.items():
        given, required = arguments.get(name), name in schema["required"]
        if is_left_out(given, required):
            values[name] = wanted.get("default")
            problems += [f"'{name}' is missing"] if required else []
            continue
        try:
            values[name] = converted(name, given, wanted)
        except WrongCall as error:
            problems.append(str(error))
    if problems:
        raise WrongCall("; ".join(problems))
    return values


def is_left_out(given: Any, required: bool) -> bool:
    """Small models write null or nothing for what they do not want to give."""
    return given is None or (not required and isinstance(given, str) and given.strip().lower() in ("", "null", "none"))


def unknown(name: str, known: Mapping[str, Schema]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
    return f"no argument '{name[:SHOWN_CHARS]}'; {hint}"


def converted(name: str, given: Any, schema: Schema) -> Any:
    return whole_number(name, given, schema) if schema["type"] == "integer" else string(name, given, schema)


def whole_number(name: str, given: Any, schema: Schema) -> int:
    number = given
    if isinstance(given, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}(\.0*)?\s*", given):
        number = int(float(given))
    elif isinstance(given, float) and given.is_integer():
        number = int(given)
    if not isinstance(number, int) or isinstance(number, bool):
        raise WrongCall(f"'{name}' must be a whole number, not {shown_value(given)}")
    low, high = schema.get("minimum", number), schema.get("maximum", number)
    if not low <= number <= high:
        bounds = f"from {low} to {high}" if "maximum" in schema else f"at least {low}"
        raise WrongCall(f"'{name}' must be {bounds}, not {number}")
    return number


def string(name: str, given: Any, schema: Schema) -> str:
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str):
        raise WrongCall(f"'{name}' must be a text, not {shown_value(given)}")
    if len(given.strip()) < schema.get("minLength", 0):
        raise WrongCall(f"'{name}' must not be empty")
    if "enum" in schema:
        given = given.strip().lower()
        if given not in schema["enum"]:
            raise WrongCall(f"'{name}' must be one of {', '.join(schema['enum'])}, not {shown_value(given)}")
    return str(given)


def shown_value(given: Any) -> str:
    return json.dumps(given, ensure_ascii=False, default=repr)[:SHOWN_CHARS]


DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:[T ].*)?")


def days(name: str, given: str) -> tuple[str, str]:
    """First and last day of an ISO day, month or year.

    >>> days("after", "2026-02")
    ('2026-02-01', '2026-02-28')
    """
    try:
        found = DAY.fullmatch(given.strip())
        year, month, day = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
        last_month = month or 12
        last = date(year, last_month, day or calendar.monthrange(year, last_month)[1])
        return date(year, month or 1, day or 1).isoformat(), last.isoformat()
    except ValueError:
        hint = "a date such as 2026-03-01, 2026-03 or 2026"
        raise WrongCall(f"'{name}' must be {hint}, not {shown_value(given)}") from None
