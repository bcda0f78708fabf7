"""The bare way from a commit to whoever acts on it: NOTIFY, XADD, XREADGROUP. Knows no Django.

`python -m benchmarks.courier relay` adds an entry for each NOTIFY, whose payload is an outbox id;
`python -m benchmarks.courier reader STREAM` writes down when a blocked read gave it the entry.
"""

import os
import sys
import time
from typing import Any

import psycopg
import redis

from .tables import WRITE_MOMENT

CHANNEL, STREAM, GROUP = "bench_bare", "bench:bare", "bare"
NAME = "bench-courier"
"""The relay's name among the server's sessions: so it is seen to listen."""
BLOCK_MS = 1000


def relay(database: str, client: redis.Redis) -> None:
    """Add what is notified, for ever."""
    with psycopg.connect(database, autocommit=True, application_name=NAME) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        for note in connection.notifies():
            client.xadd(STREAM, {"outbox_id": note.payload})


def reader(database: str, client: redis.Redis, stream: str) -> None:
    """Read, note the time, write it down, acknowledge; for ever."""
    with psycopg.connect(database, autocommit=True) as connection:
        while True:
            reply: Any = client.xreadgroup(GROUP, "bare", {stream: ">"}, block=BLOCK_MS)
            started = time.time_ns()
            for entry_id, fields in reply[0][1] if reply else ():
                connection.execute(WRITE_MOMENT, [int(fields[b"outbox_id"]), started])
                client.xack(stream, GROUP, entry_id)


if __name__ == "__main__":
    role: Any = {"relay": relay, "reader": reader}[sys.argv[1]]
    client = redis.Redis.from_url(os.environ["REDIS_URL"], protocol=2)
    role(os.environ["DATABASE_URL"], client, *sys.argv[2:])
