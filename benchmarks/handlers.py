"""The kinds of job that the benchmarks run: one row, nothing at all, the moment of its start."""

import time
from dataclasses import dataclass

from django.db import connection

from jobs.job import Job
from jobs.registry import handler

from .tables import MOMENT, NOTHING, ROW, WRITE_MOMENT, WRITE_ROW


@dataclass(frozen=True)
class NumberArgs:
    """Which job of its round."""

    number: int


@handler(ROW)
def write_row(job: Job[NumberArgs]) -> None:
    """State: the row is there."""
    with job.effects(), connection.cursor() as cursor:
        cursor.execute(WRITE_ROW, [job.outbox_id, job.args.number])


@handler(NOTHING)
def do_nothing(job: Job[NumberArgs]) -> None:
    """State: the job is done."""
    with job.effects():
        pass


@handler(MOMENT)
def write_moment(job: Job[NumberArgs]) -> None:
    """State: it is written down when this handler started, in ns by the machine's clock."""
    started = time.time_ns()
    with job.effects(), connection.cursor() as cursor:
        cursor.execute(WRITE_MOMENT, [job.outbox_id, started])
