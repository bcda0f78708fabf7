"""The page "Queue": is it well, what to do, and how it was over the last hours."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import timezone

from jobs import holds, tally
from jobs.models import Sample
from jobs.outlook import Outlook
from jobs.prediction import drain
from jobs.status import Status, clock, look
from jobs.status.advice import DEAD, EARLY, KINDS, advice, coarse
from jobs.status.books import Books, KindRows
from jobs.status.links import link
from jobs.status.queue import LATE_AFTER

from . import charts
from .pages import page
from .to_be_read import ToBeRead

HOURS = (1, 3, 12, 24, 168)
USUAL = 3
POINTS = 180
"""Of a chart: three hours of minutes; more would be thinner than a pixel of a telephone."""
PATIENCE = 1.0
"""Seconds for each answer of Redis: whoever is on duty does not wait for it."""
EVERY = 5
"""Seconds between two looks of an open page."""
PAST = """
SELECT date_bin(make_interval(secs => %(bucket)s), minute, 'epoch') AS at,
    max((ages->>'not_paused')::float8), avg(done)::float8
FROM jobs_sample WHERE minute >= %(since)s GROUP BY at ORDER BY at
"""


class QueueAdmin(ToBeRead):
    def get_urls(self) -> list[URLPattern]:
        """The page, which is also asked for its changing part alone."""
        return [path("", self.admin_site.admin_view(self.queue), name="jobs_sample_changelist")]

    def queue(self, request: HttpRequest) -> HttpResponse:
        """The queue as it is; `?part` is what an open page asks for every few seconds."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        part = "part" in request.GET
        template = "queue_part.html" if part else "queue.html"
        return page(
            self,
            request,
            template,
            "Queue",
            **_seen(request.user, _hours(request)),
            every=EVERY,
            has_queue=True,
        )


def _hours(request: HttpRequest) -> int:
    asked = request.GET.get("hours", "")
    return next((hours for hours in HOURS if str(hours) == asked), USUAL)


def _seen(user: Any, hours: int) -> dict[str, Any]:
    status, now = look(settings.REDIS_URL, PATIENCE), timezone.now()
    return {
        "hours": hours, "choices": HOURS, "seen_at": clock(now),
        "advice": [(one, link(user, one.page)) for one in advice(status)],
        "kinds_page": link(user, KINDS), "dead_page": link(user, DEAD),
        "status": status, "books": status.books, "drain": _drain(status),
        **(_past(hours, now, status.books) if status.books else {}),
    }  # fmt: skip


def _drain(status: Status) -> str:
    """When what is due is done, in a sentence; empty where the database does not say."""
    try:
        seen = drain(tally.lately(), holds.in_force()) if status.books else None
    except Error:
        seen = None
    return _sentence(seen) if seen else ""


def _sentence(seen: Outlook) -> str:
    held = f"; held besides: {', '.join(sorted(seen.held))}" if seen.held else ""
    if not seen.depth:
        return f"Nothing is due{held}."
    jobs = f"{seen.depth} {'job is' if seen.depth == 1 else 'jobs are'} due"
    seconds = seen.drain_seconds()
    if seconds == math.inf:
        return f"{jobs}, and nobody works on them{held}."
    done, within = clock(seen.at + timedelta(seconds=seconds)), coarse(max(1.0, seconds))
    return f"{jobs}, done in {within} (at {done}) on {seen.fleet.slots} slots{held}."


def _past(hours: int, now: datetime, books: Books) -> dict[str, Any]:
    begin = now - timedelta(hours=hours)
    bucket = max(60, hours * 3600 // POINTS)
    with connection.cursor() as cursor:
        cursor.execute(PAST, {"bucket": bucket, "since": begin})
        rows = [(at, age or 0.0, number) for at, age, number in cursor.fetchall()]
    here = (now, books.age_not_paused or 0.0, 0.0)
    series = list(_with_gaps([*rows, here], timedelta(seconds=bucket)))
    return {
        "age": charts.line(
            [(at, age) for at, age, _ in series], begin, now,
            thresholds=(EARLY, LATE_AFTER), text=coarse,
        ),
        "done": charts.bars([(at, number) for at, _, number in series[:-1]], begin, now),
        "kinds": _kinds(books, now),
    }  # fmt: skip


type Row = tuple[datetime, float | None, float | None]


def _with_gaps(rows: Sequence[Row], bucket: timedelta) -> Iterator[Row]:
    """Each row, and one that knows nothing where samples are missing."""
    last = None
    for row in rows:
        if last is not None and row[0] - last > 1.5 * bucket:
            yield last + bucket, None, None
        yield row
        last = row[0]


@dataclass(frozen=True, slots=True)
class KindLine:
    """One kind now, and in the last hour: how many were done, and their mean seconds."""

    rows: KindRows
    done: int
    seconds: float | None


def _kinds(books: Books, now: datetime) -> list[KindLine]:
    done: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    samples = Sample.objects.filter(minute__gt=now - timedelta(hours=1))
    for finished in samples.values_list("finished", flat=True):
        for kind, (number, seconds) in finished.items():
            done[kind][0] += number
            done[kind][1] += number * seconds
    there = {kind.kind: kind for kind in books.kinds}
    names = sorted(there.keys() | done.keys())
    return [_kind_line(there.get(name) or _none(name), done) for name in names]


def _kind_line(rows: KindRows, done: Mapping[str, list[float]]) -> KindLine:
    number, seconds = done.get(rows.kind, (0.0, 0.0))
    return KindLine(rows, int(number), seconds / number if number else None)


def _none(kind: str) -> KindRows:
    return KindRows(kind, due=0, held=0, waiting_for_retry=0, relayed=0, dead=0, discarded=0)
