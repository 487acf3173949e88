"""What the person can put right; everything else that goes wrong is a bug and keeps its traceback."""


class TarsError(Exception):
    """One line for the person: what is wrong, with the value, and what to do instead."""


class UsageError(TarsError):
    """The command line or a setting is wrong."""


class EmbeddingError(TarsError):
    """The embedding backend cannot be used now; text is still indexed and vectors stay pending."""
