"""What is at work, on empty tables and an empty stream: nothing yet, or a relay and a worker."""

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
class Servers:
    """`connection` commits each statement."""

    url: str
    connection: psycopg.Connection
    redis: redis.Redis


@dataclass(frozen=True)
class Machinery(Servers):
    """`worker` is a process id."""

    worker: int


@contextlib.contextmanager
def machinery(place: Place) -> Iterator[Machinery]:
    """Start both and wait until they are ready."""
    with (
        servers(place) as bare,
        place.command("relay"),
        place.command(*WORKER) as worker,
    ):
        wait_until(lambda: processes.alive("relay") > 0, "relay")
        wait_until(lambda: processes.alive("worker") > 0, "worker")
        yield Machinery(bare.url, bare.connection, bare.redis, worker)


@contextlib.contextmanager
def servers(place: Place) -> Iterator[Servers]:
    """Connect and empty everything."""
    url = place.postgres.url("stagedoor")
    with (
        psycopg.connect(url, autocommit=True) as connection,
        contextlib.closing(redis.Redis.from_url(place.redis.url(0))) as client,
    ):
        connection.execute(CREATE)
        connection.execute("TRUNCATE jobs_outbox, jobs_processed, bench_row, bench_moment")
        client.delete(settings.JOBS["STREAM"])
        yield Servers(url, connection, client)
