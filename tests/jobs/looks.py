"""What tests of `manage.py jobs` do: call it, put rows and entries where they are to be seen."""

import io
from datetime import timedelta
from typing import Any

import pytest
import redis as redis_client
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue

CLOSED = "redis://127.0.0.1:1/0"
AWAY = {"DATABASE_URL": "postgres://nobody:secret@127.0.0.1:1/none"}
TOLERANCE = 3.0
"""Seconds that a loaded machine may lose between an act and the look at it."""


def run(*words: str) -> tuple[int, str, str]:
    """The exit code of `manage.py jobs`, what it prints, and its complaints."""
    printed, complaints = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("jobs", *words, stdout=printed, stderr=complaints)
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.getvalue(), complaints.getvalue()


def done(kind: str, count: int = 1, *, seconds: float = 1.0, ago: float = 0.0) -> None:
    """So many jobs that took so long and were done so long ago; newer than all before."""
    at, first = timezone.now() - timedelta(seconds=ago), ProcessedJob.objects.count() + 1
    ProcessedJob.objects.bulk_create(
        ProcessedJob(
            outbox_id=first + number, kind=kind, args={}, created_at=at, due_at=at,
            processed_at=at, attempts=0, duration_ms=int(seconds * 1000), result="done",
        )
        for number in range(count)
    )  # fmt: skip


def put(count: int = 1, kind: str = "drill_row") -> list[int]:
    with transaction.atomic():
        return [enqueue(kind, number=number, ms=0) for number in range(count)]


def publish(redis: redis_client.Redis, outbox_id: int, entry_id: str = "*") -> str:
    """Put the row's entry on the stream, and note it, as a relay does."""
    row = OutboxRow.objects.get(pk=outbox_id)
    fields: Any = {"kind": row.kind, "outbox_id": outbox_id, "number": 0, "ms": 0}
    added: Any = redis.xadd("jobs", fields, id=entry_id)
    about(outbox_id).update(relayed_at=Now(), entry_id=added.decode())
    return str(added.decode())


def deliver(redis: redis_client.Redis, consumer: str = "worker-1", count: int = 1) -> None:
    redis.xreadgroup("workers", consumer, {"jobs": ">"}, count=count)


def about(outbox_id: int) -> Any:
    return OutboxRow.objects.filter(pk=outbox_id)


def shift(column: str, outbox_id: int, seconds: float) -> None:
    """Move one of the row's times, by PostgreSQL's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE jobs_outbox SET {column} = statement_timestamp() + make_interval(secs => %s)"
            " WHERE id = %s",
            [seconds, outbox_id],
        )


def ago(redis: redis_client.Redis, seconds: float) -> str:
    """An entry id of that age, by Redis's clock."""
    now: Any = redis.time()
    return f"{(now[0] - int(seconds)) * 1000}-0"


def near(seconds: float) -> Any:
    return pytest.approx(seconds + TOLERANCE / 2, abs=TOLERANCE / 2 + 0.01)


def idle_for(redis: redis_client.Redis, consumer: str, entry_id: str, seconds: float) -> None:
    redis.xclaim(
        "jobs", "workers", consumer, 0, [entry_id], idle=int(seconds * 1000), justid=True
    )  # fmt: skip
