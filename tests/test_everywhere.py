"""Forgetting everywhere: afterwards the text stands in no byte of any file, and nothing else has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import write
from servers import finish

from tars import everywhere, sessions
from tars.app import App
from tars.conversation import Conversation
from tars.db import Identity, init_db
from tars.doctor import examine, mend_modes
from tars.outline import NoteText
from tars.repl import InputHistory
from tars.sought import Sought

TEXT = "The vault opens with Zwölf 8312"
SPELLINGS = ("Zwölf 8312", "zwölf\\n8312", "ZWÖLF 8312", "zw\\u00f6lf 8312", "Zwo\u0308lf 8312")

Environ = dict[str, str]


def tars(environ: Environ, *args: str, stdin: bytes | int = b"") -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TARS_", "OLLAMA_", "ANTHROPIC_"))}
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run(
        [sys.executable, "-m", "tars", *args],
        env={**clean, "PYTHONUTF8": "1", **environ},
        cwd=Path(environ["TARS_HOME"]).parent,
        capture_output=True,
        check=False,
        **given,  # type: ignore[arg-type]
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def snapshot(*folders: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def holding(words: str, *folders: Path) -> list[str]:
    """Files in which the words stand, in any of the encodings and spellings that tars could have written."""
    forms = {form for word in (words, words.lower(), words.upper()) for form in (word, json.dumps(word)[1:-1])}
    encoded = [form.encode(name) for form in forms for name in ("utf-8", "utf-16-le", "utf-16-be")]
    return [str(path) for path, content in snapshot(*folders).items() if any(form in content for form in encoded)]


@pytest.fixture
def lived_in(make_app: Callable[..., App], vault: Path) -> App:
    """A memory with the text in every place that there is; the app is closed."""
    write(
        vault,
        {
            "Memory.md": f"# Memory\n\n- I drink tea.\n- {TEXT}, they say,\n  and I believe it.\n- Coffee too.\n",
            "untouched.md": "# Untouched\n\nThe vault opens with a key.\n",
            "house/wall.md": "# Wall\n\nStone.\nThe vault\nopens with zwo\u0308lf\n8312, I think.\nPlaster.\n",
            "sessions/2026-03-01-tea.md": f"---\nsession: 1\n---\n\n# Talk\n\n- {TEXT.upper()}.\n- Tea at five.\n",
        },
    )
    (vault / "bom.md").write_bytes(b"\xef\xbb\xbf---\r\ntitle: x\r\n---\r\nbefore\r\n" + TEXT.encode() + b"\r\nafter")
    (vault / "wide.md").write_bytes(b"\xff\xfe" + f"before\n> {TEXT}\nafter\n".encode("utf-16-le"))
    write(vault, {"gone.md": f"Once {TEXT} stood here.\n"})
    app = make_app(TARS_NOW="2026-03-01T10:00:00")
    app.build()
    (vault / "gone.md").unlink()
    conversation = Conversation(app, app.provider("recall"))
    finish(conversation.ask("what does the vault open with?"))
    app.record_use(app.search("vault opens").results)
    app.__exit__()
    state = app.config.places.state
    kept = sessions.Transcript(state / "sessions" / "20260228-090000.jsonl")
    kept.start(sessions.Session("20260228-090000", "claude:x", "be brief", "2026-02-28"))
    for piece in ("Well, the vault op", "ens with Zw", "ölf 83", "12."):
        kept.partial(piece)
    history = InputHistory(state / "history")
    history.append_string("how is the weather?")
    history.append_string(f"remember:\n{TEXT}")
    write(state, {"logs/index.log": f"10:00 ok\n10:01 could not read {TEXT}.md\n10:02 ok\n"})
    aside = app.config.index_file.with_name(app.config.index_file.stem + ".db.damaged-20260101")
    aside.write_bytes(b"SQLite format 3\0" + TEXT.encode())
    mend_modes(app)
    return app


def test_after_forgetting_everywhere_no_byte_of_any_file_says_it_and_the_rest_is_as_it_was(
    lived_in: App, environ: Environ, vault: Path
) -> None:
    home = lived_in.config.places.data.parent
    before = snapshot(vault)
    assert len(holding("8312", vault, home)) >= 9
    store = lived_in.store
    rows = store.conn.execute("SELECT id, tokens, hash FROM chunks WHERE content LIKE '%8312%'").fetchall()
    vectors = store.vectors([row[0] for row in rows])
    traces = [bytes(trace) for row in rows for trace in (row[1], row[2], vectors[row[0]])]
    lived_in.__exit__()

    done = tars(environ, "forget", "--everywhere", "--yes", TEXT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "no copy is left" in done.stdout and "backups" in done.stdout
    # The full text keeps words without their accents.
    assert holding("8312", vault, home) == holding("zwölf", vault, home) == holding("zwolf", vault, home) == []
    after = snapshot(vault, home)
    assert traces and not [path for path, content in after.items() for trace in traces if trace in content]
    assert after[vault / "untouched.md"] == before[vault / "untouched.md"]
    assert after[vault / "Memory.md"] == b"# Memory\n\n- I drink tea.\n- Coffee too.\n"
    assert after[vault / "house/wall.md"] == b"# Wall\n\nStone.\nPlaster.\n"
    assert after[vault / "sessions/2026-03-01-tea.md"] == b"---\nsession: 1\n---\n\n# Talk\n\n- Tea at five.\n"
    assert after[vault / "bom.md"] == b"\xef\xbb\xbf---\r\ntitle: x\r\n---\r\nbefore\r\nafter"
    assert after[vault / "wide.md"] == b"\xff\xfe" + "before\nafter\n".encode("utf-16-le")
    state = lived_in.config.places.state
    assert after[state / "history"] == b'"how is the weather?"\n'
    assert after[state / "logs/index.log"] == b"10:00 ok\n10:01 could not read [forgotten].md\n10:02 ok\n"
    assert "[forgotten]" in sessions.load(state / "sessions" / "20260228-090000.jsonl").messages[0].text
    assert all(sessions.load(path).messages for path in (state / "sessions").glob("*.jsonl"))
    assert not list(lived_in.config.index_file.parent.glob("*damaged*"))


def test_after_forgetting_everywhere_the_index_is_sound_and_finds_the_rest(
    lived_in: App, environ: Environ, make_app: Callable[..., App]
) -> None:
    assert tars(environ, "forget", "--everywhere", "--yes", TEXT).returncode == 0

    app = make_app()
    assert [check for check in examine(app) if not check.ok] == []
    assert app.search("tea at five").results[0].file_path == "sessions/2026-03-01-tea.md"
    assert app.search("Zwölf 8312", mode="fts").empty_reason is not None


def test_without_a_yes_nothing_changes_and_the_plan_names_every_copy(
    lived_in: App, environ: Environ, vault: Path
) -> None:
    home = lived_in.config.places.data.parent
    before = snapshot(vault, home)

    done = tars(environ, "forget", "--everywhere", TEXT)

    assert done.returncode == 2 and "--yes" in done.stderr
    assert snapshot(vault, home) == before
    named = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if not line.startswith(" ")]
    for name in ("Memory.md", "wall.md", "bom.md", "wide.md", "20260228-090000.jsonl", "history", "index.log", ".db"):
        assert any(name in line for line in named), name
    assert "  4: - The vault opens with" in done.stdout and "  5:   and I believe it." in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("answer", "status"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_on_a_terminal_it_asks_and_does_it_only_for_a_yes(
    environ: Environ, vault: Path, answer: bytes, status: int
) -> None:
    write(vault, {"Memory.md": f"- {TEXT}\n- tea\n"})
    keyboard, terminal = os.openpty()
    os.write(keyboard, answer)
    done = tars(environ, "forget", "--everywhere", TEXT, stdin=terminal)
    os.close(keyboard)
    os.close(terminal)

    assert done.returncode == status, done.stderr
    assert (vault / "Memory.md").read_text() == ("- tea\n" if status == 0 else f"- {TEXT}\n- tea\n")


def test_the_text_can_be_piped_in_so_that_no_shell_remembers_it(environ: Environ, vault: Path) -> None:
    write(vault, {"Memory.md": f"- {TEXT}\n- tea\n"})
    done = tars(environ, "forget", "--everywhere", "--yes", "-", stdin=f"{TEXT}\n".encode())

    assert done.returncode == 0
    assert (vault / "Memory.md").read_text() == "- tea\n"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["abc"], 2, "too short"),
        (["\u200b " * 9], 2, "too short"),
        (["nowhere to be found"], 3, "no copy"),
        (["some text", "--in", "Memory.md"], 2, "--in"),
    ],
)
def test_what_cannot_be_looked_for_or_found_is_told(
    environ: Environ, vault: Path, words: list[str], status: int, says: str
) -> None:
    write(vault, {"Memory.md": "- tea\n"})
    done = tars(environ, "forget", "--everywhere", "--yes", *words)

    assert done.returncode == status and says in done.stderr


def test_files_that_are_not_for_tars_to_change_are_named_and_left_alone(environ: Environ, vault: Path) -> None:
    write(
        vault,
        {
            "a.md": f"tea\n{TEXT}\n",
            ".trash/a.md": TEXT,
            "board.canvas": TEXT,
            "ignored/a.md": TEXT,
            "a.sync-conflict-1.md": TEXT,
            ".tarsignore": "ignored/\n",
            f"{TEXT}.md": "tea",
        },
    )
    subprocess.run(["git", "init", "-q", str(vault)], check=True)
    elsewhere = Path(environ["TARS_HOME"]) / "data" / "index" / "other-0123.db"
    init_db(elsewhere, Identity("/other", 3, "c", "t", "e", 4)).execute(f"INSERT INTO meta VALUES ('x', '{TEXT}')")
    before = snapshot(vault, elsewhere.parent)

    done = tars(environ, "forget", "--everywhere", "--yes", TEXT)

    assert done.returncode == 1
    after = snapshot(vault, elsewhere.parent)
    assert after[vault / "a.md"] == b"tea\n"
    for name in (".trash/a.md", "board.canvas", "ignored/a.md", "a.sync-conflict-1.md", f"{TEXT}.md"):
        assert f"not touched: {vault / name}" in done.stdout and f"still there: {vault / name}" in done.stdout
        assert after[vault / name] == before[vault / name]
    assert f"not touched: {elsewhere}" in done.stdout and "--memory" in done.stdout
    assert "git repository" in done.stdout


def test_a_note_that_changed_since_the_plan_is_left_alone_and_the_others_are_done(app: App, vault: Path) -> None:
    write(vault, {"a.md": f"{TEXT}\none\n", "b.md": f"{TEXT}\ntwo\n"})
    plan = everywhere.find(app.config, Sought(TEXT))
    write(vault, {"a.md": f"{TEXT}\none, changed\n"})
    problems = everywhere.carry_out(app, plan, Sought(TEXT))

    assert len(problems) == 1 and "a.md" in problems[0] and "changed" in problems[0]
    assert (vault / "a.md").read_text() == f"{TEXT}\none, changed\n"
    assert (vault / "b.md").read_text() == "two\n"


def test_the_note_of_a_conversation_that_is_named_after_what_goes_is_pointed_out(app: App, vault: Path) -> None:
    write(vault, {"sessions/2026-03-01-vault-8312.md": f"- {TEXT}.\n", "sessions/2026-03-01-tea.md": f"- {TEXT}.\n"})
    plan = everywhere.find(app.config, Sought(TEXT))

    assert list(everywhere.words_in_names(plan)) == [vault / "sessions/2026-03-01-vault-8312.md"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- a\n- x SECRET x\n  goes on\n  - child\n- b\n", "- a\n- b\n"),
        ("- a\n  goes on SECRET\n- b\n", "- b\n"),
        ("a\nSE\nCRET b\nc\n", "a\nSE\nCRET b\nc\n"),
        ("one\nx SECRET\ntwo", "one\ntwo"),
        ("one\nx SECRET", "one"),
        ("a\n\nSECRET\n======\n\nb\n", "a\n\n\nb\n"),
        ("# a SECRET\n\nb\n", "\nb\n"),
        ("```py SECRET\ncode\n```\n", "```\ncode\n```\n"),
        ("```\nSECRET\n```\n", "```\n```\n"),
        ("<private> SECRET\nhidden\n</private>\nopen\n", "<private>\nhidden\n</private>\nopen\n"),
        ("<private>\nhidden\nSECRET </private>\nopen\n", "<private>\nhidden\n</private>\nopen\n"),
        ("- <private>SECRET</private>\n- open\n", "- open\n"),
        ("---\ntitle: SECRET\nprivate: true\n---\nbody\n", "---\nprivate: true\n---\nbody\n"),
        ("---\naliases:\n  - SECRET\n  - b\n---\nbody\n", "---\naliases:\n  - b\n---\nbody\n"),
        ("a\r\nSECRET\r\nb\r", "a\r\nb\r"),
        ("[[SECRET|x]]\n![[y]]\n", "![[y]]\n"),
        ("SECRET\n", ""),
    ],
)  # fmt: skip
def test_only_the_lines_that_say_it_go_and_what_hides_or_encloses_others_stays(before: str, after: str) -> None:
    note = NoteText("a.md", before, b"", "utf-8", stamp="")

    assert (everywhere.without(note, Sought("secret"))[0].text if before in Sought("secret") else before) == after


@pytest.mark.parametrize("text", ["private:: SECRET\n\nbody\n", "---\nprivate: SECRET\n---\nbody\n"])
def test_a_line_that_makes_others_private_is_left_to_the_person(app: App, vault: Path, text: str) -> None:
    write(vault, {"a.md": text})
    plan = everywhere.find(app.config, Sought("secret"))

    assert plan.changes == () and "private" in plan.left[0].reason


@pytest.mark.parametrize(
    "spelled",
    [
        *SPELLINGS,
        "zwölf  8312",
        "zwölf\n> 8312",
        "zwölf\\\\n8312",
        "zwölf\\n14\\t8312",
        "zw\u00adölf 8312",
        "ZW\\u00D6LF\\t8312",
    ],
)
def test_a_text_is_found_however_it_is_spelled(spelled: str) -> None:
    assert f"x {spelled} y" in Sought(" Zwölf\n8312 ")
    assert "zwolf 8312" not in Sought("Zwölf 8312")
    assert Sought("Zwölf 8312").sub("-", f"ö {spelled} y").strip("ö y") == "-"


def test_a_memory_in_a_data_folder_that_is_a_link_is_not_taken_for_another(tmp_path: Path, environ: Environ) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    environ = {**environ, "TARS_HOME": str(tmp_path / "link"), "TARS_MEMORY_DIR": ""}
    tars(environ, "remember", TEXT)
    done = tars(environ, "forget", "--everywhere", "--yes", TEXT)

    assert done.returncode == 0 and "another memory" not in done.stdout + done.stderr


@pytest.mark.parametrize("sought", ["<private>", "private", "````"])
def test_a_mark_that_must_stay_is_left_to_the_person(app: App, vault: Path, sought: str) -> None:
    write(vault, {"a.md": "<private>\nhidden\n</private>\n\n````\ncode\n````\n"})
    plan = everywhere.find(app.config, Sought(sought))

    assert plan.changes == () and "by hand" in plan.left[0].reason


@pytest.mark.parametrize("word", ["a\u0307\u0323bcd", "\u0645\u062d\u0645\u0651\u064e\u062f", "e\u0301\u0f73bcd"])
def test_the_marks_of_a_letter_may_stand_in_any_order(app: App, vault: Path, word: str) -> None:
    write(vault, {"a.md": f"one\nx {word} y\n"})
    sought = Sought(unicodedata.normalize("NFC", word))

    assert everywhere.find(app.config, sought).changes[0].content == b"one\n"
    assert sought.sub("-", f"x {word}\u0316 y {word} z") == f"x {word}\u0316 y - z"


def test_escaped_marks_are_found_too() -> None:
    sought = Sought('say "<b>" & go')

    assert all(
        text in sought
        for text in (
            'say "<b>" & go',
            'say \\"<b>\\" & go',
            "say &quot;&lt;b&gt;&quot; &amp; go",
            "say \\u0022<b>\\u0022 \\u0026 go",
        )
    )
    assert 'say "b" & go' not in sought
