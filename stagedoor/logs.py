"""How a line of log looks: JSON in production, readable in development; ids on both."""

import json
import logging
import math
import re
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter as _JsonFormatter

from jobs.errors import where

FIELDS = (
    "action", "kind", "outbox_id", "entry_id", "attempt", "result", "seconds", "worker",
    "method", "status",
)  # fmt: skip
SECRET_LINK = re.compile(r"""/o/[^/\s"'\\]+""")
ADDRESS = re.compile(
    r"""(?:"[^"\n]{1,64}"|[^\s"<>()\[\]{},;:=\\/]{1,64})(?:@|%40)[\w-]{1,63}(?:\.[\w-]{1,63})+"""
)
"""Bounded: a long line without one would take minutes."""


def without_secrets(text: str) -> str:
    """`text` with the secret of every order link, and every email address, masked.

    Django logs paths of its own accord; errors quote what they were given.
    """
    masked = SECRET_LINK.sub("/o/…", text) if "/o/" in text else text
    return ADDRESS.sub("…@…", masked) if "@" in masked or "%40" in masked else masked


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _is_json(value: Any) -> bool:
    # Python writes what is no number as NaN, which no reader of JSON knows.
    return value is None or isinstance(value, int) or _is_finite(value)


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


class JsonFormatter(_JsonFormatter):
    """One JSON object a line: time, level, logger, message, request id, trace, and the extras.

    Of an error where it was raised, without its words: these quote whatever it was given.
    """

    def __init__(self) -> None:
        super().__init__(
            "%(asctime)s %(levelname)s %(name)s %(message)s %(request_id)s %(trace)s",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        )

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """`2026-11-30T08:16:41.049Z`: before Django is set up the zone is the machine's."""
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def formatException(self, exc_info: Any) -> str:
        return where(exc_info[1])

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """The line, its secrets masked before anything is escaped: else a mask could cut that.

        What is no text becomes text here: Django hands over requests, whose words name their path.
        """
        masked = {
            name: value if _is_json(value) else without_secrets(str(value))
            for name, value in log_data.items()
        }
        return _encode(masked)


class ReadableFormatter(logging.Formatter):
    """`12:00:01 INFO  message  name=value … request=… trace=…`, for people.

    `words`: those of errors too, for whoever develops with nobody's data.
    """

    def __init__(self, *, words: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._words = words

    def formatException(self, ei: Any) -> str:
        return super().formatException(ei) if self._words else where(ei[1])

    def format(self, record: logging.LogRecord) -> str:
        """The line (and traceback), its secrets masked."""
        return without_secrets(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        shown = [f"{name}={getattr(record, name)}" for name in FIELDS if hasattr(record, name)]
        if request_id := getattr(record, "request_id", ""):
            shown.append(f"request={request_id} trace={getattr(record, 'trace', '')}")
        return "  ".join([super().formatMessage(record), *shown])
