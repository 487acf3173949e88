"""Vectors from an Ollama server, through the official client and `/api/embed`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tars.errors import EmbeddingError
from tars.wire import OLLAMA, encodable, one_line, server

if TYPE_CHECKING:
    import ollama

_TASK = "Given a web search query, retrieve relevant passages that answer the query"
_FOR_SEARCHING = "Represent this sentence for searching relevant passages: "

# What the models were trained with, from their cards: name, in front of a query, in front of a document.
# The first match counts. bge-m3, all-minilm and what is not named here take the text as it is.
_FAMILIES = (
    (r"qwen3-embedding", f"Instruct: {_TASK}\nQuery:", ""),
    (r"nomic-embed-text", "search_query: ", "search_document: "),
    (r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
    (r"\be5\b.*instruct", f"Instruct: {_TASK}\nQuery: ", ""),
    (r"\be5\b", "query: ", "passage: "),
    (r"arctic-embed2|arctic-embed-[ml]-v2", "query: ", ""),
    (r"arctic-embed|mxbai-embed-large|\bbge-(small|base|large)(?!-zh)", _FOR_SEARCHING, ""),
)

_FIRST_PAUSE = 0.5
# Two faults of the server that belong to one text, not to the batch: since 0.13.5 it may ignore `truncate`
# (ollama/ollama#14186), and some models give NaN, which its JSON encoder refuses (#15582).
_TOO_LONG = "exceeds the context length"
_NOT_A_NUMBER = "unsupported value: NaN"
_SHORTEST_CUT = 64


class OllamaEmbedder:
    """An `Embedder` whose model runs in Ollama; nothing is asked of the server before the first text."""

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        batch: int = 64,
        attempts: int = 3,
        timeout: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._server = server(host or OLLAMA, problem=EmbeddingError)
        self._for_query, self._for_document = prefixes(model)
        self._batch = batch
        self._attempts = attempts
        self._timeout = timeout
        self._sleep = sleep
        self._client: ollama.Client | None = None
        self._dimensions = 0

    @property
    def name(self) -> str:
        return f"ollama:{self._model}"

    @property
    def dimensions(self) -> int:
        """Known after the first answer; before that, the server is asked with a word."""
        if not self._dimensions:
            self._rows(["dimensions"])
        if not self._dimensions:
            raise self._malformed("no numbers")
        return self._dimensions

    @property
    def leaves_machine(self) -> bool:
        """Also for a model that the server on this machine only passes on to ollama.com."""
        return not self._server.loopback or self._model.endswith((":cloud", "-cloud"))

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        return self._embed(self._for_document, texts)

    def query(self, text: str) -> np.ndarray:
        vector: np.ndarray = self._embed(self._for_query, [text])[0]
        return vector

    def _embed(self, prefix: str, texts: Sequence[str]) -> np.ndarray:
        """One unit row per text, in order; blank texts are not sent and get zeros."""
        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        wanted = [number for number, text in enumerate(texts) if text.strip()]
        rows: list[Sequence[float]] = []
        for start in range(0, len(wanted), self._batch):
            batch = [encodable(prefix + texts[number]) for number in wanted[start : start + self._batch]]
            rows += self._rows(batch)
        vectors = np.zeros((len(texts), self.dimensions))
        for number, row in zip(wanted, rows, strict=True):
            if row:
                vectors[number] = row
        return unit(vectors)

    def _rows(self, texts: list[str]) -> list[Sequence[float]]:
        """One row per text. A text that spoils its batch is found by halving; none for it means zeros."""
        import ollama

        try:
            return self._checked(self._ask(texts), len(texts))
        except ollama.ResponseError as error:
            if len(texts) > 1:
                half = len(texts) // 2
                return self._rows(texts[:half]) + self._rows(texts[half:])
            if _NOT_A_NUMBER in str(error.error):
                return [()]
            if len(texts[0]) <= _SHORTEST_CUT:
                raise self._refused(error) from None
            return self._rows([texts[0][: len(texts[0]) // 2]])

    def _ask(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """The server's answer as it came. Raises ResponseError only for what is the fault of one text."""
        import httpx
        import ollama

        reason = ""
        for pause in self._pauses():
            self._sleep(pause)
            try:
                return self._connected().embed(model=self._model, input=texts, truncate=True).embeddings
            except (ConnectionError, httpx.ConnectTimeout):
                # Nobody listens there; asking again would only delay the search that is waiting.
                raise self._absent() from None
            except httpx.TimeoutException:
                reason = f"no answer within {self._timeout:g} s"
            except httpx.RequestError as error:
                reason = one_line(str(error) or type(error).__name__)
            except ollama.ResponseError as error:
                if _of_one_text(error):
                    raise
                if error.status_code < 500 or _cannot_embed(error):
                    raise self._refused(error) from None
                reason = f"status {error.status_code}, {one_line(error.error)}"
            except (ValueError, TypeError, AttributeError) as error:
                # The client builds its answer straight from the JSON: none, no object, or another shape.
                raise self._malformed(type(error).__name__) from None
        raise EmbeddingError(f"Ollama at {self._server.url} failed {self._attempts} times: {reason}")

    def _pauses(self) -> Iterator[float]:
        """Seconds to wait before each attempt: none, a half, one, two."""
        yield 0.0
        for attempt in range(self._attempts - 1):
            yield _FIRST_PAUSE * 2**attempt

    def _checked(self, rows: Sequence[Sequence[float]], count: int) -> list[Sequence[float]]:
        """The same rows, if there is one per text and all are as long as the first ever seen."""
        if len(rows) != count:
            raise EmbeddingError(f"{self.name} gave {len(rows)} vectors for {count} texts")
        width = self._dimensions or len(rows[0])
        if others := {len(row) for row in rows} - {width}:
            lengths = f"from {width} to {min(others)} numbers"
            raise EmbeddingError(f"{self.name} changed its vectors {lengths}; run `tars index --full`")
        self._dimensions = width
        return list(rows)

    def _connected(self) -> ollama.Client:
        if self._client is None:
            import ollama

            self._client = ollama.Client(
                host=self._server.url,
                timeout=(5.0, self._timeout, self._timeout, self._timeout),
                headers=self._server.headers,
                **self._server.options,
            )
        return self._client

    def _absent(self) -> EmbeddingError:
        remedy = "start it with `ollama serve`, or set TARS_EMBEDDING=builtin"
        return EmbeddingError(f"Ollama does not answer at {self._server.url}; {remedy}")

    def _refused(self, error: ollama.ResponseError) -> EmbeddingError:
        if _cannot_embed(error):
            remedy = "set TARS_EMBEDDING to one that can, such as ollama:qwen3-embedding:0.6b, or to builtin"
            return EmbeddingError(f"the model {self._model} cannot embed; {remedy}")
        if error.status_code == 404 and "model" in str(error.error):
            return EmbeddingError(f"Ollama has no model {self._model}; run `ollama pull {self._model}`")
        if error.status_code == 404:
            return EmbeddingError(f"no /api/embed at {self._server.url}; it takes Ollama 0.3 or later")
        said = f"status {error.status_code}, {one_line(error.error)}"
        return EmbeddingError(f"Ollama at {self._server.url} refuses to embed with {self._model}: {said}")

    def _malformed(self, what: str) -> EmbeddingError:
        return EmbeddingError(
            f"the answer from {self._server.url} is not what Ollama gives ({what}); is another program there?"
        )


def prefixes(model: str) -> tuple[str, str]:
    """What goes in front of a query and of a document.

    >>> prefixes("nomic-embed-text:v1.5")
    ('search_query: ', 'search_document: ')
    >>> prefixes("bge-m3")
    ('', '')
    """
    for pattern, query, document in _FAMILIES:
        if re.search(pattern, model.lower()):
            return query, document
    return "", ""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1 in float32; a row that has no direction (zeros, NaN, infinity) becomes zeros."""
    rows = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0)
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
    usable = (norms > 0) & np.isfinite(norms)
    units: np.ndarray = np.divide(rows, norms, out=np.zeros_like(rows), where=usable)
    return units.astype(np.float32)


def _of_one_text(error: ollama.ResponseError) -> bool:
    return _TOO_LONG in str(error.error) or _NOT_A_NUMBER in str(error.error)


def _cannot_embed(error: ollama.ResponseError) -> bool:
    return "not support embed" in str(error.error)
