"""Schedulers: what is written for them says what was meant, is carried out, and goes away without a trace."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from conftest import write

from tars.app import App
from tars.config import kept_environment, load
from tars.doctor import examine
from tars.errors import TarsError, UsageError
from tars.locks import Lock
from tars.schedule import (
    Entry,
    Every,
    choose,
    cron,
    entry_for,
    install,
    installed,
    is_late,
    launchd,
    parse_every,
    systemd,
)
from tars.schedule.cron import Cron
from tars.schedule.entry import log_for
from tars.schedule.launchd import Launchd
from tars.schedule.log import RunLog
from tars.schedule.systemd import Systemd

Environ = dict[str, str]

FAKE_CRONTAB = """\
#!/bin/sh
# A crontab program with its table beside it; like Debian's it takes no table that lacks the last line break.
here=$(dirname "$0")
case "$1" in
-l) [ ! -e "$here/refusal" ] || { cat "$here/refusal" >&2; exit 1; }
    [ -e "$here/table" ] || { echo "no crontab for me" >&2; exit 1; }
    cat "$here/table" ;;
-r) rm "$here/table" ;;
-)  echo written >>"$here/writes"; cat >"$here/new"
    [ -z "$(tail -c 1 "$here/new")" ] || { echo "missing newline before EOF" >&2; exit 1; }
    mv "$here/new" "$here/table" ;;
esac
"""
NOBODY = "#!/bin/sh\necho nobody is there >&2; exit 1\n"
# A program of a scheduler that does what it is told and notes it down.
FAKE_TOOL = '#!/bin/sh\necho "$@" >>"$(dirname "$0")/told"\n'


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def crontab(bin_folder: Path) -> Cron:
    program(bin_folder / "crontab", FAKE_CRONTAB)
    return Cron(str(bin_folder / "crontab"))


@pytest.fixture
def table(crontab: Cron) -> Path:
    """Where that crontab is kept."""
    return Path(crontab.program).with_name("table")


@pytest.fixture
def units(bin_folder: Path, tmp_path: Path) -> Systemd:
    program(bin_folder / "systemctl", FAKE_TOOL)
    return Systemd(tmp_path / "units", str(bin_folder / "systemctl"))


@pytest.fixture
def agents(bin_folder: Path, tmp_path: Path) -> Launchd:
    program(bin_folder / "launchctl", FAKE_TOOL)
    return Launchd(tmp_path / "agents", str(bin_folder / "launchctl"))


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def tars(environ: Environ, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tars", *args],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )


def entry(*words: str, every: int = 30, name: str = "notes-1a2b3c4d", **environment: str) -> Entry:
    return Entry(name, Every(every), words or ("/usr/bin/python3", "--memory", "/", "--log", "/x"), environment)


def real_entry(environ: Environ, every: int = 30) -> Entry:
    """The entry for a memory, with the environment that this one has."""
    config = load({}, environ=environ)
    return replace(entry_for(config, Every(every)), environment=kept_environment(environ))


# ---- how often


@pytest.mark.parametrize(
    ("text", "cron_fields", "calendar", "words"),
    [
        ("1m", "* * * * *", "*:0/1", "every minute"),
        ("15m", "*/15 * * * *", "*:0/15", "every 15 minutes"),
        ("30 minutes", "*/30 * * * *", "*:0/30", "every 30 minutes"),
        ("60m", "0 * * * *", "0/1:00", "every hour"),
        ("hourly", "0 * * * *", "0/1:00", "every hour"),
        ("6h", "0 */6 * * *", "0/6:00", "every 6 hours"),
        ("24h", "0 12 * * *", "12:00", "every day at 12:00"),
        ("daily", "0 12 * * *", "12:00", "every day at 12:00"),
        ("1d", "0 12 * * *", "12:00", "every day at 12:00"),
    ],
)
def test_an_interval_is_said_in_the_words_of_each_scheduler(
    text: str, cron_fields: str, calendar: str, words: str
) -> None:
    every = parse_every(text)

    assert (cron.fields(every), systemd.calendar(every), str(every)) == (cron_fields, calendar, words)


@pytest.mark.parametrize("text", ["45m", "0m", "7h", "2d", "soon", "", "-5m", "15", "1w"])
def test_an_interval_that_cannot_be_kept_exactly_is_refused_with_those_that_can(text: str) -> None:
    with pytest.raises(UsageError, match=r"30m, 1h, 2h.* daily"):
        parse_every(text)


@pytest.mark.parametrize(
    ("every", "now", "due"),
    [
        (1, "10:00:30", "10:01"),
        (15, "10:14:59", "10:15"),
        (15, "10:15:00", "10:30"),
        (120, "10:15:00", "12:00"),
        (480, "16:00:00", "00:00"),
        (1440, "11:59:59", "12:00"),
        (1440, "12:00:00", "12:00"),
    ],
)
def test_the_next_run_is_when_the_clock_on_the_wall_says_so(every: int, now: str, due: str) -> None:
    moment = datetime.fromisoformat(f"2026-03-03T{now}").astimezone()
    found = Every(every).after(moment)

    assert f"{found:%H:%M}" == due
    assert timedelta(0) < found - moment <= timedelta(minutes=every)


@pytest.mark.parametrize("minutes", [1, 20, 60, 180, 1440])
def test_launchd_is_told_the_same_times_as_cron(minutes: int) -> None:
    day = [datetime(2026, 3, 3) + timedelta(minutes=at) for at in range(1440)]
    told = launchd.calendar(Every(minutes))
    starts = [
        at for at in day if any(row.get("Hour", at.hour) == at.hour and row["Minute"] == at.minute for row in told)
    ]

    midnight = datetime(2026, 3, 3).astimezone() - timedelta(minutes=1)
    due = [midnight]
    while (following := Every(minutes).after(due[-1])).day == 3:
        due.append(following)
    assert [f"{at:%H:%M}" for at in starts] == [f"{at:%H:%M}" for at in due[1:]]


# ---- what is written

NASTY = [
    "with space",
    "it's",
    'so "called"',
    "100%",
    "%n %% \\%",
    "$HOME ${HOME} $$ $(id) `id`",
    "back\\slash \\\\ two \\",
    "ünïcödé 日本",
    "# hash; | & < > ( ) * ? [a] ~ !",
    "tab\there",
    "-n",
    "",
]


def through_cron(one: Entry) -> Entry:
    found = cron.OURS.match(cron.line(one))
    assert found
    return cron.parse(found)


def through_systemd(one: Entry, folder: Path) -> Entry:
    for part in Systemd(folder).render(one):
        Path(part.where).write_bytes(part.content)
    (found,) = Systemd(folder).entries()
    return found


def through_launchd(one: Entry, folder: Path) -> Entry:
    for part in Launchd(folder).render(one):
        Path(part.where).write_bytes(part.content)
    (found,) = Launchd(folder).entries()
    return found


@pytest.mark.parametrize("nasty", NASTY)
def test_every_scheduler_gives_back_what_it_was_told(tmp_path: Path, nasty: str) -> None:
    told = entry("/opt/it's my python", "-m", "tars", "--memory", nasty, "--log", nasty, TARS_HOME=nasty)

    assert through_cron(told) == told
    assert through_systemd(told, tmp_path) == told
    assert through_launchd(told, tmp_path) == told


def test_a_line_break_in_a_path_is_kept_where_it_can_be_and_refused_where_not(tmp_path: Path) -> None:
    told = entry("/usr/bin/python3", "--memory", "two\nlines\n", "--log", "x")

    assert through_systemd(told, tmp_path) == told
    assert through_launchd(told, tmp_path) == told
    with pytest.raises(TarsError, match="line break"):
        cron.line(told)


def test_what_a_scheduler_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TarsError, match="too long for cron"):
        cron.line(entry("/usr/bin/python3", "x" * 1000))
    with pytest.raises(TarsError, match="not UTF-8"):
        Systemd(tmp_path).render(entry("/usr/bin/python3", "caf\udce9"))
    with pytest.raises(TarsError, match="has = in its name"):
        Systemd(tmp_path).render(entry("/opt/a=b/python"))
    with pytest.raises(TarsError, match="control characters"):
        Launchd(tmp_path).render(entry("/usr/bin/python3", "bell\a"))


def test_bytes_that_are_no_text_reach_the_crontab_as_they_are() -> None:
    told = entry("/usr/bin/python3", "--memory", "caf\udce9", "--log", "x")

    assert b"caf\xe9" in cron.line(told)
    assert through_cron(told) == told


PERCENT = re.compile(r"(?<!\\)%.*")  # and what follows is input, to most crons
CRONS: dict[str, Callable[[str], str]] = {
    "Debian": lambda line: PERCENT.sub("", line).replace("\\%", "%"),
    "one that also halves backslashes": lambda line: re.sub(r"\\([%\\])", r"\1", PERCENT.sub("", line)),
    "one that leaves the line alone": lambda line: line,
}


@pytest.mark.parametrize("kind", CRONS)
def test_the_shell_of_any_cron_reads_the_words_that_were_meant(kind: str) -> None:
    show = "import os, sys; print(ascii([sys.argv[1:], os.environ['NASTY']]))"
    told = entry(sys.executable, "-c", show, *NASTY, NASTY="".join(NASTY))
    found = cron.OURS.match(cron.line(told))
    assert found
    done = subprocess.run(
        ["/bin/sh", "-c", CRONS[kind](os.fsdecode(found[2]))], capture_output=True, check=True, text=True
    )

    assert done.stdout == ascii([NASTY, "".join(NASTY)]) + "\n"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze to ask")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    nasty = [*NASTY, "two\nlines"]
    units = Systemd(tmp_path).render(entry(sys.executable, *nasty, every=120, TARS_HOME="".join(nasty)))
    for unit in units:
        Path(unit.where).write_bytes(unit.content)
    (tmp_path / "run").mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", *(unit.where for unit in units)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")},
        capture_output=True,
        check=False,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("plutil"), reason="there is no plutil to ask")
def test_macos_finds_nothing_wrong_with_the_property_list(tmp_path: Path) -> None:
    (part,) = Launchd(tmp_path).render(entry("/usr/bin/python3", *NASTY, TARS_HOME="".join(NASTY)))
    Path(part.where).write_bytes(part.content)

    assert subprocess.run(["plutil", "-lint", part.where], check=False).returncode == 0


def test_runs_are_of_low_priority_and_made_up_for(tmp_path: Path) -> None:
    service, timer = (part.content.decode() for part in Systemd(tmp_path).render(entry()))
    (part,) = Launchd(tmp_path).render(entry())
    agent = plistlib.loads(part.content)

    assert "Nice=10\nIOSchedulingClass=idle\n" in service
    assert "Persistent=true\n" in timer
    assert (agent["Nice"], agent["LowPriorityIO"]) == (10, True)


# ---- the environment


def test_the_environment_that_places_depend_on_is_written_down_and_no_key(tmp_path: Path) -> None:
    given = {"ANTHROPIC_API_KEY": "sk-ant-secret", "PATH": "/bin", "XDG_STATE_HOME": str(tmp_path), "TARS_NOW": "2020"}
    host = {"OLLAMA_HOST": "http://127.0.0.1:9"}

    assert kept_environment({**given, **host}) == {"XDG_STATE_HOME": str(tmp_path), **host}
    assert kept_environment({**given, "TARS_HOME": str(tmp_path / "home")}) == {"TARS_HOME": str(tmp_path / "home")}
    assert kept_environment({"HOME": str(tmp_path)}) == {"HOME": str(tmp_path)}


def test_a_home_that_the_scheduler_sets_itself_is_not_written_down() -> None:
    import pwd

    assert kept_environment({"HOME": pwd.getpwuid(os.getuid()).pw_dir}) == {}


@pytest.mark.parametrize("host", ["http://me:secret@far", "me:secret@far:11434", "http://far?key=secret"])
def test_a_password_in_the_address_of_ollama_is_left_out_and_refused_if_it_is_needed(host: str) -> None:
    assert kept_environment({"OLLAMA_HOST": host}) == {}
    with pytest.raises(UsageError, match="password") as error:
        kept_environment({"OLLAMA_HOST": host}, ollama=True)
    assert "secret" not in str(error.value)


def test_the_memory_is_absolute_and_settings_of_this_shell_are_kept(environ: Environ, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    found = entry_for(
        load({"embedding": "ollama:x"}, environ={"TARS_HOME": environ["TARS_HOME"]}, cwd=tmp_path), Every()
    )

    assert found.memory == str(tmp_path / "memory")
    assert found.program[-5:-1] == ("--embedding", "ollama:x", "index", "--log")
    assert Path(found.program[0]).is_absolute()


def test_a_folder_named_tars_where_the_scheduler_starts_is_not_the_program(
    environ: Environ, vault: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"start/tars/__init__.py": "raise SystemExit(9)", "start/tars/__main__.py": ""})
    found = entry_for(load({}, environ=environ), Every())

    assert subprocess.run(found.program, cwd=tmp_path / "start", env=environ, check=False).returncode == 0


# ---- cron, with a crontab program that keeps its table in a file

OTHERS = (
    b"# my own\r\nMAILTO=me\n\n*/5 * * * * /usr/bin/true \t# caf\xe9 100\\%\n"
    b"@daily x # tars-indexer y\n#0 0 * * * z # tars-index notes-1a2b3c4d\n"
)


@pytest.mark.parametrize("before", [OTHERS, OTHERS.rstrip(b"\n"), b"", None])
def test_other_lines_of_the_crontab_stay_as_they_are(crontab: Cron, table: Path, before: bytes | None) -> None:
    if before is not None:
        table.write_bytes(before)
    crontab.install(entry())
    during = table.read_bytes()
    crontab.remove(entry().id)
    after = table.read_bytes() if table.exists() else b""

    kept = before.rstrip(b"\n") + b"\n" if before else b""
    assert during == kept + cron.line(entry()) + b"\n"
    assert after == kept


def test_what_is_not_ours_is_not_removed_and_nothing_is_written(crontab: Cron, table: Path) -> None:
    table.write_bytes(OTHERS.rstrip(b"\n"))
    crontab.remove(entry().id)

    assert table.read_bytes() == OTHERS.rstrip(b"\n")
    assert not table.with_name("writes").exists()


def test_installing_twice_is_installing_once_and_other_settings_replace(crontab: Cron, table: Path) -> None:
    table.write_bytes(OTHERS + cron.line(entry()) + b"\n1 1 * * * last\n")
    crontab.install(entry())
    written = table.with_name("writes").exists()
    crontab.install(entry(every=120))

    assert not written
    assert table.read_bytes() == OTHERS + cron.line(entry(every=120)) + b"\n1 1 * * * last\n"


def test_a_crontab_that_cannot_be_read_is_left_alone(crontab: Cron, table: Path) -> None:
    table.write_bytes(OTHERS)
    table.with_name("refusal").write_text("crontab: you (me) are not allowed to use this program\n")

    for change in (lambda: crontab.install(entry()), lambda: crontab.remove(entry().id)):
        with pytest.raises(TarsError, match=r"left alone: crontab: you \(me\) are not allowed"):
            change()
    assert table.read_bytes() == OTHERS


def test_a_crontab_that_cannot_be_read_does_not_hide_the_entries_of_others(
    crontab: Cron, table: Path, units: Systemd
) -> None:
    table.with_name("refusal").write_text("no\n")
    units.install(entry())
    said: list[str] = []

    assert [one.scheduler.name for one in installed((crontab, units), said.append)] == ["systemd"]
    assert said == ["cannot read the crontab, so it is left alone: no"]


def test_two_memories_have_an_entry_each(crontab: Cron) -> None:
    crontab.install(entry())
    crontab.install(entry(name="work-1a2b3c4d", every=1440))
    both = crontab.entries()
    crontab.remove(entry().id)

    assert both == [entry(), entry(name="work-1a2b3c4d", every=1440)]
    assert crontab.entries() == both[1:]


def test_the_same_folder_under_another_home_of_tars_is_another_entry(environ: Environ, tmp_path: Path) -> None:
    assert real_entry(environ).id == real_entry(environ).id
    assert real_entry(environ).id != real_entry({**environ, "TARS_HOME": str(tmp_path / "other")}).id
    assert real_entry(environ).id != real_entry({**environ, "TARS_MEMORY_DIR": str(tmp_path / "other")}).id


def test_a_schedule_set_by_hand_is_listed_as_such(crontab: Cron, table: Path) -> None:
    crontab.install(entry())
    table.write_bytes(table.read_bytes().replace(b"*/30 *", b"7 8-18"))
    (found,) = installed((crontab,), print)
    row = found.row(datetime.now().astimezone())

    assert (row.schedule, row.next_run, row.memory) == ("as set by hand", None, "/")


def test_an_entry_that_missed_two_runs_is_late() -> None:
    last = datetime(2026, 3, 3, 10, 0).astimezone()

    assert not is_late(last, Every(30), last + timedelta(minutes=64))
    assert is_late(last, Every(30), last + timedelta(minutes=66))


# ---- systemd and launchd, with programs that note down what they are told


def test_systemd_is_told_of_the_timer_and_forgets_it(units: Systemd) -> None:
    units.install(entry(every=60))
    units.install(entry())
    found, files = units.entries(), sorted(file.name for file in units.folder.iterdir())
    units.remove(entry().id)
    timer = "tars-notes-1a2b3c4d.timer"

    assert (found, files) == ([entry()], ["tars-notes-1a2b3c4d.service", timer])
    assert not list(units.folder.iterdir())
    told = [line for line in told_to(units.program) if "show" not in line]
    once = ["--user daemon-reload", f"--user enable {timer}", f"--user restart {timer}"]
    assert told == [*once, *once, f"--user disable --now {timer}", "--user daemon-reload"]


def test_launchd_is_told_of_the_agent_and_forgets_it(agents: Launchd) -> None:
    agents.install(entry(every=60))
    agents.install(entry())
    found, (file,) = agents.entries(), list(agents.folder.iterdir())
    agents.remove(entry().id)

    assert found == [entry()]
    assert not list(agents.folder.iterdir())
    domain = f"gui/{os.getuid()}"
    bootout = f"bootout {domain}/tars.notes-1a2b3c4d"
    once = [bootout, f"bootstrap {domain} {file}"]
    assert told_to(agents.program) == [*once, *once, bootout]


def told_to(tool: str) -> list[str]:
    return Path(tool).with_name("told").read_text().splitlines()


def test_a_folder_that_cannot_be_written_is_one_clear_line(units: Systemd, agents: Launchd) -> None:
    for scheduler in (units, agents):
        scheduler.folder.write_text("in the way")
        with pytest.raises(TarsError, match=r"cannot write .*notes-1a2b3c4d"):
            scheduler.install(entry())


def test_units_and_agents_of_others_are_not_ours(units: Systemd, agents: Launchd) -> None:
    write(units.folder, {"tars-mine.timer": "[Timer]\nOnCalendar=daily\n", "tars-mine.service": "[Service]\n"})
    write(agents.folder, {"tars.mine.plist": "not a plist", "tars.b.plist": plistlib.dumps({"Label": "x"}).decode()})

    assert (units.entries(), agents.entries()) == ([], [])


def test_the_first_scheduler_that_works_is_used_and_takes_the_entry_over(
    crontab: Cron, table: Path, units: Systemd, tmp_path: Path
) -> None:
    among = (Launchd(tmp_path, "/gone/launchctl"), Systemd(units.folder, "/gone/systemctl"), crontab)
    install(entry(), choose("", entry(), among), among, print)
    first = [one.scheduler.name for one in installed(among, print)]
    among = (among[0], units, crontab)
    install(entry(), choose("", entry(), among), among, print)

    assert first == ["cron"]
    assert [one.scheduler.name for one in installed(among, print)] == ["systemd"]
    assert not table.exists()


def test_a_scheduler_that_does_not_answer_is_not_used(units: Systemd, crontab: Cron) -> None:
    program(Path(units.program), NOBODY)

    with pytest.raises(TarsError, match=r"systemd: no user manager answers \(nobody is there\)"):
        choose("systemd", entry(), (units, crontab))
    assert choose("", entry(), (units, crontab)) == crontab


def test_windows_is_told_what_to_type() -> None:
    told = entry("C:\\py thon.exe", "-m", "tars", "--memory", "C:\\no tes", "index")
    with pytest.raises(TarsError) as error:
        choose("", told, (Cron(),), windows=True)

    command = (
        'schtasks /Create /F /TN tars-notes-1a2b3c4d /SC MINUTE /MO 30 /TR "\\"C:\\py thon.exe\\" -m tars --memory'
    )
    assert command in str(error.value)


# ---- trying it

WEIRD = 'it\'s 100% "mine" $HOME \\ ü # ; `id`'


@pytest.mark.parametrize("kind", ["cron", "systemd", "launchd"])
def test_an_entry_runs_with_the_environment_of_its_scheduler_however_odd_the_paths(
    tmp_path: Path, crontab: Cron, units: Systemd, agents: Launchd, kind: str
) -> None:
    notes, home = tmp_path / WEIRD / "notes", tmp_path / WEIRD / "home"
    write(notes, {"a.md": "a walrus moved in"})
    odd = {"TARS_HOME": str(home), "TARS_MEMORY_DIR": str(notes)}
    scheduler = {"cron": crontab, "systemd": units, "launchd": agents}[kind]
    scheduler.install(real_entry(odd))
    program(Path(units.program), NOBODY)  # without a manager, what the unit says is run
    (found,) = scheduler.entries()
    fired = scheduler.fire(found)
    last = found.log.last()

    assert (fired.status, fired.output) == (0, "")
    assert last
    assert last.text.startswith("1 indexed, 0 removed, 0 skipped")
    with App(load({}, environ=odd)) as app:
        assert app.search("walrus").results


def test_an_entry_runs_with_the_shell_and_variables_that_the_crontab_sets(crontab: Cron, table: Path) -> None:
    say = b'echo "$GREETING from $SHELL $PATH, $(tty), ${TARS_MEMORY_DIR-none}"'
    table.write_bytes(b'GREETING = "hello you"\n* * * * * ' + say + b" # tars-index x\nGREETING=bye\n")
    (found,) = installed((crontab,), print)
    fired = crontab.fire(found.entry)

    assert fired.output == "hello you from /bin/sh /usr/bin:/bin, not a tty, none"
    assert found.last_run() is None


def test_a_manager_that_answers_starts_the_service_itself(units: Systemd) -> None:
    program(Path(units.program), FAKE_TOOL + 'case "$*" in *ExecMainStatus*) echo 4 ;; esac\n')
    units.install(entry())

    assert units.fire(entry()).status == 4
    assert "--user start tars-notes-1a2b3c4d.service" in told_to(units.program)


# ---- the command


def test_the_command_installs_lists_tries_and_removes(
    environ: Environ, vault: Path, table: Path, bin_folder: Path
) -> None:
    machine = {**environ, "PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(bin_folder)}
    write(vault, {"a.md": "a walrus"})
    nothing = tars(machine, "schedule", "test")
    done = tars(machine, "schedule", "install", "--cron", "--every", "1h")
    before = tars(machine, "schedule", "list")
    tried = tars(machine, "schedule", "test")
    after = tars(machine, "schedule", "list", "--json")
    table.write_bytes(table.read_bytes().replace(os.fsencode(sys.executable), b"/gone/python"))
    failed = tars(machine, "schedule", "test")
    removed = tars(machine, "schedule", "remove")
    again = tars(machine, "schedule", "remove", "--all")
    table.with_name("refusal").write_text("not today\n")
    refused = tars(machine, "schedule", "remove")

    assert (nothing.returncode, done.returncode, before.returncode) == (3, 0, 0)
    assert "tars schedule install" in nothing.stderr
    assert "every hour, by cron" in before.stdout
    assert "last run  none yet" in before.stdout
    assert (tried.returncode, tried.stderr) == (0, "")
    assert re.fullmatch(r"cron: exit status 0\n\S+\tdone\t1 indexed, 0 removed, 0 skipped in .*\n", tried.stdout)
    (row,) = json.loads(after.stdout)["entries"]
    assert (row["memory"], row["last_result"], row["late"]) == (str(vault), "done", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:00[+-]\d\d:\d\d", row["next_run"])
    assert failed.returncode == 1
    assert failed.stdout.startswith("cron: exit status 127\nno line was added to ")
    assert "/gone/python" in failed.stdout
    assert (removed.returncode, again.returncode, table.exists()) == (0, 3, False)
    assert (refused.returncode, "not today" in refused.stderr) == (1, True)


def test_print_shows_what_would_be_installed_on_any_machine_and_changes_nothing(
    environ: Environ, vault: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    keys = {"ANTHROPIC_API_KEY": "sk-ant-secret", "TARS_MODEL": "claude:x", "OLLAMA_HOST": "http://a:secret@b"}
    machine = {**environ, **keys, "HOME": str(tmp_path), "PATH": ""}
    done = tars(machine, "schedule", "install", "--print", "--systemd")

    assert done.returncode == 0
    assert str(vault) in done.stdout
    assert "secret" not in done.stdout
    assert "/systemd/user/tars-notes-" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_an_entry_for_a_folder_that_is_not_there_is_refused(crontab: Cron, table: Path) -> None:
    with pytest.raises(TarsError, match="does not exist"):
        install(entry("x", "--memory", "/gone"), crontab, (crontab,), print)
    assert not table.exists()


# ---- the log


def test_a_run_with_a_log_says_nothing_and_leaves_one_line(environ: Environ, vault: Path, tmp_path: Path) -> None:
    write(vault, {"a.md": "a walrus", "b.md": "a seal"})
    (vault / "c.md").write_bytes(b"\0\0binary")
    log = tmp_path / "logs" / "run.log"
    done = tars({**environ, "ANTHROPIC_API_KEY": "sk-ant-secret"}, "index", "--log", str(log))

    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d\tdone\t2 indexed, 0 removed, 1 skipped in \d.*\n", log.read_text()
    )
    assert (stat.S_IMODE(log.stat().st_mode), stat.S_IMODE(log.parent.stat().st_mode)) == (0o600, 0o700)


def test_a_run_beside_another_is_logged_as_such(environ: Environ, vault: Path, tmp_path: Path) -> None:
    lock = Lock(load({}, environ=environ).index_file.with_suffix(".lock"))
    assert lock.acquire()
    done = tars(environ, "index", "--log", str(tmp_path / "log"))
    lock.release()
    last = RunLog(tmp_path / "log").last()

    assert (done.returncode, done.stderr) == (0, "")
    assert last
    assert (last.result, last.text) == ("busy", "another process is indexing this memory; nothing to do")


def test_a_run_that_fails_is_logged_even_if_the_settings_cannot_be_read(environ: Environ, tmp_path: Path) -> None:
    write(Path(environ["TARS_HOME"]), {"config.toml": "modell = 1"})
    done = tars(environ, "index", "--log", str(tmp_path / "log"))
    last = RunLog(tmp_path / "log").last()

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert last
    assert (last.result, last.text) == ("failed", "unknown setting 'modell'; did you mean 'model'?")


def test_a_log_that_cannot_be_written_is_told(environ: Environ, vault: Path) -> None:
    done = tars(environ, "index", "--log", "/dev/null/log")

    assert done.returncode == 1
    assert "cannot write the log /dev/null/log" in done.stderr
    assert "0 indexed" in done.stderr


def test_the_log_stays_small_for_years_and_keeps_the_newest(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log", max_bytes=2_000)
    for number in range(500):
        log.add("failed", f"{number} " + "long\nstory " * 100)
    last = log.last()

    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1"]
    assert all(file.stat().st_size <= 2_000 for file in tmp_path.iterdir())
    assert last
    assert last.text.startswith("499 long story")
    assert all(line.count("\t") == 2 for line in log.file.read_text().splitlines())


def test_a_key_does_not_reach_the_log(tmp_path: Path) -> None:
    RunLog(tmp_path / "log").add("failed", "401 for sk-ant-api03-abcdef")

    assert "abcdef" not in (tmp_path / "log").read_text()


def test_the_doctor_knows_if_the_last_run_failed(app: App) -> None:
    never = [check.name for check in examine(app)]
    log_for(app.config).add("done", "1 indexed")
    done = {check.name: check.ok for check in examine(app)}
    log_for(app.config).add("failed", "no such folder")
    failed = {check.name: check for check in examine(app)}["scheduled run"]

    assert "scheduled run" not in never
    assert done["scheduled run"]
    assert (failed.ok, failed.remedy) == (False, "run: tars schedule test")
    assert failed.found.endswith(" failed: no such folder")


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log")
    log.add("done", "1 indexed")
    with log.file.open("a") as file:
        file.write("2026-03-")
    last = log.last()

    assert last
    assert last.text == "1 indexed"


# ---- a real cron


def why_no_cron() -> str:
    """The daemon of a Debian package, unpacked in TARS_TEST_CRON (or / where it is installed)."""
    if not os.environ.get("TARS_TEST_CRON"):
        return "TARS_TEST_CRON names no folder with a cron daemon (.ci/run fetches one); it takes a minute"
    if os.getuid() != 0:
        return "only root can start a cron daemon"
    apart = subprocess.run([*APART, "true"], capture_output=True, check=False)
    return "" if apart.returncode == 0 else "this machine gives no namespace to hide a second cron daemon in"


# The daemon's folders are fixed when it is built: it gets its own mounts there, and ends with the test.
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
START = """\
set -e
for folder in /run /var/spool /etc/cron.d; do [ ! -d $folder ] || mount -t tmpfs tmpfs $folder; done
[ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
mkdir -p /var/spool/cron/crontabs
echo '17 3 * * * /usr/bin/true' | crontab -
"$0" -m tars schedule install --cron --every 1m
crontab -l >&2
exec cron -f
"""


@contextmanager
def cron_daemon(environ: Environ) -> Iterator[subprocess.Popen[bytes]]:
    root = Path(os.environ["TARS_TEST_CRON"])
    path = f"{root / 'usr/sbin'}:{root / 'usr/bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
    with subprocess.Popen([*APART, "sh", "-c", START, sys.executable], env={**environ, "PATH": path}) as daemon:
        try:
            yield daemon
        finally:
            daemon.kill()


@pytest.mark.skipif(bool(why_no_cron()), reason=why_no_cron())
def test_the_entry_really_fires_and_finds_an_edit(environ: Environ, tmp_path: Path) -> None:
    notes = tmp_path / WEIRD
    write(notes, {"a.md": "nothing special"})
    odd = {**environ, "TARS_MEMORY_DIR": str(notes)}
    assert tars(odd, "index").returncode == 0
    log = real_entry(odd).log
    with cron_daemon(odd) as daemon:
        write(notes, {"a.md": "a walrus moved in"})
        deadline = time.monotonic() + 150
        while not ((last := log.last()) and "1 indexed" in last.text):
            assert time.monotonic() < deadline and daemon.poll() is None, f"cron did not fire: {last}"
            time.sleep(0.5)

    with App(load({}, environ=odd)) as app:  # which searches the index as it is
        assert [result.content for result in app.search("walrus").results] == ["a walrus moved in"]
    found = json.loads(tars(odd, "search", "walrus", "--json").stdout)
    assert [result["path"] for result in found["results"]] == ["a.md"]
