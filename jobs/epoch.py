"""The epoch row: by it a relay knows that the stream's server is the one it has written to.

Steps hold it FOR SHARE, a rebuild FOR UPDATE: the rebuild waits for steps in flight, and no step
marks a row that was published to a server without a memory.
"""

import secrets

from django.db import connection

ROW = 1
FAIR = 731_731
"""An advisory lock taken before the row's: row locks let new sharers pass a waiting rebuild."""


def shared() -> str:
    """The epoch, locked against a rebuild until the caller's transaction ends; empty if none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [FAIR])
        cursor.execute("SELECT value FROM jobs_epoch WHERE id = %s FOR SHARE", [ROW])
        found = cursor.fetchone()
    return found[0] if found else ""


def locked() -> str:
    """The epoch, locked for the rebuild until the caller's transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [FAIR])
        cursor.execute(
            "INSERT INTO jobs_epoch (id, value) VALUES (%s, '') ON CONFLICT (id) DO NOTHING", [ROW]
        )
        cursor.execute("SELECT value FROM jobs_epoch WHERE id = %s FOR UPDATE", [ROW])
        return str(cursor.fetchone()[0])


def renew() -> str:
    """Store a new epoch and return it."""
    fresh = secrets.token_hex(16)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_epoch SET value = %s WHERE id = %s", [fresh, ROW])
    return fresh
