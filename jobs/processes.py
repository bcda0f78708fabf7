"""Who is at work: each process says so every few seconds, `readyz` and staff read it."""

import socket
from datetime import timedelta

from django.conf import settings
from django.db import connection

from .models import Process


def say_alive(role: str, name: str, status: str, slots: int = 0, busy: int = 0) -> None:
    """Write down that process `name` of `role` (worker, relay, …) lives, and what it does."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_process (role, name, host, build, status, slots, busy, seen_at)
            VALUES (%s, %s, %s, %s, %s, %s, %s, statement_timestamp())
            ON CONFLICT (role, name) DO UPDATE SET host = excluded.host,
                build = excluded.build, status = excluded.status, slots = excluded.slots,
                busy = excluded.busy, seen_at = excluded.seen_at
            """,
            [role, name, socket.gethostname(), settings.BUILD, status, slots, busy],
        )


def ask_database() -> None:
    """Raise a database error unless PostgreSQL answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def forget_lost() -> None:
    """Take processes off the list that were not seen for a day: they were killed."""
    Process.objects.exclude(pk__in=Process.objects.alive(timedelta(days=1))).delete()


def say_gone(role: str, name: str) -> None:
    """Take the process off the list: it stops in good order."""
    Process.objects.filter(role=role, name=name).delete()


def alive(role: str) -> int:
    """How many processes of `role` were seen within three heartbeats."""
    within = timedelta(seconds=3 * settings.JOBS["HEARTBEAT"])
    return Process.objects.alive(within).filter(role=role).count()
