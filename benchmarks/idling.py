"""What is asked of the servers while nothing happens. The asking of whoever counts is left out."""

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import redis

from .machinery import Servers
from .place import Place

SECONDS = 10.0
"""One heartbeat's time: of what comes more rarely, a count may have missed all."""
SETTLING = 2.0
"""Seconds after which every session writes its statements into the log."""
STATEMENT = re.compile(rb"LOG:  (?:statement|execute)")


def asked_a_minute(place: Place, at: Servers) -> dict[str, float]:
    """Statements of PostgreSQL, each BEGIN and COMMIT among them, and commands of Redis."""
    with _logged_statements(at.connection):
        position = place.postgres.log.stat().st_size
        commands = _commands(at.redis)
        time.sleep(SECONDS)
        said = place.postgres.log.read_bytes()[position:]
        commands = _commands(at.redis) - commands - 1  # the look itself
    minute = 60 / SECONDS
    return {
        "PostgreSQL statements": len(STATEMENT.findall(said)) * minute,
        "Redis commands": commands * minute,
    }


@contextlib.contextmanager
def _logged_statements(connection: psycopg.Connection) -> Iterator[None]:
    connection.execute("ALTER SYSTEM SET log_statement = 'all'")
    connection.execute("SELECT pg_reload_conf()")
    time.sleep(SETTLING)
    try:
        yield
    finally:
        connection.execute("ALTER SYSTEM RESET log_statement")
        connection.execute("SELECT pg_reload_conf()")


def _commands(client: redis.Redis) -> int:
    about: Any = client.info("stats")
    return int(about["total_commands_processed"])
