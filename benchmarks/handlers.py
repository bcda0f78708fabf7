"""The kind of job that the jobs benchmark runs: it writes one row."""

from dataclasses import dataclass

from django.db import connection

from jobs.job import Job
from jobs.registry import handler

TABLE = "CREATE TABLE IF NOT EXISTS bench_row (outbox_id bigint PRIMARY KEY, number int NOT NULL)"
INSERT = "INSERT INTO bench_row (outbox_id, number) VALUES (%s, %s)"


@dataclass(frozen=True)
class RowArgs:
    """Which row."""

    number: int


@handler("bench_row")
def write_row(job: Job[RowArgs]) -> None:
    """State: the row is there."""
    with job.effects(), connection.cursor() as cursor:
        cursor.execute(INSERT, [job.outbox_id, job.args.number])
