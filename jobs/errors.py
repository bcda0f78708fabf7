"""Any error as text that can be stored and shown."""

import re
import traceback

ERROR_LIMIT = 2_048
TRACEBACK_LIMIT = 16_384
"""Bytes kept of an error and of its traceback: either can be megabytes (pitfalls.md)."""
LONGEST_ADDRESS = 400
"""Characters: one that a cut goes through must still be known as an address."""
ADDRESS = re.compile(
    r"""(?:"[^"\n]{1,64}"|[^\s@<>()",;:/]{1,64})(?:@|%40)[^\s@<>()'",;:/]{1,255}"""
)
"""Of a person, or a password before a host: neither belongs in a log or a row."""


def error_line(error: BaseException) -> str:
    """Class and text of any error as one storable line, at most ERROR_LIMIT bytes."""
    return " ".join(storable(_text(error)).split())


def traceback_text(error: BaseException) -> str:
    """The traceback of any error, its end where it is longer than TRACEBACK_LIMIT bytes."""
    text = "".join(traceback.format_exception(error, limit=-30))
    safe = _safe(text[-TRACEBACK_LIMIT - LONGEST_ADDRESS :]).encode()[-TRACEBACK_LIMIT:]
    return safe.decode(errors="ignore")


def storable(text: str, limit: int = ERROR_LIMIT) -> str:
    """`text` without NUL, surrogates and addresses, cut to `limit` bytes."""
    return _safe(text[: limit + LONGEST_ADDRESS]).encode()[:limit].decode(errors="ignore")


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return f"{type(error).__name__}: (its text cannot be made)"


def _safe(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return ADDRESS.sub("…@…", text)
