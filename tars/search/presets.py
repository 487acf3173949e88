"""Presets: what to set for one kind of notes, as `[search]` would say it; a person's own settings win over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tars.search.fusion import ReciprocalRank
from tars.search.recency import Recency

USUAL_BIAS = 0.5  # the bias towards what is recent at which the tiers of `recency` are as they stand


def weighed(*, words: float, meaning: float) -> dict[str, float]:
    """The weights of the lists: factors on those that were measured, which are no 1 : 1 themselves."""
    usual = ReciprocalRank()
    return {"words": usual.words * words, "vectors": usual.vectors * meaning, "late": usual.late * meaning}


def tiers(bias: float) -> dict[str, list[float]]:
    """The factors of `recency` for a bias from 0 to 1.

    >>> tiers(0.3)
    {'factors': [1.12, 1.06]}
    """
    return {"factors": [round(1 + (factor - 1) * bias / USUAL_BIAS, 4) for factor in Recency().factors]}


PRESETS: dict[str, dict[str, Any]] = {
    "general": {"on": ("recency",), "recency": tiers(0.5)},
    "technical": {"on": ("recency",), "fusion": weighed(words=1.5, meaning=0.8), "recency": tiers(0.3)},
    "personal": {
        "on": ("recency", "communities"),
        "fusion": weighed(words=0.7, meaning=1.3),
        "recency": tiers(0.8),
    },
    "research": {"off": ("recency",), "fusion": weighed(words=0.5, meaning=1.5)},
}


def merged(own: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """The preset with the person's own settings on top, setting by setting and stage by stage."""
    table = {**preset, **own}
    for key in preset.keys() & own.keys():
        if isinstance(own[key], Mapping) and isinstance(preset[key], Mapping):
            table[key] = {**preset[key], **own[key]}
    for key, other in (("on", "off"), ("off", "on")):
        if isinstance(own.get(key, ()), list | tuple):  # else it is told as a wrong setting
            kept = [name for name in preset.get(key, ()) if name not in own.get(other, ())]
            table[key] = (*kept, *own.get(key, ()))
    return table
