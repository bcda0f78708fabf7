"""Any error as text that can be stored and shown to staff, and as text for a log."""

import re
import traceback
from collections.abc import Iterator

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


class Discreet(Exception):
    """Its words are ours and name nobody: they may stand in a log.

    Those of any other error may quote what it was given, a buyer's name among it.
    """


def where(error: BaseException) -> str:
    """Where an error, and what caused it, were raised, and of which classes: for a log."""
    return "\nthen\n".join(_raised(one) for one in reversed(list(_chain(error))))


def _raised(error: BaseException) -> str:
    stack = "".join(traceback.format_tb(error.__traceback__, limit=-30))
    name = error_line(error) if isinstance(error, Discreet) else type(error).__name__
    return f"Traceback (most recent call last):\n{stack}{name}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


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
