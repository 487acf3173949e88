"""Settings and places: one frozen dataclass, one loader; the only reader of os.environ."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from tars.errors import TarsError, UsageError, keep_secret

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Places:
    """Where tars keeps what it keeps; nothing here is inside the memory folder."""

    config_file: Path
    data: Path
    state: Path

    def index_file(self, memory_dir: Path) -> Path:
        """One index per resolved memory folder; the name stays readable for the person who looks."""
        digest = hashlib.sha256(os.fsencode(memory_dir)).hexdigest()[:12]
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", memory_dir.name)[:40] or "memory"
        return self.data / "index" / f"{readable}-{digest}.db"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    chunk_chars: int = 600
    max_file_mb: int = 20

    def __post_init__(self) -> None:
        if not 100 <= self.chunk_chars <= 10_000:
            raise UsageError(f"setting 'index.chunk_chars' must be from 100 to 10000, not {self.chunk_chars}")
        if not 1 <= self.max_file_mb <= 1_000:
            raise UsageError(f"setting 'index.max_file_mb' must be from 1 to 1000, not {self.max_file_mb}")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    min_confidence: float = 0.02
    max_tokens: int = 4096
    keep_alive: str = "30m"
    max_num_ctx: int = 32_768


@dataclass(frozen=True, slots=True)
class Config:
    places: Places
    memory_dir: Path
    model: str = "auto"
    embedding: str = "builtin"
    ollama_host: str = "http://127.0.0.1:11434"
    anthropic_base_url: str = "https://api.anthropic.com"
    anthropic_api_key: str = field(default="", repr=False)  # only from the environment, and never shown
    editor: str = ""
    now: datetime | None = None
    index: IndexSettings = field(default_factory=IndexSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    search: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def index_file(self) -> Path:
        return self.places.index_file(self.memory_dir)


# The settings that a flag or the environment can also give: key, environment variable.
ENVIRONMENT = {
    "memory_dir": "TARS_MEMORY_DIR",
    "model": "TARS_MODEL",
    "embedding": "TARS_EMBEDDING",
    "ollama_host": "OLLAMA_HOST",
    "anthropic_base_url": "ANTHROPIC_BASE_URL",
    "now": "TARS_NOW",
}
# What the clients of the models take from the environment to sign in with.
SECRETS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY")
FLAGS = {"memory_dir": "--memory", "model": "--model", "embedding": "--embedding", "now": "--as-of"}
KNOWN_KEYS = ("memory_dir", "model", "embedding", "ollama_host", "anthropic_base_url", "index", "agent", "search")


def load(
    flags: Mapping[str, str | None] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Config:
    """Flag > environment > config file > default, with where each value came from."""
    places = find_places(environ)
    table = read_config_file(places.config_file)
    check_keys(table, KNOWN_KEYS, where="")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, variable in ENVIRONMENT.items():
        choices = (
            ((flags or {}).get(key), FLAGS.get(key, "")),
            (environ.get(variable), variable),
            (table.get(key), str(places.config_file)),
        )
        for value, origin in choices:
            if value is not None and value != "":
                values[key], origins[key] = text_setting(key, value), origin
                break
    memory_dir, memory_origin = find_memory(values.pop("memory_dir", None), places, cwd or Path.cwd())
    origins.setdefault("memory_dir", memory_origin)
    refuse_inside(memory_dir, places)
    if "now" in values:
        values["now"] = parse_now(values["now"], origins["now"])
    for section in ("index", "agent", "search"):
        if section in table:
            if not isinstance(table[section], dict):
                raise UsageError(f"[{section}] in {places.config_file} must be a table")
            origins.update({f"{section}.{key}": str(places.config_file) for key in table[section]})
    keep_secret(*(environ[name].strip() for name in SECRETS if name in environ))
    search = table.get("search", {})
    if preset := (flags or {}).get("preset"):
        search, origins["search.preset"] = {**search, "preset": preset}, "--preset"
    return Config(
        places=places,
        memory_dir=memory_dir,
        anthropic_api_key=environ.get("ANTHROPIC_API_KEY", ""),
        editor=environ.get("VISUAL") or environ.get("EDITOR") or "",
        index=fill(IndexSettings, table.get("index", {}), where="index"),
        agent=fill(AgentSettings, table.get("agent", {}), where="agent"),
        search=search,
        origins=origins,
        **values,
    )


def find_places(environ: Mapping[str, str]) -> Places:
    if home := environ.get("TARS_HOME"):
        base = Path(home).expanduser().absolute()
        return Places(base / "config.toml", base / "data", base / "state")
    import platformdirs

    dirs = platformdirs.PlatformDirs("tars", appauthor=False)
    try:
        return Places(dirs.user_config_path / "config.toml", dirs.user_data_path, dirs.user_state_path)
    except RuntimeError:
        raise UsageError("there is no home directory to keep things in; set HOME, or TARS_HOME to a folder") from None


def find_memory(given: str | None, places: Places, cwd: Path) -> tuple[Path, str]:
    """The memory folder, resolved, and why it is this one."""
    if given is not None:
        return resolve(cwd / expanded(given)), "given"
    if (cwd / "memory").is_dir():
        return resolve(cwd / "memory"), "./memory"
    return resolve(places.data / "memory"), "default"


def refuse_inside(memory_dir: Path, places: Places) -> None:
    """What tars keeps would be synchronised, indexed and written again for ever."""
    for place in (places.data, places.state):
        if place.resolve().is_relative_to(memory_dir):
            raise UsageError(f"{place} is inside the memory folder {memory_dir}; set TARS_HOME to a folder outside it")


def expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"memory folder {path}: there is no such user") from None


def resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise UsageError(f"memory folder {path}: {error}") from None


def read_config_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def check_keys(table: Mapping[str, Any], known: Iterable[str], *, where: str) -> None:
    """An unknown key is an error that names the nearest known one."""
    known = list(known)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"unknown setting '{dotted(where, key)}'; {hint}")


def fill(cls: type[T], table: Any, *, where: str) -> T:
    """A settings dataclass from its TOML table; the type of each default is the type that is asked for."""
    if not isinstance(table, dict):
        raise UsageError(f"setting '{where}' must be a table")
    defaults = {f.name: default_of(f) for f in fields(cls)}  # type: ignore[arg-type]
    check_keys(table, defaults, where=where)
    return cls(**{key: typed(dotted(where, key), value, defaults[key]) for key, value in table.items()})


def default_of(f: Any) -> Any:
    return f.default if f.default is not MISSING else f.default_factory()


def typed(key: str, value: Any, default: Any) -> Any:
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list | tuple):
        return tuple(typed(key, item, default[0] if default else "") for item in value)
    if type(value) is not type(default):
        raise UsageError(f"setting '{key}' must be {type_name(default)}, not {value!r}")
    return value


def type_name(default: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", tuple: "a list"}
    return names[type(default)]


def text_setting(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"setting '{key}' must be a text, not {value!r}")
    return value


def dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def parse_now(text: str, origin: str) -> datetime:
    """The clock, set by hand: an ISO date or time, local unless it names a zone."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(f"{origin}: '{text}' is not an ISO date or time such as 2026-03-01") from None


def use_one_thread(environ: MutableMapping[str, str] = os.environ) -> None:
    """Before numpy is imported: for matrices as small as ours, a second thread costs more than it gives.

    On a busy machine its spinning tripled the CPU time of a query.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        environ.setdefault(variable, "1")


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the terminal can do, as far as the environment tells."""

    colour: bool
    links: bool
    dumb: bool


# Set by terminals that are known to open OSC 8 links; others show them as plain text, or as rubbish.
KNOW_LINKS = ("VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "WEZTERM_EXECUTABLE", "KONSOLE_VERSION", "ALACRITTY_LOG")
PROGRAMS_WITH_LINKS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper")


def terminal(environ: Mapping[str, str] = os.environ) -> Terminal:
    dumb = environ.get("TERM", "") in ("dumb", "")
    links = any(environ.get(name) for name in KNOW_LINKS) or environ.get("TERM_PROGRAM") in PROGRAMS_WITH_LINKS
    return Terminal(colour=not no_colour(environ), links=links and not dumb, dumb=dumb and os.name != "nt")


def no_colour(environ: Mapping[str, str] = os.environ) -> bool:
    return bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"


# ---- for runs that a scheduler starts

XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


def kept_environment(environ: Mapping[str, str] = os.environ, *, ollama: bool = False) -> dict[str, str]:
    """What a run needs of the environment to find the same places and the same Ollama; never a key."""
    places = ("TARS_HOME",) if environ.get("TARS_HOME") else ("HOME", *XDG)
    kept = {name: str(expanded(environ[name]).absolute()) for name in places if environ.get(name)}
    if kept.get("HOME") == home_folder():
        del kept["HOME"]  # the scheduler sets it itself
    host = environ.get("OLLAMA_HOST", "")
    if "@" not in host and "?" not in host:
        return {**kept, "OLLAMA_HOST": host} if host else kept
    if ollama:
        raise UsageError(
            "OLLAMA_HOST holds a password, and a scheduler's table is no place for one;"
            " set ollama_host in the config file instead, and unset OLLAMA_HOST"
        )
    return kept


def login_environment() -> dict[str, str]:
    """All that cron gives a program."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        raise TarsError(f"the user {os.getuid()} has no account here, so no scheduler runs programs for it") from None
    return {"HOME": user.pw_dir, "LOGNAME": user.pw_name, "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}


def home_folder() -> str:
    """As the system knows it, whatever HOME says."""
    try:
        return login_environment()["HOME"]
    except (ImportError, TarsError):
        return ""


def in_plain_english(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For programs whose complaints are read."""
    return {**environ, "LC_ALL": "C"}


def user_units(environ: Mapping[str, str] = os.environ) -> Path:
    """Where systemd's user manager looks for units."""
    return Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser().absolute() / "systemd" / "user"
