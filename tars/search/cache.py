"""Cache: a question asked again is not searched again, and one asked by several at once is searched once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tars.search.pipeline import Outcome
from tars.search.query import Query

MAX_COUNTED = 1_000  # questions whose frequency is kept


class Flight:
    """A search under way, and those who wait for it."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None

    def wait(self) -> Outcome:
        self.landed.wait()
        if self.error is not None:
            raise self.error
        assert self.outcome is not None
        return self.outcome


@dataclass(frozen=True, slots=True)
class Kept:
    outcome: Outcome
    until: float


class Cache:
    """Outcomes by everything that they depend on.

    The key has every field of the question, the pipeline with all its settings, and the generations of what is
    searched: whatever changes one of them asks for another key, so nothing has to be thrown away to be true. What an
    outcome depends on beside these (an embedder that was down and left a notice) is not kept at all.
    """

    def __init__(
        self,
        *,
        entries: int = 200,
        seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.entries, self.seconds, self.clock = entries, seconds, clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Kept] = {}  # oldest first
        self._flights: dict[Hashable, Flight] = {}
        self._queries: dict[Hashable, Query] = {}
        self._times: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return len(self._kept)

    def __call__(
        self, query: Query, circumstances: Hashable, run: Callable[[], Outcome], *, counts: bool = True
    ) -> Outcome:
        """What is kept for this question, or what `run` gives, which one caller does for all who wait.

        It counts towards what is asked most, unless nobody asked it.
        """
        asked = question_key(query)
        key = (asked, circumstances)
        with self._lock:
            if counts:
                self._count(asked, query)
            if (kept := self._fresh(key)) is not None:
                return copied(kept.outcome)
            flight = self._flights.get(key)
            if mine := flight is None:
                flight = self._flights[key] = Flight()
        assert flight is not None
        if mine:
            self._fly(key, flight, run)
        return copied(flight.wait())

    def has(self, query: Query, circumstances: Hashable) -> bool:
        with self._lock:
            return self._fresh((question_key(query), circumstances)) is not None

    def frequent(self, count: int = 5) -> list[Query]:
        """The questions that were asked most."""
        with self._lock:
            return [self._queries[asked] for asked, _ in self._times.most_common(count)]

    def _fresh(self, key: Hashable) -> Kept | None:
        kept = self._kept.get(key)
        return kept if kept and kept.until > self.clock() else None

    def _fly(self, key: Hashable, flight: Flight, run: Callable[[], Outcome]) -> None:
        try:
            flight.outcome = run()
        except BaseException as error:  # noqa: BLE001 - handed to all who wait, and raised there
            flight.error = error
        with self._lock:
            del self._flights[key]
            if flight.outcome is not None and not flight.outcome.notices:
                self._keep(key, flight.outcome)
        flight.landed.set()

    def _keep(self, key: Hashable, outcome: Outcome) -> None:
        self._kept.pop(key, None)
        self._kept[key] = Kept(outcome, self.clock() + self.seconds)
        if len(self._kept) > 0.8 * self.entries:
            for old in list(self._kept)[: max(self.entries // 10, 1)]:
                del self._kept[old]

    def _count(self, asked: Hashable, query: Query) -> None:
        self._times[asked] += 1
        self._queries[asked] = query
        if len(self._times) > MAX_COUNTED:
            rarest = min(self._times, key=self._times.__getitem__)
            del self._times[rarest], self._queries[rarest]


def question_key(query: Query) -> Hashable:
    """Every field of a question but the index that it is asked of; a new field is in it without anyone's doing."""
    return tuple(hashable(getattr(query, field.name)) for field in fields(query) if field.name != "index")


def hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((key, hashable(each)) for key, each in value.items()))
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else value


def copied(outcome: Outcome) -> Outcome:
    """The list is the caller's to change; the results in it are not."""
    return replace(outcome, results=list(outcome.results))
