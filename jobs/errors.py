"""Any error as text that can be stored and shown."""

import re
import traceback

ERROR_LIMIT = 2_048
TRACEBACK_LIMIT = 16_384
"""Characters kept of an error and of its traceback: either can be megabytes (pitfalls.md)."""
ADDRESS = re.compile(r"[^\s@<>()'\",;:/]{1,64}@[^\s@<>()'\",;:/]{1,255}")
"""Of a person, or a password before a host: neither belongs in a log or a row."""


def error_line(error: BaseException) -> str:
    """Class and text of any error as one storable line: no NUL, at most ERROR_LIMIT characters."""
    return " ".join(_shown(error).split())[:ERROR_LIMIT]


def traceback_text(error: BaseException) -> str:
    """The traceback of any error, its end where it is longer than TRACEBACK_LIMIT characters."""
    return _storable("".join(traceback.format_exception(error, limit=-30))[-TRACEBACK_LIMIT:])


def _shown(error: BaseException) -> str:
    try:
        return _storable(f"{type(error).__name__}: {error}"[:ERROR_LIMIT])
    except BaseException:
        return f"{type(error).__name__}: (its text cannot be made)"


def _storable(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return ADDRESS.sub("…@…", text)
