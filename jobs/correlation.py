"""Which request a line of log, an outbox row and an entry belong to: request id and W3C trace."""

import contextlib
import logging
import re
import secrets
from collections.abc import Iterator
from contextvars import ContextVar

_request_id: ContextVar[str] = ContextVar("request_id", default="")
_trace: ContextVar[str] = ContextVar("trace", default="")

_WELL_FORMED_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


def request_id() -> str:
    """The id of the request (or job) that this thread works on; empty outside of one."""
    return _request_id.get()


def trace() -> str:
    """`<trace id>-<parent span id>`, 32 and 16 hex digits; empty outside of a request or job."""
    return _trace.get()


@contextlib.contextmanager
def correlated(request: str, of_trace: str) -> Iterator[None]:
    """Within: `request_id()` and `trace()` answer these values, and log lines carry them."""
    tokens = _request_id.set(request), _trace.set(of_trace)
    try:
        yield
    finally:
        _request_id.reset(tokens[0])
        _trace.reset(tokens[1])


def accept_request_id(offered: str) -> str:
    """`offered` if it is well formed (8 to 64 letters, digits, `._-`), else a new one."""
    return offered if _WELL_FORMED_ID.fullmatch(offered) else secrets.token_hex(8)


def accept_trace(traceparent: str) -> str:
    """Trace id and parent span of a W3C `traceparent` header, or new ones where it has none."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None or set(found[1]) == {"0"} or set(found[2]) == {"0"}:
        return f"{secrets.token_hex(16)}-{secrets.token_hex(8)}"
    return f"{found[1]}-{found[2]}"


class CorrelationFilter(logging.Filter):
    """Puts `request_id` and `trace` on every record that does not name its own."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in (("request_id", _request_id.get()), ("trace", _trace.get())):
            if not hasattr(record, name):
                setattr(record, name, value)
        return True
