"""What is added: entries by the relay, letters by whoever buries a job."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from jobs.job import Fields

from .connection import StreamAway, StreamRefused, client, translated
from .scripts import CREATE_GROUP_FIRST


class RelayStream:
    """The relay's side. Safe to use from one thread."""

    def __init__(self, url: str) -> None:
        self._redis = client(url, settings.REDIS_TIMEOUT)
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]

    def ensure_group(self) -> None:
        """Make the group: at `$` where no stream exists yet, else at 0, to miss nothing."""
        with translated():
            self._redis.eval(CREATE_GROUP_FIRST, 1, self._stream, self._group)

    def append(self, entries: Sequence[Mapping[str, str]]) -> list[str]:
        """Add the entries in one pipeline and return their ids, in order.

        Raises StreamAway if any was not answered: some may have been added all the same.
        """
        with translated():
            pipeline = self._redis.pipeline(transaction=False)
            for fields in entries:
                raw: dict[Any, Any] = dict(fields)
                pipeline.xadd(self._stream, raw, maxlen=settings.JOBS["MAXLEN"], approximate=True)
            return [entry_id.decode() for entry_id in pipeline.execute()]

    def ping(self) -> None:
        """Raise StreamAway or StreamRefused unless the server answers."""
        with translated():
            self._redis.ping()

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()


class Letters:
    """`jobs:dead`, the list of what was given up. Safe to share between threads."""

    def __init__(self, url: str) -> None:
        self._redis = client(url, settings.REDIS_TIMEOUT)
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]

    def add(self, fields: Fields, about: Mapping[str, str]) -> None:
        """Add one letter: the original fields, then what is to be said about them.

        Raises StreamAway: the letter may or may not be there.
        """
        flat = [part for pair in fields for part in pair]
        flat += [part.encode() for pair in about.items() for part in pair]
        with translated():
            self._redis.execute_command(  # type: ignore[no-untyped-call]
                "XADD", settings.JOBS["DEAD_STREAM"],
                "MAXLEN", "~", settings.JOBS["DEAD_MAXLEN"], "*", *flat,
            )  # fmt: skip

    def deliveries(self, entry_id: str) -> int:
        """How often the entry was given to a worker, as the server counts; 0 if not pending."""
        with contextlib.suppress(StreamAway, StreamRefused), translated():
            found: Any = self._redis.xpending_range(
                self._stream, self._group, entry_id, entry_id, 1
            )
            return int(found[0]["times_delivered"]) if found else 0
        return 0

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()
