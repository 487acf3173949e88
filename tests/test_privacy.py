"""What must not be seen by others: files, keys, and what notes call private. Every way out is tried and searched."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import write
from servers import Call, Installed, Raw, Reply, Request, ScriptedAnthropic, ScriptedOllama, Step, finish, reply, status

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


# ---- what notes call private

MARK = "xpriv"
PRIVATE_NOTES = {
    "Memory.md": "# Memory\n\n- I drink tea.\n- The pin <private>xpriv-a</private> of the boiler.\n\n"
    "<PRIVATE>\n\n## xpriv-b\n\n- The boiler xpriv-c\n\n</Private>\n\n- The boiler is open.\n",
    "Procedural.md": "# Procedural\n\n- Be brief.\n\n<private>\n\n# xpriv-d\n\n- never closed, boiler xpriv-e\n",
    "diary.md": "---\ntitle: xpriv-f\naliases: [xpriv-g]\ntags: [xpriv-h]\ndescription: xpriv-i\nmood: xpriv-j\n"
    "private: true\n---\n\n# xpriv-k\n\nThe boiler [[boiler#xpriv|xpriv-l]] #xpriv-m\nkey:: xpriv-n\n",
    "boiler.md": "# Boiler\n\nThe boiler is old.\n\n<private>\n## xpriv-o\n\nThe boiler hides xpriv-p.\n\n"
    "```\nboiler xpriv-q\n```\n</private>\n\n## Service\n\nThe boiler was serviced in May.\n",
    "fence.md": "# Fence of the boiler\n\n```\nboiler code\n<private>\nboiler xpriv-r\n</private>\nboiler end\n```\n",
    "crlf.md": "# Boiler at home\r\n\r\n<private>\r\nboiler xpriv-s\r\n</private>\r\nboiler open\r\n",
    "nested.md": "boiler\n<private>\na <private>b</private>\nboiler xpriv-t\n</private>\nboiler two\n",
    "front.md": "---\ndescription: <private>xpriv-u</private>\n---\nboiler xpriv-v\n",
    "slip.md": "---\nprivate: true\ntitle: [xpriv-w\n---\nboiler xpriv-x\n",
    "field.md": "private:: yes\n\nboiler xpriv-y\n",
    "list.md": "- boiler open\n- boiler <private>xpriv-z\n  boiler xpriv-0</private> boiler xpriv-1\n- boiler last\n",
    "long.md": f"{'The boiler hums. ' * 60}<private>xpriv-2</private>{' The boiler xpriv-3.' * 60}\n",
    "links.md": "See [[diary]], ![[diary]] and [[boiler]] about the boiler.\n",
    "sessions/2026-01-01-xpriv-4.md": "---\nsession: 1\nprivate: true\n---\n\n- The boiler xpriv-5.\n",
}
READS = [{"path": path} for path in PRIVATE_NOTES if MARK not in path]
CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("memory_search", {"query": query, "limit": 20}) for query in ("boiler", "the pin of the boiler", "")),
    ("memory_search", {"query": "boiler", "after": "1990"}),
    *(("memory_read", read) for read in READS),
    *(("memory_read", {"path": "boiler.md", "start_line": a, "end_line": b}) for a, b in ((6, 6), (4, 9), (8, 17))),
    *(("memory_read", {"path": path}) for path in ("diry.md", "sessions/2026-01-01.md", "memory.md", "feld.md")),
    *(("memory_update", {"old": "The boiler", "new": "x", **read}) for read in READS),
    *(("memory_forget", {"text": "boiler of the", **read}) for read in READS),
    ("memory_forget", {"text": "Memory.md:4: The pin"}),
    ("memory_remember", {"fact": "I drink tea."}),
    ("memory_read", {"path": "nothing", "line": 3}),
]


class Nosy:
    """A model that tries everything there is at once, then answers; what it is asked aside is answered right away."""

    def __init__(self, calls: Iterable[tuple[str, dict[str, Any]]]) -> None:
        self.turns = [Reply(calls=tuple(Call(name, arguments) for name, arguments in calls))]

    def __call__(self, request: Request) -> Step:
        if not request.body.get("tools") or not self.turns:
            return reply("- 1, 2, 3: they asked about the boiler.")
        return self.turns.pop(0)


def opened(environ: Environ, **more: str) -> App:
    return App(load({}, environ={**environ, **more}))


def sent_to(server: ScriptedAnthropic | ScriptedOllama) -> str:
    return "\n".join(json.dumps([r.path, r.headers, r.body], ensure_ascii=False) for r in server.requests)


@pytest.mark.parametrize("stages", ["", "windows", "sections", "model_rerank imagine"])
def test_whatever_claude_asks_for_nothing_private_is_sent(environ: Environ, vault: Path, stages: str) -> None:
    write(vault, PRIVATE_NOTES)
    write(Path(environ["TARS_HOME"]), {"config.toml": f"[search]\non = {json.dumps(stages.split())}\n"})
    with ScriptedAnthropic([Nosy(CALLS)] * 500) as server:
        environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "TARS_MODEL": "claude:test"}
        with App(load({}, environ=environ)) as app:
            app.refresh()
            conversation = Conversation(app, app.provider())
            finish(conversation.ask("what about the boiler?"))
            finish(conversation.close())

    sent = sent_to(server)
    assert "The boiler is old" in sent and "serviced in May" in sent and "I drink tea" in sent and "withheld" in sent
    assert MARK not in sent.lower()
    assert "did you mean field.md" not in sent and "did you mean diary.md" not in sent
    assert ("Which of these passages" in sent) is ("model_rerank" in stages)
    assert not conversation.session or not conversation.session.private


def test_a_model_that_ollama_passes_on_to_another_machine_is_sent_nothing_private(
    environ: Environ, vault: Path
) -> None:
    write(vault, PRIVATE_NOTES)
    models = {"gpt:cloud": Installed(remote_host="https://ollama.com")}
    with ScriptedOllama([Nosy(CALLS)] * 9, models=models) as server, opened(environ, OLLAMA_HOST=server.url) as app:
        app.refresh()
        finish(Conversation(app, app.provider("ollama:gpt:cloud")).ask("what about the boiler?"))

    assert "The boiler is old" in sent_to(server) and MARK not in sent_to(server).lower()


def test_what_is_private_is_found_on_this_machine_and_told_to_a_model_on_it(environ: Environ, vault: Path) -> None:
    write(vault, PRIVATE_NOTES)
    marks = [f"xpriv-{mark}" for mark in "abcdefghijkmnopqrstuvwxyz01235"]
    with ScriptedOllama([reply("Well.")]) as server, opened(environ, OLLAMA_HOST=server.url) as app:
        app.refresh()
        found = {mark: app.search(f'"{mark}"', mode="fts", limit=100).results for mark in marks}
        finish(Conversation(app, app.provider("ollama:llama3.2")).ask("what about the boiler?"))

    assert [mark for mark, results in found.items() if not any(result.private for result in results)] == []
    assert "xpriv-a" in sent_to(server) and "xpriv-p" in sent_to(server)


def test_a_conversation_that_quoted_private_text_is_not_gone_on_with_elsewhere(environ: Environ, vault: Path) -> None:
    write(vault, PRIVATE_NOTES)
    first = tars({**environ, "TARS_MODEL": "recall"}, "what does the boiler hide?")
    with ScriptedAnthropic([reply("never")] * 3) as server:
        claude = {**environ, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url, "TARS_MODEL": "claude:test"}
        again = [tars(claude, "--continue", "and?"), tars(claude, "--resume", "20", "and?")]

    assert MARK in first.stdout
    assert [done.returncode for done in again] == [1, 1] and all("private" in done.stderr for done in again)
    assert server.requests == []


def test_the_note_of_a_private_conversation_is_not_shown_elsewhere_later(environ: Environ, vault: Path) -> None:
    write(vault, PRIVATE_NOTES)
    script = [reply("Yes."), reply("- They hid the xpriv-6 in the boiler.")]
    with ScriptedOllama(script) as local, opened(environ, OLLAMA_HOST=local.url) as app:
        app.refresh()
        conversation = Conversation(app, app.provider("ollama:llama3.2"))
        finish(conversation.ask("I hid something in the boiler."))
        finish(conversation.close())
    assert "xpriv-6" in "".join(path.read_text() for path in (vault / "sessions").glob("*.md"))
    nosy = Nosy([("memory_search", {"query": "", "type": "episodic", "limit": 20})])
    with ScriptedAnthropic([nosy] * 9) as server:
        environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        with App(load({}, environ=environ)) as app:
            app.refresh()
            finish(Conversation(app, app.provider("claude:test")).ask("what was hidden in the boiler?"))

    assert "results" in sent_to(server) and MARK not in sent_to(server)


def test_without_a_model_the_note_of_a_conversation_names_no_private_source(environ: Environ, vault: Path) -> None:
    notes = {"diary.md": "---\nprivate: true\n---\nThe walrus sleeps.\n", "zoo.md": "The walrus eats at noon.\n"}
    write(vault, notes)
    with App(load({}, environ=environ)) as app:
        app.refresh()
        conversation = Conversation(app, app.provider("recall"))
        finish(conversation.ask("My walrus is called Otto. What does the walrus do, sleep or eat?"))
        assert "diary.md" in conversation.last_answer() and "zoo.md" in conversation.last_answer()
        finish(conversation.close())

    note = next((vault / "sessions").glob("*.md")).read_text()
    assert "zoo.md" in note and "diary" not in note and "private" not in note


class Embedding(ScriptedOllama):
    """An Ollama that embeds, and keeps what it was given."""

    def __init__(self) -> None:
        super().__init__(models={"embedder-cloud": Installed(), "embedder": Installed()})

    def aside(self, request: Request) -> Step | bytes:
        if request.path != "/api/embed":
            return super().aside(request)
        self.requests.append(request)
        given = request.body["input"]
        texts = [given] if isinstance(given, str) else given
        return json.dumps({"embeddings": [[float(len(text)), 1.0, 2.0] for text in texts]}).encode()


@pytest.mark.parametrize(("model", "leaves"), [("embedder-cloud", True), ("embedder", False)])
def test_an_embedder_on_another_machine_gets_nothing_private(
    environ: Environ, vault: Path, model: str, leaves: bool
) -> None:
    write(vault, PRIVATE_NOTES)
    with Embedding() as server:
        environ |= {"OLLAMA_HOST": server.url, "TARS_EMBEDDING": f"ollama:{model}"}
        with App(load({}, environ=environ)) as app:
            app.build()
            app.build(full=True)
            found = app.search("the boiler", limit=100).results

    assert "The boiler is old" in sent_to(server)
    assert (MARK in sent_to(server)) is not leaves
    assert any(MARK in result.content for result in found)
