"""What every server of models needs, whatever it serves: its address, text that can be sent, lines that help."""

from __future__ import annotations

import base64
import difflib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from tars.errors import TarsError, UsageError, keep_secret, redact

OLLAMA = "http://127.0.0.1:11434"
_PORTS = {"http": 80, "https": 443}
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is; `url` has no credentials and may be shown."""

    url: str
    loopback: bool
    authorization: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}

    @property
    def options(self) -> dict[str, Any]:
        """For the HTTP client: what is promised to stay on this machine must not leave by a proxy or a redirect."""
        return {"follow_redirects": not self.loopback, "trust_env": not self.loopback}


def server(host: str, *, setting: str = "OLLAMA_HOST", problem: type[TarsError] = UsageError) -> Server:
    """The address in OLLAMA_HOST's notation: a name, `name:port`, or a URL.

    >>> server("box.example").url
    'http://box.example:11434'
    """
    whole = "://" in host
    parts = _split(host if whole else f"http://{host}")
    if parts is None:
        # Only what stands behind the credentials is shown.
        shown = host.rpartition("@")[2]
        raise problem(f"{setting} '{shown}' is not an address; write it as http://name:11434")
    name = parts.hostname or "127.0.0.1"
    # These two tell a server where to listen; to reach it from here, one asks the loopback address.
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    port = parts.port or (_PORTS[parts.scheme] if whole else 11434)
    bracketed = f"[{name}]" if ":" in name else name
    url = f"{parts.scheme}://{bracketed}:{port}{parts.path.rstrip('/')}"
    return Server(url=url, loopback=_is_loopback(name), authorization=_authorization(parts))


def encodable(value: Any) -> Any:
    """The same text, or JSON value, without lone surrogates, which no JSON in UTF-8 can carry."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    return value


def one_line(text: object) -> str:
    """What a server said, fit for the one line of an error. Half a key would not be known for one: cut last."""
    return " ".join(redact(str(text)).split())[:_LONGEST_LINE]


def guard_logs() -> None:
    """Have the log lines of this process redacted: the SDKs write some if the environment says so, headers too."""
    import logging

    make = logging.getLogRecordFactory()
    if make is not logging.LogRecord:
        return  # guarded already

    def guarded(*args: Any, **more: Any) -> logging.LogRecord:
        record = make(*args, **more)
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return record

    logging.setLogRecordFactory(guarded)


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The three known names most like this one; the first three if none is."""
    names = list(dict.fromkeys(known))
    return difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]


def _split(url: str) -> SplitResult | None:
    """The parts of a URL that can be asked; None for any other text."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (read for its error: not a number, or beyond 65535)
        url.encode(errors="surrogateescape")  # for its error too: half a character
        url.rpartition("@")[2].encode()  # and a byte that is no text, which only a password may hold
    except ValueError:
        return None
    # An @ behind the host is a password with a slash in it: what looks like the host is then a user name.
    if parts.scheme not in _PORTS or "@" in parts.path + parts.query + parts.fragment:
        return None
    if parts.hostname and re.search(r"[^\w.:%-]", parts.hostname):
        return None
    return parts


def _is_loopback(name: str) -> bool:
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback


def _authorization(parts: SplitResult) -> str | None:
    """The clients forget credentials in a URL, so they go into the header that they stand for."""
    if parts.username is None:
        return None
    name, password = unquote(parts.username), unquote(parts.password or "")
    token = base64.b64encode(f"{name}:{password}".encode(errors="surrogateescape")).decode()
    keep_secret(password, parts.password or "", token)
    return f"Basic {token}"
