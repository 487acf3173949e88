"""Code: a name in the query is also looked for in its parts, so that camelCase finds snake_case and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tars.identifiers import names, parts
from tars.search.query import MAX_TERMS, STOP_WORDS, Query


@dataclass(frozen=True, slots=True)
class Code:
    """Adds the parts of every name, together as a phrase and each alone; the index keeps the parts of its own names.

    A name is exact, and the lists that know meanings see only its pieces: the more of the question is names, the more
    the words count.
    """

    name: ClassVar[str] = "code"
    trust: float = 5.0  # added to the factor of the words if the question is nothing but names

    def __call__(self, query: Query) -> Query:
        found = names(query.text)
        if not found:
            return query
        known = {*query.terms, *query.further}
        new = dict.fromkeys(term for name in found for term in terms_of(name) if term not in known)
        factor = query.weights.get("words", 1.0) * (1 + self.trust * min(len(found) / len(query.terms), 1))
        return replace(query, further=(*query.further, *new)[:MAX_TERMS], weights={**query.weights, "words": factor})


def terms_of(name: str) -> list[str]:
    """
    >>> terms_of("getUserById")
    ['get user by id', 'get', 'user', 'id']
    """
    words = [part.lower() for part in parts(name)]
    return [" ".join(words), *(word for word in words if word not in STOP_WORDS and len(word) > 1)]
