"""Where the entries of publications are, by raw commands."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from jobs.stream import raw_client

BATCH = 1000
"""Publications looked up in one round trip."""
ENTRY_ID = re.compile(r"(\d{1,19})-(\d{1,19})")

type Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Publication:
    """One outbox row and the entry that it names, empty where it names none."""

    outbox_id: int
    entry_id: str


class Entries:
    """The stream and its group, as the server's replies show them."""

    def __init__(self, url: str) -> None:
        self._redis = raw_client(url)
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]

    def lack(self, publications: Sequence[Publication]) -> list[Publication]:
        """Those whose entry is neither pending nor on the stream and still to be delivered.

        Raises what the client raises where the server does not answer.
        """
        # Before the pending entries: one that is delivered in between is seen as pending.
        delivered = self._last_delivered()
        if delivered is None:
            return list(publications)
        batches = itertools.batched(publications, BATCH)
        return [one for batch in batches for one in self._missing(batch, delivered)]

    def _last_delivered(self) -> Place | None:
        answers = self._ask([("XINFO", "GROUPS", self._stream)])
        for flat in answers[0] if answers else []:
            facts = dict(zip(flat[::2], flat[1::2], strict=True))
            if facts[b"name"] == self._group.encode():
                return _place(facts[b"last-delivered-id"].decode())
        return None

    def _missing(self, batch: Sequence[Publication], delivered: Place) -> list[Publication]:
        places = [_place(one.entry_id) for one in batch]
        ids = [f"{time}-{number}" for time, number in places]
        pending = self._ask([("XPENDING", self._stream, self._group, id, id, 1) for id in ids])
        present = self._ask([("XRANGE", self._stream, id, id) for id in ids])
        if pending is None or present is None:
            return list(batch)
        return [
            one
            for one, place, is_pending, is_present in zip(
                batch, places, pending, present, strict=True
            )
            if not is_pending and not (is_present and place > delivered)
        ]

    def _ask(self, commands: Sequence[tuple[str | int, ...]]) -> list[Any] | None:
        # None: there is no such stream or group, so that all that was on it is lost.
        pipeline = self._redis.pipeline(transaction=False)
        send: Callable[..., Any] = pipeline.execute_command
        for command in commands:
            send(*command, parse_detail=True)
        try:
            return list(pipeline.execute())
        except Exception as error:
            if "NOGROUP" in str(error) or "no such key" in str(error):
                return None
            raise

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()


def _place(entry_id: str) -> Place:
    found = ENTRY_ID.fullmatch(entry_id)
    return (int(found[1]), int(found[2])) if found else (0, 0)
