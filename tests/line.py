"""The way of a job by hand, in the test's own thread: publish, read, sort, run, acknowledge."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction

from jobs import publishing
from jobs.outbox import enqueue, put
from jobs.pool import Pool
from jobs.runner import Outcome, Runner
from jobs.sorting import Sorted, Sorter
from jobs.stream import Entry, Letters, RelayStream


class Line:
    """A relay and a worker with all its slots, on the real stream; each step when it is called."""

    def __init__(self, redis: Any, worker: str = "worker-1") -> None:
        self.redis = redis
        self.worker = worker
        self.relay = RelayStream(settings.REDIS_URL)
        self.relay.ensure_group()
        self.letters = Letters(settings.REDIS_URL)
        self.sorter = Sorter(self.letters, worker)
        self.runner = Runner(worker, Pool(0), self.letters)

    def put(self, kind: str, count: int = 1) -> list[int]:
        """The outbox ids of so many new jobs of `kind`, which takes a `number`."""
        with transaction.atomic():
            return [enqueue(kind, number=number) for number in range(count)]

    def put_with(self, kind: str, **args: int | str) -> int:
        """The outbox id of a new job with these arguments."""
        with transaction.atomic():
            return put(kind, args)

    def publish(self) -> int:
        """One step of the relay."""
        return publishing.step(self.relay, 500)

    def published(self) -> list[int]:
        """The outbox id of every entry there ever was, in order."""
        return [int(fields[b"outbox_id"]) for _, fields in self.redis.xrange("jobs")]

    def read(self) -> list[Entry]:
        """New entries, which are pending from now on."""
        found = self.redis.xreadgroup("workers", self.worker, {"jobs": ">"}, count=1000)
        return [entry_of(*item) for _, items in found for item in items]

    def sort(self, entries: Sequence[Entry], *, redelivered: bool = False) -> Sorted:
        """Sort them as the worker does, and acknowledge what is concluded."""
        found = self.sorter.sort(entries, redelivered)
        self._acknowledge(found.concluded)
        return found

    def take(self) -> list[Outcome]:
        """Read, sort and run what is new on the stream, one after the other."""
        found = []
        for slot in self.sort(self.read()).runnable:
            found.append(self.runner.run(slot))
            if found[-1].acknowledges:
                self._acknowledge([slot.entry.id])
        return found

    def go(self) -> list[Outcome]:
        """Publish, and take what was published."""
        self.publish()
        return self.take()

    def pending(self) -> int:
        """Entries that the worker was given and that are not acknowledged."""
        return int(self.redis.xpending("jobs", "workers")["pending"])

    def _acknowledge(self, entry_ids: Sequence[str]) -> None:
        if entry_ids:
            self.redis.xack("jobs", "workers", *entry_ids)


def entry_of(entry_id: bytes, fields: dict[bytes, bytes] | None) -> Entry:
    """As the worker reads it; without fields where it was trimmed."""
    return Entry(entry_id.decode(), list((fields or {}).items()))
