"""T10: a kind is held, by the breaker or by a person, and let go again (`models.KindHold`).

While it is held its rows stay in the outbox. After a breaker's hold one job at a time is let
through, as a probe: its success ends the hold, its failure doubles it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection, transaction

from .models import KindHold

TRIP = """
INSERT INTO jobs_kind_hold AS hold (kind, since, until, reason, by, level)
VALUES (%(kind)s, now(), now() + make_interval(secs => %(least)s), %(reason)s, %(breaker)s, 0)
ON CONFLICT (kind) DO UPDATE SET
    until = now() + make_interval(secs => least(%(most)s,
        CASE hold.by WHEN %(breaker)s THEN %(least)s * power(2, least(hold.level, 30) + 1)
        ELSE %(least)s END)),
    level = CASE hold.by WHEN %(breaker)s THEN hold.level + 1 ELSE 0 END,
    since = CASE hold.by WHEN %(breaker)s THEN hold.since ELSE now() END,
    reason = excluded.reason, by = excluded.by
WHERE hold.until <= now() RETURNING extract(epoch FROM until - now())::float8
"""
"""A hold that is in force stays as it is: eight slots fail at once, and it counts as one time."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold that is in force, or, with `probing`, a breaker's that lets one job at a time by."""

    kind: str
    until: datetime
    reason: str
    by: str
    probing: bool


def in_force() -> list[Hold]:
    """Every hold that keeps rows back, by kind."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT kind, until, reason, by, until <= statement_timestamp() FROM jobs_kind_hold
            WHERE until > statement_timestamp() OR by = %s ORDER BY kind
            """,
            [KindHold.BREAKER],
        )
        return [Hold(*row) for row in cursor.fetchall()]


def trip(kind: str, reason: str) -> float | None:
    """The breaker holds `kind`: for so many seconds; None where it is held already."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            TRIP,
            {
                "kind": kind, "reason": reason, "breaker": KindHold.BREAKER,
                "least": settings.JOBS["HOLD_MIN"], "most": settings.JOBS["HOLD_MAX"],
            },
        )  # fmt: skip
        found = cursor.fetchone()
    return float(found[0]) if found else None


def release(kind: str) -> bool:
    """A job of `kind` succeeded: the breaker's hold of it is over; a person's stays."""
    deleted, _ = KindHold.objects.filter(kind=kind, by=KindHold.BREAKER).delete()
    return deleted > 0


def pause(kind: str, seconds: float, reason: str, by: str) -> datetime:
    """A person holds `kind` from now on; returns until when. In place of any other hold of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_kind_hold (kind, since, until, reason, by, level)
            VALUES (%s, now(), now() + make_interval(secs => %s), %s, %s, 0)
            ON CONFLICT (kind) DO UPDATE SET since = excluded.since, until = excluded.until,
                reason = excluded.reason, by = excluded.by, level = 0
            RETURNING until
            """,
            [kind, seconds, reason, by],
        )
        until: datetime = cursor.fetchone()[0]
    return until


def resume(kind: str) -> bool:
    """Let `kind` go, whoever holds it; False where nobody does."""
    deleted, _ = KindHold.objects.filter(kind=kind).delete()
    return deleted > 0


def forget_over() -> None:
    """Take away holds that are over: of persons, and the breaker's where no job is left to try."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM jobs_kind_hold AS hold WHERE until <= statement_timestamp() AND (
                by <> %s OR NOT EXISTS (
                    SELECT FROM jobs_outbox AS job WHERE job.kind = hold.kind AND dead_at IS NULL))
            """,
            [KindHold.BREAKER],
        )


def probing(holds: Sequence[Hold]) -> list[str]:
    """The kinds of which one job at a time is let through."""
    return [hold.kind for hold in holds if hold.probing]
