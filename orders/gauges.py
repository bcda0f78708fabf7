"""What events add to the series of the queue."""

from collections.abc import Iterator

from django.db import connection

from jobs.gauges import Reading, gauge

from .models import EventStatus

NEXT_DOORS = """
SELECT extract(epoch FROM min(starts_at - make_interval(mins => doors_minutes)))::float8
FROM orders_event
WHERE status <> ALL(%s) AND starts_at - make_interval(mins => doors_minutes) > now()
"""


@gauge(
    "stagedoor_doors_open_timestamp_seconds",
    "When the doors of the next event open; no series where there is none.",
)
def next_doors() -> Iterator[Reading]:
    """One value or none."""
    with connection.cursor() as cursor:
        cursor.execute(NEXT_DOORS, [[EventStatus.DRAFT, EventStatus.CANCELLED]])
        [doors] = cursor.fetchone()
    if doors is not None:
        yield (), doors
