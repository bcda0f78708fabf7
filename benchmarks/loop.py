"""Bare psycopg: the statements of a job, one commit each, on 8 connections. Knows no Django.

`python -m benchmarks.loop` does so until it is ended, as a process whose memory can be read: it
works off what in the outbox is marked as relayed.
"""

import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg

from .tables import ROW, WRITE_ROW

SLOTS = 8
BATCH = 1000
LOOK_AGAIN = 0.05

type BareJob = tuple[int, str, str, str]
"""Outbox id, kind, args as JSON, request id."""

MOVE = """
WITH moved AS (
    DELETE FROM jobs_outbox WHERE id = %s AND kind = %s AND args = %s::jsonb AND request_id = %s
    RETURNING id, kind, args, subject, request_id, trace, created_at, due_at, attempts
)
INSERT INTO jobs_processed (outbox_id, kind, args, subject, request_id, trace,
    created_at, due_at, attempts, processed_at, worker, duration_ms, result)
SELECT moved.*, clock_timestamp(), 'bare', 0, 'done' FROM moved
"""
RELAYED = """
SELECT id, kind, args::text, request_id FROM jobs_outbox
WHERE relayed_at IS NOT NULL ORDER BY id LIMIT %s
"""


@contextlib.contextmanager
def bare_loop(url: str) -> Iterator[Callable[[Iterable[BareJob]], None]]:
    """Open the connections; gives what works jobs off, and returns once all are done."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(psycopg.connect(url)) for _ in range(SLOTS)]
        threads = stack.enter_context(ThreadPoolExecutor(SLOTS))

        def work_off(jobs: Iterable[BareJob]) -> None:
            list(threads.map(partial(_work_off, deque(jobs)), connections))

        yield work_off


def _work_off(jobs: deque[BareJob], connection: psycopg.Connection) -> None:
    while job := _next(jobs):
        with connection.transaction():
            connection.execute(MOVE, job)
            if job[1] == ROW:
                connection.execute(WRITE_ROW, [job[0], json.loads(job[2])["number"]])


def _next(jobs: deque[BareJob]) -> BareJob | None:
    try:
        return jobs.popleft()
    except IndexError:
        return None


def main() -> None:
    """Work off relayed rows for ever."""
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection, bare_loop(url) as work_off:
        while True:
            work_off(connection.execute(RELAYED, [BATCH]).fetchall())
            time.sleep(LOOK_AGAIN)


if __name__ == "__main__":
    main()
