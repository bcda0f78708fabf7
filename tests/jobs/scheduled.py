"""Schedules under test, with their kind, and what became of them in the database."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobs.models import OutboxRow, ProcessedJob, ScheduledRun
from jobs.schedule import Schedule, all_

MINUTELY = Schedule(
    name="minutely", words="Does the example each minute",
    cron="* * * * *", kind="example", args={"number": 1}, catch_up=all_(100),
)  # fmt: skip
START = datetime(2026, 11, 30, 15, 59, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Numbered:
    number: int


def after(seconds: float) -> datetime:
    """So many seconds after START, which is half a minute before a due time."""
    return START + timedelta(seconds=seconds)


def fired(name: str = "minutely") -> list[datetime]:
    """The due times that have a row with a job, in order."""
    rows = ScheduledRun.objects.filter(name=name, outbox_id__isnull=False)
    return list(rows.order_by("due_at").values_list("due_at", flat=True))


def each_fired_once(name: str = "minutely") -> bool:
    """Whether slots and jobs, done ones too, are the same due times, each there once.

    Jobs of the schedule's kind alone: beside it real schedulers fire the shop's own.
    """
    mine = ScheduledRun.objects.filter(name=name).values("outbox_id")
    jobs: Counter[datetime | None] = Counter()
    for table in (OutboxRow, ProcessedJob):
        kinds = table._default_manager.filter(pk__in=mine).values("kind")
        found = table._default_manager.filter(kind__in=kinds)
        jobs.update(found.values_list("scheduled_for", flat=True))
    return dict(jobs) == dict.fromkeys(fired(name), 1)


def story(name: str = "minutely") -> list[str]:
    """Every row: `16:00 on time`, `16:01-16:04 4 skipped`."""
    rows = ScheduledRun.objects.filter(name=name).order_by("due_at")
    return [
        f"{row.due_at:%H:%M}{f'-{row.last_due_at:%H:%M} {row.count}' if row.count > 1 else ''} "
        f"{row.result}"
        for row in rows
    ]
