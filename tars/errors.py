"""What the person can put right; everything else that goes wrong is a bug and keeps its traceback."""

import re

# Keys as their makers write them; what follows the name of a header or of a parameter; a password in an address.
# Words must not be taken for keys ("Basic mathematics"), so a digit or mixed case is asked of what may be one.
_KEYS = re.compile(
    r"""\bsk-ant-[\w-]{4,}
      | \bsk-(?=[\w-]*\d)[\w-]{16,}
      | \b(?:gh[opsu]_|github_pat_|hf_|glpat-|xox[abprs]-|AIza|AKIA)[\w-]{16,}
      | (?<=://)[^\s/@:]*:[^\s/@]+(?=@)
      | (?P<scheme>\b(?i:Bearer|Basic)\s+)(?=\S*?(?:\d|[a-z][A-Z]|=))[\w.~+/=-]{8,}
      | (?P<header>\b(?i:x-api-key)[\\"']*\s*[:=,]\s*[\\"']*)[^\s\\"',]{4,}
      | (?P<parameter>[?&](?i:api[-_]?key|key|(?:access[-_]|auth[-_])?token|secret|password)=)[^\s&"'<>]+""",
    re.VERBOSE,
)
_SHORTEST = 6  # characters of a secret: less is none, and would black out words
_secrets: set[str] = set()  # of this process


class TarsError(Exception):
    """One line for the person: what is wrong, with the value, and what to do instead. It never shows a key."""

    def __str__(self) -> str:
        return redact(super().__str__())


class UsageError(TarsError):
    """The command line or a setting is wrong."""


class EmbeddingError(TarsError):
    """The embedding backend cannot be used now; text is still indexed and vectors stay pending."""


class DamagedIndex(TarsError):
    """The file of the index is no index, or none that can be read; it is set aside and made anew."""


class ChatError(TarsError):
    """The model cannot be asked, or its answer broke off; the message says what to do."""


class TooLongError(ChatError):
    """The conversation does not fit into the model's context; a shorter one may."""


def keep_secret(*secrets: str) -> None:
    """Have these redacted from now on, whatever they look like."""
    _secrets.update(secret for secret in secrets if len(secret) >= _SHORTEST)


def redact(text: str) -> str:
    """The text without the secrets of this process, and without anything that looks like a key.

    For everything that is shown or kept beside the conversation itself: errors, logs, transcripts, settings.

    >>> redact("invalid x-api-key: sk-ant-api03-abcdef at https://me:hush@box/v1?api_key=abc")
    'invalid x-api-key: [key] at https://[key]@box/v1?api_key=[key]'
    """
    for secret in sorted(_secrets, key=len, reverse=True):  # one may be part of another
        text = text.replace(secret, "[key]")
    return _KEYS.sub(lambda found: (found[found.lastgroup] if found.lastgroup else "") + "[key]", text)
