"""The Ollama embedder, talking through the official client to a server on loopback that follows a script."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from tars.embeddings import Embedder
from tars.embeddings.ollama import OllamaEmbedder, prefixes, server, unit
from tars.errors import EmbeddingError

Reply = Callable[[list[str]], tuple[int, bytes] | None]


def vector(text: str) -> list[float]:
    """Three numbers that tell texts apart and are not of length 1."""
    return [float(len(text)), float(sum(map(ord, text)) % 97), 3.0]


def vectors(texts: list[str]) -> tuple[int, bytes]:
    return 200, json.dumps({"model": "m", "embeddings": [vector(text) for text in texts]}).encode()


def status(code: int, error: str) -> Reply:
    return lambda texts: (code, json.dumps({"error": error}).encode())


def body(raw: str) -> Reply:
    return lambda texts: (200, raw.encode())


def hang_up(texts: list[str]) -> None:
    return None


PASSING: dict[str, Reply] = {"500": status(500, "busy"), "503": status(503, "loading"), "drop": hang_up}


class FakeOllama(ThreadingHTTPServer):
    """Answers each request with the next reply of its script, then with right vectors."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Reply] = []
        self.always: Reply = vectors
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: FakeOllama

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, **request})
        self.server.headers.append(dict(self.headers))
        reply = self.server.script.pop(0) if self.server.script else self.server.always
        answer = reply(request["input"])
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        # A client that gave up has hung up.
        with contextlib.suppress(ConnectionError):
            self.answer(*answer)

    def answer(self, code: int, content: bytes) -> None:
        self.send_response(code)
        if code == 307:
            self.send_header("Location", content.decode())
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def fake() -> Iterator[FakeOllama]:
    with FakeOllama() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def at(fake: FakeOllama, model: str = "plain", **settings: Any) -> OllamaEmbedder:
    """An embedder on the fake server that does not wait between attempts."""
    return OllamaEmbedder(model, host=fake.host, **{"sleep": lambda seconds: None, **settings})


def sent(fake: FakeOllama) -> list[list[str]]:
    return [request["input"] for request in fake.requests]


def test_documents_are_unit_rows_in_order_whatever_the_batches(fake: FakeOllama) -> None:
    texts = [f"note number {n} " + "x" * n for n in range(10)]

    rows = at(fake, batch=4).documents(texts)

    assert [len(batch) for batch in sent(fake)] == [4, 4, 2]
    assert rows.dtype == np.float32 and rows.shape == (10, 3)
    expected = np.array([vector(text) for text in texts])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_the_server_is_asked_to_truncate(fake: FakeOllama) -> None:
    at(fake).documents(["a note"])

    assert fake.requests == [{"path": "/api/embed", "model": "plain", "input": ["a note"], "truncate": True}]


def test_it_is_an_embedder_and_a_query_is_one_vector(fake: FakeOllama) -> None:
    embedder: Embedder = at(fake, "plain:1b")

    assert embedder.name == "ollama:plain:1b"
    assert embedder.query("boiler").shape == (3,)
    assert np.linalg.norm(embedder.query("boiler")) == pytest.approx(1, abs=1e-6)


def test_dimensions_are_asked_for_once_and_then_known(fake: FakeOllama) -> None:
    embedder = at(fake)

    assert (embedder.dimensions, embedder.dimensions) == (3, 3)
    assert len(fake.requests) == 1


def test_dimensions_are_learned_from_the_first_answer(fake: FakeOllama) -> None:
    embedder = at(fake)
    embedder.documents(["a note"])

    assert embedder.dimensions == 3
    assert sent(fake) == [["a note"]]


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("nomic-embed-text:v1.5", "search_query: boiler", "search_document: boiler"),
        ("jeffh/intfloat-multilingual-e5-large:f16", "query: boiler", "passage: boiler"),
        ("embeddinggemma:300m", "task: search result | query: boiler", "title: none | text: boiler"),
        ("snowflake-arctic-embed2", "query: boiler", "boiler"),
        ("mxbai-embed-large", "Represent this sentence for searching relevant passages: boiler", "boiler"),
        (
            "snowflake-arctic-embed:33m",
            "Represent this sentence for searching relevant passages: boiler",
            "boiler",
        ),
        ("bge-large", "Represent this sentence for searching relevant passages: boiler", "boiler"),
        ("bge-m3", "boiler", "boiler"),
        ("all-minilm", "boiler", "boiler"),
    ],
)
def test_queries_and_documents_carry_the_prefix_of_the_model(
    fake: FakeOllama, model: str, query: str, document: str
) -> None:
    embedder = at(fake, model)
    embedder.query("boiler")
    embedder.documents(["boiler"])

    assert sent(fake) == [[query], [document]]


@pytest.mark.parametrize("model", ["qwen3-embedding:0.6b", "hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0"])
def test_qwen3_queries_carry_an_instruction_and_documents_do_not(model: str) -> None:
    query, document = prefixes(model)

    assert query.startswith("Instruct: ") and query.endswith("\nQuery:")
    assert document == ""


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
def test_one_failure_is_followed_by_another_attempt(fake: FakeOllama, failure: Reply) -> None:
    fake.script = [failure]
    pauses: list[float] = []

    rows = at(fake, sleep=pauses.append).documents(["a note"])

    assert rows.shape == (1, 3)
    assert pauses == [0.0, 0.5]


@pytest.mark.parametrize("failure", [status(500, "llama runner\nexited"), hang_up], ids=["500", "drop"])
def test_attempts_are_bounded_and_the_reason_is_given_in_one_line(fake: FakeOllama, failure: Reply) -> None:
    fake.always = failure

    with pytest.raises(EmbeddingError, match="failed 3 times: ") as caught:
        at(fake).documents(["a note"])

    assert len(fake.requests) == 3
    assert "\n" not in str(caught.value)


def test_a_slow_server_is_an_error_that_names_the_limit(fake: FakeOllama) -> None:
    release = threading.Event()
    fake.always = lambda texts: (release.wait(5), vectors(texts))[1]

    with pytest.raises(EmbeddingError, match=r"no answer within 0\.1 s"):
        at(fake, timeout=0.1, attempts=2).query("boiler")
    release.set()

    assert len(fake.requests) == 2


def test_a_missing_model_says_how_to_get_it_and_is_not_asked_for_again(fake: FakeOllama) -> None:
    fake.always = status(404, 'model "nomic-embed-text" not found, try pulling it first')

    with pytest.raises(EmbeddingError, match="run `ollama pull nomic-embed-text`"):
        at(fake, "nomic-embed-text").documents(["a note"])

    assert len(fake.requests) == 1


def test_a_server_without_the_endpoint_is_not_taken_for_a_missing_model(fake: FakeOllama) -> None:
    fake.always = lambda texts: (404, b"404 page not found")

    with pytest.raises(EmbeddingError, match="no /api/embed at "):
        at(fake).query("boiler")


def test_a_model_that_cannot_embed_is_named_and_not_asked_again(fake: FakeOllama) -> None:
    fake.always = status(501, "this model does not support embeddings")

    with pytest.raises(EmbeddingError, match=r"the model llama3\.2 cannot embed"):
        at(fake, "llama3.2").documents(["a note"])

    assert len(fake.requests) == 1


def test_any_other_refusal_is_passed_on(fake: FakeOllama) -> None:
    fake.always = status(403, "not for you")

    with pytest.raises(EmbeddingError, match="refuses to embed with plain: status 403, not for you"):
        at(fake).documents(["a note"])


@pytest.mark.parametrize(
    "raw",
    [
        "<html>hello</html>",
        "",
        "[]",
        "17",
        "{}",
        '{"embeddings": 5}',
        '{"embeddings": [["a"]]}',
        '{"embeddings": [[]]}',
    ],
)
def test_an_answer_of_another_shape_is_an_error(fake: FakeOllama, raw: str) -> None:
    fake.always = body(raw)

    with pytest.raises(EmbeddingError, match="is not what Ollama gives"):
        at(fake).documents(["a note"])


def test_an_error_of_another_shape_is_an_error_too(fake: FakeOllama) -> None:
    fake.always = lambda texts: (500, b'["oops"]')

    with pytest.raises(EmbeddingError):
        at(fake).documents(["a note"])


@pytest.mark.parametrize("raw", ['{"embeddings": []}', '{"embeddings": [[1, 2], [3, 4], [5, 6]]}'])
def test_a_wrong_number_of_vectors_is_an_error(fake: FakeOllama, raw: str) -> None:
    fake.always = body(raw)

    with pytest.raises(EmbeddingError, match=r"gave \d vectors for 2 texts"):
        at(fake).documents(["a note", "another"])


@pytest.mark.parametrize("raw", ['{"embeddings": [[1, 2]]}', '{"embeddings": [[1, 2, 3, 4]]}'])
def test_vectors_that_change_their_length_are_an_error(fake: FakeOllama, raw: str) -> None:
    embedder = at(fake)
    embedder.documents(["a note"])
    fake.always = body(raw)

    with pytest.raises(EmbeddingError, match="changed its vectors from 3 to "):
        embedder.query("boiler")


def test_vectors_of_two_lengths_in_one_answer_are_an_error(fake: FakeOllama) -> None:
    fake.always = body('{"embeddings": [[1, 2], [1, 2, 3]]}')

    with pytest.raises(EmbeddingError, match="from 2 to 3"):
        at(fake).documents(["a note", "another"])


def test_vectors_without_a_direction_become_zeros(fake: FakeOllama) -> None:
    fake.always = body('{"embeddings": [[0, 0], [NaN, 1], [Infinity, 1], [1e300, 1e300], [3, 4]]}')

    rows = at(fake).documents(list("abcde"))

    np.testing.assert_allclose(rows, np.array([[0, 0]] * 4 + [[0.6, 0.8]]), rtol=1e-6)


def test_unit_rows_come_out_of_no_rows() -> None:
    assert unit(np.zeros((0, 3))).shape == (0, 3)


def test_blank_texts_get_zeros_and_are_not_sent(fake: FakeOllama) -> None:
    rows = at(fake).documents(["", "a note", " \n"])

    assert sent(fake) == [["a note"]]
    assert [bool(row.any()) for row in rows] == [False, True, False]


def test_no_texts_need_no_server(fake: FakeOllama) -> None:
    assert at(fake).documents([]).shape[0] == 0
    assert fake.requests == []


def test_a_lone_surrogate_is_a_fair_text(fake: FakeOllama) -> None:
    assert at(fake).query("half \ud83d a face").any()


def test_a_text_that_gives_nan_costs_only_its_own_vector(fake: FakeOllama) -> None:
    def poisoned(texts: list[str]) -> tuple[int, bytes] | None:
        if "poison" in texts:
            return status(500, "failed to encode response: json: unsupported value: NaN")(texts)
        return vectors(texts)

    fake.always = poisoned

    rows = at(fake).documents(["a", "b", "poison", "c", "d"])

    assert [bool(row.any()) for row in rows] == [True, True, False, True, True]


def test_a_text_that_the_server_will_not_truncate_is_cut_until_it_fits(fake: FakeOllama) -> None:
    def strict(texts: list[str]) -> tuple[int, bytes] | None:
        if max(map(len, texts)) > 300:
            return status(400, "the input length exceeds the context length")(texts)
        return vectors(texts)

    fake.always = strict

    rows = at(fake, "nomic-embed-text").documents(["short", "long " * 200, "short too"])

    assert all(row.any() for row in rows)
    assert all(text.startswith("search_document: ") for texts in sent(fake) for text in texts)


def test_a_server_that_finds_every_text_too_long_is_an_error(fake: FakeOllama) -> None:
    fake.always = status(400, "the input length exceeds the context length")

    with pytest.raises(EmbeddingError, match="exceeds the context length"):
        at(fake).documents(["a note " * 100])


def test_no_server_is_said_at_once_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    pauses: list[float] = []

    with pytest.raises(EmbeddingError) as caught:
        OllamaEmbedder("plain", host=f"http://127.0.0.1:{port}", sleep=pauses.append).query("boiler")

    assert str(caught.value) == (
        f"Ollama does not answer at http://127.0.0.1:{port}; start it with `ollama serve`, "
        "or set TARS_EMBEDDING=builtin"
    )
    assert pauses == [0.0]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box.example", "http://box.example:11434"),
        ("box.example:8080", "http://box.example:8080"),
        ("https://box.example", "https://box.example:443"),
        ("https://box.example/ollama/", "https://box.example:443/ollama"),
        (":4000", "http://127.0.0.1:4000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("[::]:4000", "http://[::1]:4000"),
        ("http://ines:secret@box.example:80", "http://box.example:80"),
    ],
)
def test_hosts_are_read_as_ollama_reads_them(host: str, url: str) -> None:
    assert server(host).url == url


@pytest.mark.parametrize("host", ["http://box:port", "ftp://box", "http://[::1", "http://bo\x7fx", "a box"])
def test_what_is_no_address_is_said_before_anything_is_sent(host: str) -> None:
    with pytest.raises(EmbeddingError, match="is not an address"):
        OllamaEmbedder("plain", host=host)


@pytest.mark.parametrize(
    ("host", "leaves"),
    [
        (None, False),
        ("localhost", False),
        ("http://LOCALHOST:11434", False),
        ("127.8.9.1:80", False),
        ("http://[::1]:11434", False),
        ("0.0.0.0:11434", False),
        ("192.168.1.20", True),
        ("https://ollama.example", True),
        ("localhost.evil.example", True),
        ("http://127.0.0.1@evil.example", True),
        ("http://127.0.0.1.evil.example", True),
    ],
)
def test_only_loopback_stays_on_this_machine(host: str | None, leaves: bool) -> None:
    assert OllamaEmbedder("plain", host=host).leaves_machine is leaves


def test_a_loopback_server_is_asked_directly_whatever_the_proxy(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    assert at(fake).query("boiler").any()


def test_a_loopback_server_cannot_send_texts_elsewhere(fake: FakeOllama) -> None:
    fake.script = [lambda texts: (307, fake.host.replace("127.0.0.1", "localhost").encode() + b"/api/embed")]

    with pytest.raises(EmbeddingError, match="status 307"):
        at(fake).query("boiler")

    assert len(fake.requests) == 1


def test_credentials_reach_the_server_as_a_header(fake: FakeOllama) -> None:
    OllamaEmbedder("plain", host=fake.host.replace("://", "://ines:p%40ss@")).query("boiler")

    assert fake.headers[0]["authorization"] == "Basic aW5lczpwQHNz"


@pytest.mark.parametrize(
    "host",
    [
        "http://ines:secret@127.0.0.1:{port}",
        "http://ines:secret@box:notaport",
        "ftp://ines:secret@box",
        "http://ines:se/cret@box:80",
        "http://ines:1/cret@box:80",
        "http://ines:secret@[::1",
        "http://ines:secret@a box",
    ],
)
def test_credentials_never_stand_in_an_error(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(EmbeddingError) as caught:
        OllamaEmbedder("plain", host=host.format(port=port)).query("boiler")

    assert "cret" not in str(caught.value) and "ines" not in str(caught.value)


def test_the_client_is_imported_only_when_a_text_is_embedded() -> None:
    script = (
        "import sys; from tars.embeddings.ollama import OllamaEmbedder\n"
        "OllamaEmbedder('plain').leaves_machine; assert 'ollama' not in sys.modules"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
