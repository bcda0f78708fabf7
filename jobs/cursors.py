"""Up to when the due times of each schedule are decided: read, begun, moved and forgotten."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from .due_slots import Pause
from .schedule import Schedule

type Keys = list[list[str]]
"""Names, expressions and zones of schedules."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to when a schedule's due times are decided, and when it was paused since."""

    decided_until: datetime
    pauses: tuple[Pause, ...]


def read(schedules: Sequence[Schedule], now: datetime) -> Mapping[str, Cursor]:
    """Each schedule's cursor, by name. A schedule that appears for the first time starts `now`.

    One whose expression or zone has changed, or was changed back, goes on from where the other was.
    """
    keys = _keys(schedules)
    _begin(keys, now)
    _take_over(keys, now)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT name, decided_until FROM jobs_schedule_cursor
            JOIN unnest(%s::text[], %s::text[], %s::text[]) AS given (name, cron, tz)
                USING (name, cron, tz)
            """,
            keys,
        )
        found = dict(cursor.fetchall())
    pauses = _pauses(found)
    return {name: Cursor(until, tuple(pauses[name])) for name, until in found.items()}


def _begin(keys: Keys, now: datetime) -> None:
    """Cursors for those that have none."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_schedule_cursor (name, cron, tz, decided_until)
            SELECT name, cron, tz, coalesce(
                (SELECT max(decided_until) FROM jobs_schedule_cursor AS old
                 WHERE old.name = new.name), %s)
            FROM unnest(%s::text[], %s::text[], %s::text[]) AS new (name, cron, tz)
            WHERE NOT EXISTS (SELECT FROM jobs_schedule_cursor AS old
                WHERE (old.name, old.cron, old.tz) = (new.name, new.cron, new.tz))
            ON CONFLICT DO NOTHING
            """,
            [now, *keys],
        )


def _take_over(keys: Keys, now: datetime) -> None:
    """Cursors that nobody moved while that of another expression of the schedule was moved: a build
    was taken back, and the other one has decided for it. Of two that run both are moved.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_schedule_cursor AS row SET decided_until = newest.decided_until
            FROM unnest(%s::text[], %s::text[], %s::text[]) AS given (name, cron, tz) JOIN (
                SELECT name, max(decided_until) AS decided_until FROM jobs_schedule_cursor
                WHERE decided_until <= %s GROUP BY name
            ) AS newest USING (name)
            WHERE (row.name, row.cron, row.tz) = (given.name, given.cron, given.tz)
                AND row.decided_until < newest.decided_until - make_interval(secs => %s)
            """,
            [*keys, now, 3 * settings.JOBS["HEARTBEAT"]],
        )


def _pauses(after: Mapping[str, datetime]) -> Mapping[str, list[Pause]]:
    """Those that do not end before the schedule's own moment."""
    found: defaultdict[str, list[Pause]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT pause.name, since, until FROM jobs_schedule_pause AS pause
            JOIN unnest(%s::text[], %s::timestamptz[]) AS given (name, after) USING (name)
            WHERE until IS NULL OR until > after ORDER BY since
            """,
            [list(after.keys()), list(after.values())],
        )
        for name, *times in cursor.fetchall():
            found[name].append(Pause(*times))
    return found


def move(schedules: Sequence[Schedule], known: Mapping[str, Cursor], now: datetime) -> None:
    """All that is due up to `now` is decided. A cursor that another has moved is left as it is.

    Also back, where the clock was: due times that come again have their rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_schedule_cursor AS row SET decided_until = %s
            FROM unnest(%s::text[], %s::text[], %s::text[], %s::timestamptz[])
                AS given (name, cron, tz, decided_until)
            WHERE (row.name, row.cron, row.tz, row.decided_until)
                = (given.name, given.cron, given.tz, given.decided_until)
            """,
            [now, *_keys(schedules), [known[one.name].decided_until for one in schedules]],
        )


def forget(schedules: Sequence[Schedule], now: datetime, after: float) -> int:
    """Forget those of schedules and expressions that this build does not declare.

    Only such that nobody has moved for `after` seconds: another build may run beside this one.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM jobs_schedule_cursor WHERE decided_until < %s AND (name, cron, tz) NOT IN (
                SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))
            """,
            [now - timedelta(seconds=after), *_keys(schedules)],
        )
        return int(cursor.rowcount)


def _keys(schedules: Sequence[Schedule]) -> Keys:
    return [
        [one.name for one in schedules],
        [one.cron for one in schedules],
        [one.tz for one in schedules],
    ]
