"""The pipeline that `[search]` in the config file asks for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from tars.config import check_keys, fill, typed
from tars.errors import UsageError
from tars.search.pipeline import ALL, MODES, OFF, Pipeline, name_of
from tars.search.presets import PRESETS, merged

PLAIN: dict[str, Any] = {
    "preset": "",
    "limit": 10,
    "mode": "hybrid",
    "min_score": 0.0,
    "min_confidence": 0.0,
    "on": (),
    "off": (),
}
BY_NAME = {name_of(stage): stage for stage in ALL.stages()}
NEEDED = ("words", "fusion", "cut")  # without these there is no search


def configured(table: Mapping[str, Any]) -> Pipeline:
    """`[search] on` and `off` switch stages, `[search.words]` becomes Words(...)."""
    table = merged(table, preset_of(table))
    check_keys(table, [*PLAIN, *(name for name, stage in BY_NAME.items() if settable(stage))], where="search")
    plain = {key: typed(f"search.{key}", table[key], default) for key, default in PLAIN.items() if key in table}
    if plain.get("mode", "hybrid") not in MODES:
        raise UsageError(f"no search mode '{plain['mode']}'; there are: {', '.join(MODES)}")
    left_out = switched(plain.get("on", ()), plain.get("off", ()))

    def change(stage: Any) -> Any:
        name = name_of(stage)
        if name in left_out:
            return None
        return fill(type(stage), table[name], where=f"search.{name}") if name in table else stage

    return ALL.changed(change)


def preset_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """What the preset that is named would set; nothing if none is."""
    name = typed("search.preset", table.get("preset", ""), "")
    if name and name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.4)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(PRESETS)}"
        raise UsageError(f"no preset '{name}' for search; {hint}")
    return PRESETS[name] if name else {}


def switched(on: tuple[str, ...], off: tuple[str, ...]) -> set[str]:
    """The names of the stages that are left out."""
    for name in (*on, *off):
        check_keys({name: None}, BY_NAME, where="search.on/off")
    for name in off:
        if name in NEEDED:
            raise UsageError(f"'{name}' cannot be switched off: without it there is no search")
    return (set(OFF) - set(on)) | set(off)


def settable(stage: Any) -> bool:
    return is_dataclass(stage) and bool(fields(stage))
