"""The command line, run as a person or cron runs it: arguments in, text and a status out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import write

from tars.cli import split_command

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
