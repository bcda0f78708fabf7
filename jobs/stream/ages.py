"""What the stream's server tells whoever measures: ages as times by its own clock, and lengths."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from .connection import NoGroup, client, translated


@dataclass(frozen=True, slots=True)
class StreamAges:
    """One look. Times in seconds since 1970 by the server's clock, `now`.

    `waiting`, `running`: when the first unread and the oldest pending entry were added; None where
    there is none.
    """

    now: float
    waiting: float | None
    running: float | None
    length: int
    pending: int
    letters: int


class StreamMeter:
    """Keeps its connections; safe to share between threads.

    Raises StreamAway where the server does not answer within PROBE_TIMEOUT seconds, StreamRefused
    where it refuses.
    """

    def __init__(self, url: str) -> None:
        self._redis = client(url, settings.JOBS["PROBE_TIMEOUT"])
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]

    def look(self) -> StreamAges:
        """Two round trips, neither of which grows with the stream."""
        with translated():
            length, letters, groups, pending = self._lengths_and_group()
            first, now = self._first_after(self._last_delivered(groups))
        # A group that is missing has nothing pending; all that is on the stream waits.
        found = pending or {"pending": 0, "min": None}
        return StreamAges(
            now=now,
            waiting=_added_at(first),
            running=_added_at(found["min"]),
            length=length,
            pending=found["pending"],
            letters=letters,
        )

    def _lengths_and_group(self) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xlen(self._stream)
        pipeline.xlen(settings.JOBS["DEAD_STREAM"])
        pipeline.xinfo_groups(self._stream)
        pipeline.xpending(self._stream, self._group)
        return [_or_missing(answer) for answer in pipeline.execute(raise_on_error=False)]

    def _last_delivered(self, groups: Any) -> str:
        name = self._group.encode()
        found = (one["last-delivered-id"].decode() for one in groups or () if one["name"] == name)
        return next(found, "0-0")

    def _first_after(self, entry_id: str) -> tuple[bytes | None, float]:
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xrange(self._stream, f"({entry_id}", "+", count=1)
        # After the ids: an entry that was added meanwhile would be of an age below 0.
        pipeline.time()
        entries, (seconds, microseconds) = pipeline.execute()
        return entries[0][0] if entries else None, seconds + microseconds / 1_000_000

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()


def _or_missing(answer: Any) -> Any:
    if not isinstance(answer, Exception):
        return answer
    try:
        with translated():
            raise answer
    except NoGroup:
        return None


def _added_at(entry_id: bytes | None) -> float | None:
    return None if entry_id is None else int(entry_id.partition(b"-")[0]) / 1000
