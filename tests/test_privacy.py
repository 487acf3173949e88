"""What must not be seen by others: files, keys, and what notes call private. Every way out is tried and searched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import write
from servers import Raw, Request, ScriptedAnthropic, ScriptedOllama, Step, finish, reply, status

from tars import sessions
from tars.app import App
from tars.chat.claude import Claude
from tars.cli import show_bug
from tars.config import load
from tars.conversation import Conversation
from tars.doctor import examine, mend_modes
from tars.errors import TarsError, keep_secret, redact
from tars.repl import InputHistory

Environ = dict[str, str]


def tars(environ: Environ, *args: str, stdin: str = "", umask: int = -1) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_"))}
    return subprocess.run(
        [sys.executable, "-m", "tars", *args],
        env={**clean, **environ},
        cwd=Path(environ["TARS_HOME"]).parent,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )


# ---- rights

on_posix = pytest.mark.skipif(os.name == "nt", reason="rights are no bits there")


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in paths}


@on_posix
@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_whatever_the_umask_nobody_else_reads_what_tars_makes(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "made" / "home"
    environ = {"TARS_HOME": str(home), "TARS_MODEL": "recall"}
    (tmp_path / "made").mkdir(mode=0o700)
    asked = (["remember", "I drink tea"], ["what do I drink?"], ["index"])
    done = [tars(environ, *words, umask=umask).returncode for words in asked]
    before = os.umask(umask)
    InputHistory(home / "state" / "history").append_string("hello")
    os.umask(before)

    assert done == [0, 0, 0]
    found = modes(tmp_path / "made")
    assert {"home/state/history", "home/state/sessions", "home/data/memory/Memory.md"} < set(found)
    assert any(name.endswith(".lock") for name in found) and any(name.endswith(".jsonl") for name in found)
    for name, mode in found.items():
        assert mode == (0o700 if (tmp_path / "made" / name).is_dir() else 0o600), f"{name} {mode:o}"


@on_posix
def test_the_files_beside_an_open_index_are_its_owners_too(make_app: Callable[..., App], vault: Path) -> None:
    before = os.umask(0)
    try:
        write(vault, {"a.md": "tea"})
        app = make_app()
        app.build()
        app.record_use(app.search("tea").results)
        app.write_new("sessions/2026-03-01-tea.md", "# Tea\n")
        beside = modes(app.config.places.data)
    finally:
        os.umask(before)

    assert any(name.endswith("-wal") for name in beside) and any(name.endswith("-shm") for name in beside)
    assert not any(mode & 0o077 for mode in (*beside.values(), *modes(app.config.places.state).values()))
    assert modes(vault)["sessions"] == 0o700 and modes(vault)["sessions/2026-03-01-tea.md"] == 0o600


@on_posix
def test_a_note_that_the_person_made_keeps_its_rights(app: App, vault: Path) -> None:
    write(vault, {"Memory.md": "# Memory\n\n- tea\n"})
    (vault / "Memory.md").chmod(0o664)
    app.remember("I drink coffee")

    assert stat.S_IMODE((vault / "Memory.md").stat().st_mode) == 0o664


@on_posix
def test_the_doctor_names_what_others_can_read_and_it_can_be_mended(app: App, vault: Path) -> None:
    write(vault, {"a.md": "tea"})
    (vault / "a.md").chmod(0o644)
    app.build()
    app.config.index_file.chmod(0o640)
    log = app.config.places.state / "logs" / "run.log"
    log.parent.mkdir(parents=True)
    log.write_text("ran")
    log.chmod(0o604)

    assert "others can read" in next(check.found for check in examine(app) if not check.ok)
    assert {app.config.index_file, log} <= set(mend_modes(app))
    assert all(check.ok for check in examine(app))
    assert stat.S_IMODE((vault / "a.md").stat().st_mode) == 0o644


# ---- keys

KEY = "Marker-of-a-key-that-looks-like-none"  # known because it is configured
LOOKS_LIKE_ONE = "sk-ant-api03-0123456789abcdefghijklmnopqrstuv"


def everything(environ: Environ, done: subprocess.CompletedProcess[str] | None = None) -> str:
    """All that a run has shown or left behind."""
    base = Path(environ["TARS_HOME"]).parent
    files = [path.read_bytes().decode(errors="replace") for path in base.rglob("*") if path.is_file()]
    return "\n".join([*files, *((done.stdout, done.stderr) if done else ())])


def signed_with(request: Request) -> str:
    return request.headers.get("authorization", "") + request.headers.get("x-api-key", "")


def echo(code: int, padding: str = "") -> Callable[[Request], Step]:
    """A server that tells what it was sent, keys included; the padding moves them to where a line is cut."""
    return lambda request: status(code, f"{padding}x-api-key: {signed_with(request)} {request.headers}")


def echo_in_stream(request: Request) -> Step:
    error = {"type": "error", "error": {"type": "api_error", "message": signed_with(request)}}
    return Raw(f"event: error\ndata: {json.dumps(error)}\n\n")


@pytest.mark.parametrize("step", [*map(echo, (400, 401, 403, 404, 413, 500)), echo(400, "x" * 130), echo_in_stream])
def test_no_error_of_claude_shows_or_keeps_the_key(
    environ: Environ, vault: Path, step: Callable[[Request], Step]
) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    with ScriptedAnthropic([step] * 6) as server:
        environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_LOG": "debug"}
        conversation = Conversation(App(load({}, environ=environ)), Claude(api_key=KEY, base_url=server.url, retries=0))
        with pytest.raises(TarsError) as error:
            finish(conversation.ask("hello"))

    assert KEY in signed_with(server.requests[0])
    assert KEY[:12] not in str(error.value) + repr(conversation.app.config) + everything(environ)


def test_nothing_of_a_run_that_fails_shows_or_keeps_the_key_not_even_the_log_of_the_sdk(
    environ: Environ, vault: Path
) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    with ScriptedAnthropic([echo(400)] * 3) as server:
        environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_LOG": "debug"}
        plain = tars(environ, f"is {KEY} my key?")
        as_json = tars({**environ, "ANTHROPIC_LOG": ""}, "--json", "hello")

    assert plain.returncode == as_json.returncode == 1 and len(server.requests) == 2
    assert "DEBUG" in plain.stderr and "[key]" in plain.stderr
    assert KEY not in everything(environ, plain) + everything(environ, as_json)


def test_a_key_that_was_pasted_is_sent_but_not_kept(environ: Environ, vault: Path) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    with ScriptedAnthropic([reply(f"It is {LOOKS_LIKE_ONE}."), reply(f"- Uses the key {LOOKS_LIKE_ONE}.")]) as server:
        environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        with App(load({}, environ=environ)) as app:
            app.refresh()
            conversation = Conversation(app, Claude(api_key=KEY, base_url=server.url))
            finish(conversation.ask(f"My keys are {KEY} and {LOOKS_LIKE_ONE} now."))
            finish(conversation.close())
            assert conversation.session is not None
            kept = sessions.load(app.config.places.state / "sessions" / f"{conversation.session.id}.jsonl")
    InputHistory(Path(environ["TARS_HOME"]) / "state" / "history").append_string(f"I have {KEY} {LOOKS_LIKE_ONE}")

    assert LOOKS_LIKE_ONE in str(server.requests[0].body)
    assert kept.messages[0].text == "My keys are [key] and [key] now." and kept.messages[1].text == "It is [key]."
    assert list((vault / "sessions").glob("*.md"))
    assert KEY not in everything(environ) and LOOKS_LIKE_ONE not in everything(environ)


@pytest.mark.parametrize("command", [["config"], ["config", "--json"], ["doctor"], ["doctor", "--json"], ["index"]])
def test_a_password_in_an_address_is_never_shown(environ: Environ, vault: Path, command: list[str]) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    with ScriptedOllama() as server:
        host = server.url.replace("://", "://me:hush-hush@")
        done = tars({**environ, "OLLAMA_HOST": host, "TARS_EMBEDDING": "ollama:nomic-embed-text"}, *command)

    assert "hush" not in everything(environ, done) and "bWU6aHVzaC1odXNo" not in everything(environ, done)
    assert "127.0.0.1" in done.stdout + done.stderr


def test_a_password_that_the_servers_tell_back_is_not_shown(environ: Environ, vault: Path) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    with ScriptedOllama([echo(400)] * 3) as server:
        host = server.url.replace("://", "://me:hush-hush@")
        done = tars({**environ, "OLLAMA_HOST": host, "TARS_MODEL": "ollama:llama3.2"}, "hello")

    assert done.returncode == 1 and "x-api-key: " in done.stderr
    assert "hush" not in done.stderr and "bWU6aHVzaC1odXNo" not in everything(environ, done)


@pytest.mark.parametrize("name", ["OLLAMA_HOST", "ANTHROPIC_BASE_URL"])
def test_an_address_that_is_wrong_is_told_without_its_password(environ: Environ, name: str, vault: Path) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    model = "claude:x" if name.startswith("A") else "ollama:x"
    wrong = {name: "http://me:hush-hush@box:notaport/", "ANTHROPIC_API_KEY": KEY, "TARS_MODEL": model}
    done = tars({**environ, **wrong}, "hello")

    assert done.returncode in (1, 2) and "hush" not in done.stdout + done.stderr


def test_a_bug_keeps_its_traceback_but_for_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    keep_secret(KEY)
    message = f"{KEY} at https://me:hush@box/?token=abcdef and {LOOKS_LIKE_ONE}"
    try:
        raise KeyError(message)
    except KeyError:
        show_bug(*sys.exc_info())  # type: ignore[arg-type]

    shown = capsys.readouterr().err
    assert "Traceback" in shown and "test_privacy.py" in shown and shown.count("[key]") == 4
    assert not any(secret in shown for secret in (KEY, "hush", "abcdef", LOOKS_LIKE_ONE))


def test_words_are_not_taken_for_keys() -> None:
    text = "Basic mathematics, bearer certificates, sk-learn-pipelines, http://box:11434/a, risk-averse, me@box.example"

    assert redact(text) == text
