"""A row for each minute of what the queue was like: for its page, and for the morning after."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction

from .models import Sample
from .status import Books, KindRows, StreamPart, read_books, stream_part
from .stream import StreamAway, StreamRefused

FINISHED = """
SELECT kind, count(*), avg(duration_ms)::float8 / 1000 FROM jobs_processed
WHERE processed_at >= %s AND processed_at < %s GROUP BY kind
"""
MINUTE = timedelta(minutes=1)
TIMEOUT = 1.0
"""Seconds for each answer of Redis: schedules fire late meanwhile."""
STATES = ("due", "held", "waiting_for_retry", "relayed", "dead")


def take(now: datetime) -> None:
    """Write down the minute of `now` unless somebody has, and forget what is too old (T14).

    Any number may take it at once: one row stands. Raises a database error; that Redis does not
    answer is part of what is written down.
    """
    minute = now.replace(second=0, microsecond=0)
    if Sample.objects.filter(minute=minute).exists():
        return
    sample = _sample(minute, read_books(), _stream())
    with transaction.atomic(durable=True):
        Sample.objects.bulk_create([sample], ignore_conflicts=True)
        kept = timedelta(seconds=settings.JOBS["SAMPLES_KEPT"])
        Sample.objects.filter(minute__lt=minute - kept).delete()


def _stream() -> StreamPart | None:
    try:
        return stream_part(settings.REDIS_URL, TIMEOUT)
    except (StreamAway, StreamRefused):
        return None


def _sample(minute: datetime, books: Books, stream: StreamPart | None) -> Sample:
    workers = books.alive("worker")
    finished = _finished(minute)
    return Sample(
        minute=minute,
        ages={
            "oldest": books.age,
            "not_paused": books.age_not_paused,
            "not_relayed": books.not_relayed,
            "waiting": stream.waiting if stream else None,
            "running": stream.running if stream else None,
        },
        depth={kind.kind: found for kind in books.kinds if (found := dict(_states(kind)))},
        finished=finished,
        done=sum(number for number, _ in finished.values()),
        redis=stream is not None,
        workers=len(workers),
        slots=sum(one.slots for one in workers),
        busy=sum(one.busy for one in workers),
        relays=len(books.alive("relay")),
        schedulers=len(books.alive("scheduler")),
    )


def _states(kind: KindRows) -> Iterator[tuple[str, int]]:
    for state in STATES:
        if number := getattr(kind, state):
            yield state, number


def _finished(minute: datetime) -> dict[str, tuple[int, float]]:
    with connection.cursor() as cursor:
        cursor.execute(FINISHED, [minute - MINUTE, minute])
        return {kind: (number, round(seconds, 3)) for kind, number, seconds in cursor.fetchall()}
