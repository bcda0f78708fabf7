"""Any error as text that can be stored and shown."""

import traceback

ERROR_LIMIT = 2048
"""Characters kept: an error's text can be megabytes (pitfalls.md)."""


def error_line(error: BaseException) -> str:
    """Class and text of any error as one storable line: no NUL, at most ERROR_LIMIT characters."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 (an exception whose text cannot be made is still one)
        text = traceback.format_exception_only(type(error))[0].strip()
    cleaned = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return " ".join(cleaned.split())[:ERROR_LIMIT]
