"""What the person can put right; everything else that goes wrong is a bug and keeps its traceback."""

import re

# Keys as their makers write them, and whatever follows the name of the scheme in a header.
_KEYS = re.compile(r"\bsk-[\w-]{8,}|\b(?:Bearer|Basic)\s+[\w.~+/=-]{8,}")


class TarsError(Exception):
    """One line for the person: what is wrong, with the value, and what to do instead."""


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


def redact(text: str, *secrets: str) -> str:
    """The text without the secrets and without anything that looks like a key.

    >>> redact("invalid x-api-key: sk-ant-api03-abcdef")
    'invalid x-api-key: [key]'
    """
    for secret in secrets:
        # Less than this is no key, and would black out words.
        if len(secret) >= 6:
            text = text.replace(secret, "[key]")
    return _KEYS.sub("[key]", text)
