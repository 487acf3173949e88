"""The command line, run as a person or cron runs it: arguments in, text and a status out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import write
from histories import assert_well_formed, prompt, texts
from servers import ScriptedAnthropic, ScriptedOllama, nobody, reply, stalled, status, tool_use

from tars.cli import main, split_command
from tars.locks import Lock
from tars.sessions import load

Environ = dict[str, str]


def tars(environ: Environ, *args: str, stdin: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program; without `stdin` its input is /dev/null, which is neither a pipe nor a file."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_"))}
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-m", "tars", *args],
        env={**clean, **environ},
        cwd=Path(environ["TARS_HOME"]).parent,
        capture_output=True,
        check=False,
        **({"stdin": subprocess.DEVNULL} if data is None else {"input": data}),  # type: ignore[arg-type]
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")
    )


@pytest.fixture
def notes(vault: Path) -> Path:
    write(vault, {"Memory.md": "# Memory\n\n- I drink green tea.\n", "boiler.md": "# Boiler\n\nService in October.\n"})
    return vault


@pytest.mark.parametrize(
    ("argv", "command", "rest"),
    [
        (["index", "--full"], "index", ["--full"]),
        (["--memory", "index", "index"], "index", ["--memory", "index"]),
        (["--memory=x", "search", "tea"], "search", ["--memory=x", "tea"]),
        (["what", "does", "index", "do"], None, ["what", "does", "index", "do"]),
        (["--", "index", "is", "fun"], None, ["--", "index", "is", "fun"]),
        (["message", "me"], None, ["message", "me"]),
        (["-"], None, ["-"]),
        ([], None, []),
    ],
)
def test_the_first_bare_word_decides_between_command_and_message(
    argv: list[str], command: str | None, rest: list[str]
) -> None:
    assert split_command(argv) == (command, rest)


def test_without_a_model_a_message_is_answered_with_quotations(environ: Environ, notes: Path) -> None:
    done = tars(environ, "when", "is", "the", "boiler", "service?")

    assert done.returncode == 0
    assert done.stdout == "From your notes:\n\n- “Service in October.” (boiler.md:3)\n"
    assert "for the first time" in done.stderr
    assert "ANTHROPIC_API_KEY" in done.stderr


def test_the_first_question_indexes_and_later_ones_take_in_what_changed(environ: Environ, notes: Path) -> None:
    tars(environ, "tea")
    write(notes, {"new.md": "a walrus moved in"})
    done = tars(environ, "search", "walrus")

    assert done.stdout.startswith("new.md:1-1")
    assert done.stderr == ""


def test_double_dash_forces_a_message(environ: Environ, notes: Path) -> None:
    assert "green tea" in tars(environ, "--", "search", "tea").stdout


def test_piped_text_is_the_message_or_is_added_to_it(environ: Environ, notes: Path) -> None:
    assert "boiler.md" in tars(environ, stdin="boiler service\n").stdout
    assert "boiler.md" in tars(environ, "-", stdin="boiler service\n").stdout
    assert "boiler.md" in tars(environ, "what about this:", stdin="boiler service\n").stdout


def test_nothing_to_answer_is_wrong_usage(environ: Environ, notes: Path) -> None:
    done = tars(environ)

    assert (done.returncode, done.stdout) == (2, "")
    assert "tars --help" in done.stderr


def test_search_joins_its_words_and_takes_flags_on_both_sides(environ: Environ, notes: Path) -> None:
    one = tars(environ, "search", "green", "tea", "-n", "1", "--json")
    two = tars(
        {**environ, "TARS_MEMORY_DIR": "/nowhere"}, "--memory", str(notes), "search", "-n", "1", "--json", "green tea"
    )

    assert json.loads(one.stdout)["query"] == "green tea"
    assert json.loads(one.stdout)["results"] == json.loads(two.stdout)["results"]


def test_search_json_has_the_documented_shape(environ: Environ, notes: Path) -> None:
    answer = json.loads(tars(environ, "search", "tea", "--json").stdout)

    assert list(answer) == ["schema_version", "query", "mode", "took_ms", "results", "empty_reason"]
    assert answer["schema_version"] == 1 and answer["mode"] == "hybrid" and answer["empty_reason"] is None
    assert list(answer["results"][0]) == [
        "path", "start_line", "end_line", "title", "heading", "memory_type", "date", "modified", "score", "confidence",
        "content",
    ]  # fmt: skip
    first = answer["results"][0]
    assert (first["path"], first["memory_type"], first["title"]) == ("Memory.md", "semantic", "Memory")


def test_explain_shows_the_place_in_every_list(environ: Environ, notes: Path) -> None:
    plain = tars(environ, "search", "tea", "--explain").stdout
    ranks = json.loads(tars(environ, "search", "tea", "--explain", "--json").stdout)["results"][0]["ranks"]

    assert "words: place 1" in plain and "confidence" in plain
    assert set(ranks) == {"words", "vectors", "late"}


def test_a_batch_answers_each_line_with_an_object_and_ends_with_0(environ: Environ, notes: Path) -> None:
    done = tars(environ, "search", "-", "--json", stdin=b"tea\n\nxyzzyq\n\xff\xfe\x00\nboiler")
    answers = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0
    assert len(answers) == 5
    assert answers[0]["results"][0]["path"] == "Memory.md"
    assert answers[1]["results"], "an empty line lists the newest"
    assert all(a["results"] or a["empty_reason"]["code"] for a in answers)
    assert answers[4]["results"][0]["path"] == "boiler.md"


def test_a_batch_answers_before_its_input_ends(environ: Environ, notes: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tars", "search", "-", "--json"],
        env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin and process.stdout
    for _ in range(2):
        process.stdin.write(b"tea\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["results"]
    process.stdin.close()
    assert process.wait() == 0


def test_nothing_found_is_3_with_the_reason(environ: Environ, notes: Path) -> None:
    done = tars(environ, "search", "xyzzyq", "--mode", "fts")
    as_json = tars(environ, "search", "xyzzyq", "--mode", "fts", "--json")

    assert (done.returncode, done.stdout) == (3, "")
    assert "xyzzyq" in done.stderr
    assert as_json.returncode == 3
    assert json.loads(as_json.stdout)["empty_reason"]["code"] == "no_match"


def test_passages_that_are_far_off_are_called_the_nearest(environ: Environ, notes: Path) -> None:
    far, near = tars(environ, "search", "xyzzyq"), tars(environ, "search", "green tea")

    assert far.returncode == near.returncode == 0
    assert "the nearest" in far.stderr and "the nearest" not in near.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["search", "x", "--mode", "magic"], ["magic", "hybrid"]),
        (["search", "x", "--after", "tomorrow"], ["tomorrow"]),
        (["search", "x", "--after", "2026-02-31"], ["2026-02-31"]),
        (["search", "x", "--colour"], ["--colour"]),
        (["index", "--fast"], ["--fast"]),
        (["index", "--embedding", "magic"], ["magic", "builtin"]),
        (["--frobnicate", "hello"], ["--frobnicate"]),
    ],
)
def test_wrong_usage_is_2_and_one_line(environ: Environ, notes: Path, args: list[str], words: list[str]) -> None:
    done = tars(environ, *args)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in words)


def test_a_memory_folder_that_is_not_there_is_an_error_not_an_empty_memory(environ: Environ) -> None:
    done = tars({**environ, "TARS_MEMORY_DIR": "/nowhere/at/all"}, "index")

    assert done.returncode == 1
    assert "/nowhere/at/all" in done.stderr


def test_without_any_setting_a_memory_is_made_with_starter_notes(environ: Environ, tmp_path: Path) -> None:
    del environ["TARS_MEMORY_DIR"]
    done = tars(environ, "index")

    folder = tmp_path / "home" / "data" / "memory"
    assert done.returncode == 0
    assert (folder / "Memory.md").read_text().startswith("# Memory")
    assert str(folder) in done.stderr


def test_a_memory_folder_here_is_used_and_announced_the_first_time(environ: Environ, tmp_path: Path) -> None:
    del environ["TARS_MEMORY_DIR"]
    write(tmp_path, {"memory/a.md": "walrus"})
    first, second = tars(environ, "search", "walrus"), tars(environ, "search", "walrus")

    assert str(tmp_path / "memory") in first.stderr
    assert second.stderr == ""


def test_index_is_silent_without_a_terminal_and_counts_in_json(environ: Environ, notes: Path) -> None:
    assert (lambda d: (d.returncode, d.stdout, d.stderr))(tars(environ, "index")) == (0, "", "")
    report = json.loads(tars(environ, "index", "--full", "--json").stdout)
    assert report["indexed"] == 2 and report["skipped"] == []


def test_skipped_files_are_named_and_the_status_is_4(environ: Environ, notes: Path) -> None:
    (notes / "bad.md").write_bytes(b"caf\xe9")
    done, again = tars(environ, "index"), tars(environ, "index")
    report = json.loads(tars(environ, "index", "--json", "--quiet").stdout)

    assert done.returncode == again.returncode == 4
    assert "bad.md" in done.stderr and "UTF-8" in done.stderr
    assert report["skipped"][0]["path"] == "bad.md"


def shell(environ: Environ, command: str) -> subprocess.CompletedProcess[str]:
    line = command.replace("tars", f"{sys.executable} -m tars", 1)
    return subprocess.run(line, shell=True, env={**os.environ, **environ}, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name == "nt", reason="closes streams as a POSIX shell does")
def test_closed_streams_are_no_reason_to_fail(environ: Environ, notes: Path) -> None:
    assert shell(environ, "tars index >&- 2>&-").returncode == 0
    assert "Memory.md" in shell(environ, "tars search tea 2>&-").stdout
    assert shell(environ, "tars search tea >&-").returncode == 0
    assert shell(environ, "tars <&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_device_is_one_clear_line(environ: Environ, notes: Path) -> None:
    tars(environ, "index")
    done = shell(environ, "tars search tea > /dev/full")

    assert (done.returncode, done.stderr) == (1, "tars: cannot write the answer: no space left on the device\n")


@pytest.mark.parametrize("flag", ["--tag=", "--tag=#", "--path= "])
def test_a_filter_left_empty_is_wrong_usage_and_not_no_filter(environ: Environ, notes: Path, flag: str) -> None:
    ran = tars(environ, "search", "tea", flag)

    assert ran.returncode == 2 and not ran.stdout
    assert flag.split("=")[0] in ran.stderr and "is empty" in ran.stderr


def test_a_minimum_of_nothing_beats_the_config_file(environ: Environ, notes: Path) -> None:
    home = Path(environ["TARS_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("[search]\nmin_confidence = 0.999")

    assert tars(environ, "search", "tea").returncode == 3
    assert tars(environ, "search", "tea", "--min-confidence", "0").returncode == 0


def test_a_wrong_search_setting_is_told_by_every_command(environ: Environ, notes: Path) -> None:
    home = Path(environ["TARS_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("[search]\nlimitt = 3")
    done = tars(environ, "index")

    assert done.returncode == 2 and "limitt" in done.stderr


def test_a_file_is_no_memory_folder(environ: Environ, notes: Path) -> None:
    done = tars(environ, "index", "--memory", str(notes / "Memory.md"))

    assert done.returncode == 1 and "not a folder" in done.stderr


def test_a_closed_pipe_ends_quietly(environ: Environ, notes: Path) -> None:
    write(notes, {f"{n}.md": "tea " * 100 for n in range(120)})
    tars(environ, "index")
    command = f"{sys.executable} -m tars search tea -n 100 --json | head -c 10 >/dev/null"
    done = subprocess.run(command, shell=True, env={**os.environ, **environ}, capture_output=True, check=False)

    assert done.stderr == b""


def test_what_a_note_says_cannot_command_the_terminal(environ: Environ, notes: Path) -> None:
    (notes / "evil.md").write_text("walrus \x1b[2J\x1b]0;title\x07 \u202e gone")
    assert "\x1b" not in tars(environ, "search", "walrus").stdout


def test_config_doctor_and_stats_speak_of_this_memory(environ: Environ, notes: Path) -> None:
    config = tars(environ, "config").stdout
    assert "TARS_MEMORY_DIR" in config and "search.fusion.k" in config
    missing = tars(environ, "doctor")
    assert missing.returncode == 1 and "run: tars index" in missing.stdout
    assert "passages" in tars(environ, "stats").stdout
    healthy = tars(environ, "doctor")
    assert healthy.returncode == 0 and "FAIL" not in healthy.stdout
    assert json.loads(tars(environ, "doctor", "--json").stdout)["checks"][0]["ok"]


def test_doctor_knows_which_model_answers_and_how_to_have_one(environ: Environ, notes: Path) -> None:
    alone, named = tars(environ, "doctor"), tars({**environ, "TARS_MODEL": "recall"}, "doctor")

    assert "model: none, so answers are quotations\n     → for answers in words set ANTHROPIC_API_KEY" in alone.stdout
    assert "ok   model: recall\n" in named.stdout


def test_a_file_that_is_skipped_for_its_size_does_not_wait_to_be_looked_at(environ: Environ, notes: Path) -> None:
    with (notes / "huge.md").open("wb") as file:
        file.truncate(21_000_000)
    for name in ("Memory.md", "boiler.md"):
        os.utime(notes / name, (1_700_000_000, 1_700_000_000))
    tars(environ, "index")

    done = tars(environ, "doctor").stdout
    assert "index and folder: the same, 2 notes" in done and "skipped 'huge.md' (larger than" in done


def test_doctor_sees_tables_that_disagree(environ: Environ, notes: Path) -> None:
    import apsw

    tars(environ, "index")
    (database,) = Path(environ["TARS_HOME"]).rglob("*.db")
    conn = apsw.Connection(str(database))
    conn.execute("DELETE FROM chunks_fts WHERE rowid = 1")
    conn.close()
    done = tars(environ, "doctor")

    assert done.returncode == 1
    assert "chunks_fts" in done.stdout and "tars index --full" in done.stdout


def test_the_index_is_readable_by_its_owner_only(environ: Environ, notes: Path) -> None:
    tars(environ, "index")
    (database,) = Path(environ["TARS_HOME"]).rglob("*.db")

    assert database.stat().st_mode & 0o077 == 0
    assert database.parent.stat().st_mode & 0o077 == 0
    assert not list(notes.rglob("*.db*"))


@pytest.mark.parametrize("args", [["--help"], ["search", "tea"], ["index"]])
def test_nothing_heavy_is_imported_before_it_is_needed(environ: Environ, notes: Path, args: list[str]) -> None:
    tars(environ, "index")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tars", *args],
        env={**os.environ, **environ}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if "|" in line}

    assert not imported & {"anthropic", "ollama", "prompt_toolkit", "yaml", "httpx"}
    if args != ["search", "tea"]:
        assert "numpy" not in imported


def test_help_and_version_answer_at_once(environ: Environ) -> None:
    assert "tars search" in tars(environ, "--help").stdout
    assert tars(environ, "--version").stdout.startswith("tars ")
    assert "--explain" in tars(environ, "search", "--help").stdout


# ---- one-shot, with a model

KEY = "sk-ant-api03-a-key-that-nobody-has"


def claude(server: ScriptedAnthropic | None, environ: Environ) -> Environ:
    return {**environ, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url if server else nobody()}


@pytest.fixture
def here(
    environ: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The program in this process, which has paid for the import of the SDK already: a second of CPU for each run."""

    def run(server: ScriptedAnthropic | None, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        for name in list(os.environ):
            if name.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_")):
                monkeypatch.delenv(name)
        for name, value in {**claude(server, environ), **more}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        code = main(list(args))
        return subprocess.CompletedProcess(args, code, *capfd.readouterr())

    return run


Here = Callable[..., subprocess.CompletedProcess[str]]


def kept(environ: Environ) -> str:
    """Everything that tars keeps, but for the index."""
    home = Path(environ["TARS_HOME"])
    return "".join(
        path.read_text(errors="replace") for path in home.rglob("*") if path.is_file() and path.suffix != ".db"
    )


def session_files(environ: Environ) -> list[Path]:
    return sorted((Path(environ["TARS_HOME"]) / "state" / "sessions").glob("*.jsonl"))


def test_stdout_is_the_answer_alone_and_the_exit_status_is_0(here: Here, environ: Environ, notes: Path) -> None:
    script = [
        tool_use("memory_search", {"query": "boiler"}, "I look.", thinking=("Secret thoughts.",)),
        reply("In ", "October.\n"),
    ]
    with ScriptedAnthropic(script) as server:
        done = here(server, "when", "is", "the boiler service?")

    assert (done.returncode, done.stdout) == (0, "I look.\n\nIn October.\n")
    assert "October" not in done.stderr and "thoughts" not in done.stderr
    assert texts(server.requests[0]) == ["when is the boiler service?"]
    assert not list(notes.glob("sessions/*")), "a one-shot writes no note"
    assert len(session_files(environ)) == 1


def test_an_answer_is_printed_as_it_arrives(environ: Environ, notes: Path) -> None:
    with ScriptedOllama([stalled("The beginning")]) as server:
        process = start({**environ, "OLLAMA_HOST": server.url}, "hello")
        assert process.stdout and process.stdout.read(13) == b"The beginning"
        server.over.set()
        process.communicate()


def test_piped_text_is_the_message_or_follows_it(environ: Environ, notes: Path) -> None:
    recall = {**environ, "TARS_MODEL": "recall"}
    tars(recall, stdin="a page\nof text\n")
    tars(recall, "summarise this", stdin="a page\n")
    tars(recall, "compare", "-", "with mine", stdin="a page\n")
    tars(recall, "--", "--json", "is a flag")

    asked = [load(path).messages[0].text for path in session_files(environ)]
    assert sorted(asked) == sorted(
        ["a page\nof text", "summarise this\n\na page", "compare a page with mine", "--json is a flag"]
    )


def test_json_has_answer_citations_usage_and_model(here: Here, environ: Environ, notes: Path) -> None:
    text = "October (boiler.md:3), not (boiler.md:99)."
    with ScriptedAnthropic([reply(text, prompt=11, output=5, cache_read=7)]) as server:
        done = here(server, "--json", "when is the boiler service?")

    answer = json.loads(done.stdout)
    assert (answer["schema_version"], answer["answer"]) == (1, text)
    assert answer["citations"] == [
        {"path": "boiler.md", "start_line": 3, "end_line": 3, "shown": True},
        {"path": "boiler.md", "start_line": 99, "end_line": 99, "shown": False},
    ]
    assert answer["usage"] == {"input": 11, "output": 5, "cache_read": 7, "cache_write": 0}
    assert answer["model"].startswith("claude:") and answer["session"] == session_files(environ)[0].stem


def test_a_citation_of_what_was_never_shown_is_marked_on_stderr(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedAnthropic([reply("October (boiler.md:3), not (boiler.md:99).")]) as server:
        done = here(server, "when is the boiler service?")

    assert "boiler.md:99" in done.stderr and "never" in done.stderr
    assert "boiler.md:3 " not in done.stderr


def test_model_names_the_provider_and_the_model(here: Here, notes: Path) -> None:
    with ScriptedAnthropic([reply("Claude.")]) as server, ScriptedOllama([reply("Llama.")]) as ollama:
        assert here(server, "--model", "claude:other", "who?").stdout == "Claude.\n"
        assert here(server, "--model", "ollama:llama3.2", "who?", OLLAMA_HOST=ollama.url).stdout == "Llama.\n"
        assert here(server, "--model", "recall", "green tea").stdout.startswith("From your notes:")

    assert server.requests[0].body["model"] == "other"
    assert ollama.requests[0].body["model"] == "llama3.2"


def test_without_a_key_a_model_of_ollama_is_the_default(here: Here, notes: Path) -> None:
    with ScriptedOllama([reply("Llama.")]) as ollama:
        assert here(None, "who?", OLLAMA_HOST=ollama.url, ANTHROPIC_API_KEY="").stdout == "Llama.\n"


def test_no_memory_neither_reads_nor_indexes(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedAnthropic([reply("Hi.")]) as server:
        done = here(server, "--no-memory", "which tea do I drink?")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Hi.\n", "")
    assert "green tea" not in prompt(server.requests[0]) and "tools" not in server.requests[0].body
    assert not list(Path(environ["TARS_HOME"]).rglob("*.db"))


def test_no_save_leaves_nothing(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedAnthropic([reply("Hi.")]) as server:
        done = here(server, "--no-save", "--json", "hello")

    assert json.loads(done.stdout)["session"] is None
    assert not (Path(environ["TARS_HOME"]) / "state").exists()
    assert not list(notes.glob("sessions/*"))


def test_a_conversation_goes_on_with_continue_and_resume(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedAnthropic([reply(f"Answer {n}.") for n in range(1, 6)]) as server:
        here(server, "first", TARS_NOW="2026-03-01T10:00:00")
        here(server, "another", TARS_NOW="2026-03-01T10:00:00")
        here(server, "--continue", "second")
        here(server, "--resume", "20260301-100000", "third")
        ambiguous = here(server, "--resume", "2026", "x")
        unknown = here(server, "--resume", "1999", "x")
        here(server, "--continue", "--no-save", "fourth")

    assert texts(server.requests[2]) == ["another", "Answer 2.", "second"]
    assert texts(server.requests[3]) == ["first", "Answer 1.", "third"]
    assert texts(server.requests[4]) == ["first", "Answer 1.", "third", "Answer 4.", "fourth"]
    for done in (ambiguous, unknown):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1 and "20260301-100000-2" in done.stderr
    listed = here(None, "sessions").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["20260301-100000", "20260301-100000-2"]


def test_continue_without_an_earlier_conversation_is_an_error(environ: Environ, notes: Path) -> None:
    done = tars(environ, "--continue", "hello")

    assert (done.returncode, done.stdout) == (1, "")
    assert "no earlier conversation" in done.stderr


@pytest.mark.parametrize("name", ["clod:x", "recall:x", "ollama:"])
def test_an_unknown_model_is_wrong_usage_and_nothing_is_indexed_first(environ: Environ, notes: Path, name: str) -> None:
    done = tars(environ, "--model", name, "hi")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "recall" in done.stderr
    assert not list(Path(environ["TARS_HOME"]).rglob("*.db"))


def test_a_wrong_key_is_one_line_and_the_key_is_nowhere(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedAnthropic([status(401, f"invalid x-api-key {KEY}"), reply("Fine.")]) as server:
        refused = here(server, "hello")
        fine = here(server, "--continue", "hello again")
        listed = here(server, "config")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "401" in refused.stderr and "ANTHROPIC_API_KEY" in refused.stderr
    assert refused.stderr.splitlines()[-1].startswith("tars: the key was refused")
    assert fine.stdout == "Fine.\n"
    assert_well_formed(server.requests[-1])
    shown = [text for done in (refused, fine, listed) for text in (done.stdout, done.stderr)]
    assert not any(KEY in text for text in [*shown, kept(environ)])


def test_no_network_is_one_clear_line(here: Here, environ: Environ, notes: Path) -> None:
    done = here(None, "hello")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("tars: cannot reach http://127.0.0.1")
    assert "Traceback" not in done.stderr


def test_an_answer_that_breaks_off_keeps_what_came_and_ends_with_1(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedAnthropic([reply("Half an", ending="broken")]) as server:
        done = here(server, "hello")

    assert (done.returncode, done.stdout) == (1, "Half an")
    assert "broke off" in done.stderr
    assert "Half an" in kept(environ)


def start(environ: Environ, *args: str) -> subprocess.Popen[bytes]:
    """Run the program and do not wait; Ctrl-C reaches it even if it does not reach the tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "tars", *args],
        env={**clean, **environ},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def test_ctrl_c_ends_with_130_and_the_conversation_can_go_on(here: Here, environ: Environ, notes: Path) -> None:
    with ScriptedOllama([stalled("Half an")]) as slow, ScriptedAnthropic([reply("Whole.")]) as server:
        process = start({**environ, "OLLAMA_HOST": slow.url}, "hello")
        assert process.stdout and process.stdout.read(7) == b"Half an"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        done = here(server, "--continue", "--model", "claude", "and?")

    assert process.returncode == 130 and b"Traceback" not in errors
    assert done.stdout == "Whole.\n"
    assert texts(server.requests[-1]) == ["hello", "Half an", "and?"]


def test_a_reader_that_has_seen_enough_ends_the_answer_quietly(environ: Environ, notes: Path) -> None:
    with ScriptedOllama([reply(*["word "] * 400, delay=0.01)]) as server:
        process = start({**environ, "OLLAMA_HOST": server.url}, "hello")
        assert process.stdout and process.stderr and process.stdout.read(5) == b"word "
        process.stdout.close()
        errors = process.stderr.read()

        assert process.wait() == 0
    assert b"Traceback" not in errors and b"Broken" not in errors


def test_nothing_found_without_a_model_is_3(environ: Environ, notes: Path) -> None:
    done = tars({**environ, "TARS_MODEL": "recall"}, "--json", "xyzzyq")

    assert done.returncode == 3
    assert json.loads(done.stdout)["answer"].startswith("Your notes do not seem to say")


def test_a_damaged_index_is_a_warning_and_not_the_end(here: Here, environ: Environ, notes: Path) -> None:
    tars(environ, "index")
    (database,) = Path(environ["TARS_HOME"]).rglob("*.db")
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
    database.write_bytes(b"no database " * 1000)
    with ScriptedAnthropic([reply("Hi.")]) as server:
        done = here(server, "hello")

    assert (done.returncode, done.stdout) == (0, "Hi.\n")
    assert "damaged" in done.stderr
    assert "green tea" in prompt(server.requests[0])


def test_forget_takes_it_out_of_earlier_conversations_too(environ: Environ, notes: Path) -> None:
    tars({**environ, "TARS_MODEL": "recall"}, "which green tea do I drink?")
    before = kept(environ)
    done = tars(environ, "forget", "I drink green tea.")

    assert done.returncode == 0
    assert "I drink green tea" in before and "I drink green tea" not in kept(environ)


def test_ctrl_c_while_tars_is_still_starting_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise KeyboardInterrupt\n")
    run = subprocess.run(
        [sys.executable, "-m", "tars", "hello"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (130, "")


def test_an_index_run_beside_another_says_what_it_did_not_do(environ: Environ, vault: Path) -> None:
    write(vault, {"a.md": "walrus"})
    tars(environ, "index")
    (index_file,) = Path(environ["TARS_HOME"]).rglob("*.db")
    lock = Lock(index_file.with_suffix(".lock"))
    assert lock.acquire()
    plain, as_json, full = (tars(environ, "index", *flags) for flags in ([], ["--json"], ["--full"]))
    lock.release()

    assert plain.returncode == 0 and "another process" in plain.stderr
    assert as_json.returncode == 0 and json.loads(as_json.stdout)["busy"] is True
    assert full.returncode == 1 and "not made anew" in full.stderr


def test_a_conversation_over_one_memory_is_not_gone_on_with_over_another(
    environ: Environ, vault: Path, tmp_path: Path
) -> None:
    write(vault, {"a.md": "the walrus lives in the harbour"})
    write(tmp_path / "other", {"b.md": "the puffin nests on the cliff"})
    other = {**environ, "TARS_MEMORY_DIR": str(tmp_path / "other")}
    tars(environ, "--model", "recall", "where does the walrus live?")
    (transcript,) = (Path(environ["TARS_HOME"]) / "state" / "sessions").glob("*.jsonl")
    listed, went_on = tars(other, "sessions"), tars(other, "--continue", "--model", "recall", "and the puffin?")
    resumed = tars(other, "--resume", transcript.stem, "--model", "recall", "and the puffin?")

    assert listed.returncode == 3 and "walrus" not in listed.stdout
    assert went_on.returncode == 1 and "no earlier conversation" in went_on.stderr
    assert resumed.returncode == 1 and str(vault) in resumed.stderr and "walrus" not in resumed.stdout
    assert tars(environ, "--continue", "--model", "recall", "where does it live?").returncode == 0
