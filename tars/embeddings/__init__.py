"""Texts to vectors: one file per backend, all of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tars.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

BACKENDS = ("builtin", "ollama:MODEL")


class Embedder(Protocol):
    """Gives unit vectors; a row of zeros means that nothing in the text is known to the model."""

    @property
    def name(self) -> str:
        """Part of the index's identity: vectors of another name never mix with these."""

    @property
    def dimensions(self) -> int: ...

    @property
    def leaves_machine(self) -> bool:
        """Whether texts are sent to another machine, where private passages must not go."""

    def documents(self, texts: Sequence[str]) -> np.ndarray: ...

    def query(self, text: str) -> np.ndarray: ...


def embedder(setting: str, *, ollama_host: str | None = None) -> Embedder:
    """The backend that the setting `builtin` or `ollama:MODEL` names."""
    backend, _, model = setting.partition(":")
    if backend == "builtin" and not model:
        from tars.embeddings.builtin import StaticTable

        return StaticTable()
    if backend == "ollama" and model:
        from tars.embeddings.ollama import OllamaEmbedder

        return OllamaEmbedder(model, host=ollama_host)
    raise UsageError(f"no embedding backend '{setting}'; there are: {', '.join(BACKENDS)}")
