"""What is added: entries by the relay, letters by whoever buries a job."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from jobs.job import Fields

from .connection import StreamAway, StreamRefused, client, translated
from .scripts import CREATE_GROUP_FIRST, WHEREABOUTS

REMOVED_AT_ONCE = 500
LETTERS_AT_ONCE = 50
"""Letters read at once: with their tracebacks about 250 KB."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The ids of new entries, in order, and the epoch that the server knew then."""

    entry_ids: list[str]
    epoch: str


def _text(found: bytes | None) -> str:
    return (found or b"").decode(errors="replace")


class RelayStream:
    """The relay's side. Safe to use from one thread.

    `timeout`: seconds for one command, REDIS_TIMEOUT where it is not told.
    """

    def __init__(self, url: str, timeout: float | None = None) -> None:
        self._redis = client(url, timeout or settings.REDIS_TIMEOUT)
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]
        self._epoch_key = f"{self._stream}:epoch"
        self.seen_epoch = ""
        """The epoch at the last look."""
        self.rebuilt_at = float("-inf")
        """When this client rebuilt, by the monotonic clock."""

    def ensure_group(self) -> None:
        """Make the group: at `$` where no stream exists yet, else at 0, to miss nothing."""
        with translated():
            self._redis.eval(CREATE_GROUP_FIRST, 1, self._stream, self._group)

    def append(self, entries: Sequence[Mapping[str, str]]) -> Appended:
        """Add the entries in one pipeline that also asks for the epoch.

        Raises StreamAway if any was not answered: some may have been added all the same.
        """
        with translated():
            pipeline = self._redis.pipeline(transaction=False)
            for fields in entries:
                raw: dict[Any, Any] = dict(fields)
                pipeline.xadd(self._stream, raw, maxlen=settings.JOBS["MAXLEN"], approximate=True)
            pipeline.get(self._epoch_key)
            *entry_ids, epoch = pipeline.execute()
        self.seen_epoch = _text(epoch)
        return Appended([entry_id.decode() for entry_id in entry_ids], self.seen_epoch)

    def epoch(self) -> str:
        """The epoch that the server knows; empty where it knows none."""
        with translated():
            found: Any = self._redis.get(self._epoch_key)
        self.seen_epoch = _text(found)
        return self.seen_epoch

    def write_epoch(self, value: str) -> None:
        """Let the server know the epoch."""
        with translated():
            self._redis.set(self._epoch_key, value)
        self.seen_epoch = value

    def probe(self) -> None:
        """Raise StreamAway unless the server takes writes."""
        with translated():
            self._redis.set(f"{self._stream}:probe", "1", px=1000)

    def lost_among(self, entry_ids: Sequence[str]) -> list[str]:
        """Those of these, a few hundred at most, that are neither pending nor unread."""
        with translated():
            found: Any = self._redis.eval(WHEREABOUTS, 1, self._stream, self._group, *entry_ids)
        return [entry_id.decode() for entry_id in found]

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

    def add(self, fields: Fields, about: Mapping[str, str]) -> str:
        """Add one letter: the original fields, then what is to be said about them; its id.

        Raises StreamAway: the letter may or may not be there.
        """
        flat = [part for pair in fields for part in pair]
        flat += [part.encode() for pair in about.items() for part in pair]
        with translated():
            letter_id: bytes = self._redis.execute_command(  # type: ignore[no-untyped-call]
                "XADD", settings.JOBS["DEAD_STREAM"],
                "MAXLEN", "~", settings.JOBS["DEAD_MAXLEN"], "*", *flat,
            )  # fmt: skip
        return letter_id.decode()

    def count(self) -> int:
        """How many letters there are."""
        with translated():
            return int(self._redis.xlen(settings.JOBS["DEAD_STREAM"]))

    def read(self) -> Iterator[tuple[str, str]]:
        """The id of each letter with its key: the outbox id of its row, or the refused entry's id.

        Empty for a letter that tells neither.
        """
        after = "-"
        while True:
            with translated():
                page: Any = self._redis.xrange(
                    settings.JOBS["DEAD_STREAM"], min=after, count=LETTERS_AT_ONCE
                )
            for letter, fields in page:
                key = fields.get(b"row") or fields.get(b"entry_id", b"")
                yield letter.decode(), key.decode(errors="replace")
            if len(page) < LETTERS_AT_ONCE:
                return
            after = f"({page[-1][0].decode()}"

    def remove(self, letters: Sequence[str]) -> None:
        """Take these letters away."""
        for some in itertools.batched(letters, REMOVED_AT_ONCE):
            with translated():
                self._redis.xdel(settings.JOBS["DEAD_STREAM"], *some)

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
