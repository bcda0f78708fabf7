"""A relay and a worker at work, on empty tables and an empty stream."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import redis
from django.conf import settings

from jobs import processes

from .loop import SLOTS
from .place import Place, wait_until
from .tables import CREATE

WORKER = ("runworker", "--name", "bench", "--slots", str(SLOTS), "--render-processes", "0")


@dataclass(frozen=True)
class Machinery:
    """`connection` commits each statement; `worker` is a process id."""

    url: str
    connection: psycopg.Connection
    redis: redis.Redis
    worker: int


@contextlib.contextmanager
def machinery(place: Place) -> Iterator[Machinery]:
    """Start both and wait until they are ready."""
    url = place.postgres.url("stagedoor")
    with (
        psycopg.connect(url, autocommit=True) as connection,
        contextlib.closing(redis.Redis.from_url(place.redis.url(0))) as client,
    ):
        connection.execute(CREATE)
        connection.execute("TRUNCATE jobs_outbox, jobs_processed, bench_row, bench_moment")
        client.delete(settings.JOBS["STREAM"])
        with place.command("relay"), place.command(*WORKER) as worker:
            wait_until(lambda: processes.alive("relay") > 0, "relay")
            wait_until(lambda: processes.alive("worker") > 0, "worker")
            yield Machinery(url, connection, client, worker)
