"""History: entries that were delivered and acknowledged long ago, jobs that are long done."""

from typing import Any

import psycopg
import redis
from django.conf import settings

from .place import wait_until
from .tables import ROW

CHUNK = 1000
"""Entries in one pipeline."""
ROWS = """
INSERT INTO jobs_processed (outbox_id, kind, args, subject, request_id, trace,
    created_at, due_at, attempts, processed_at, worker, duration_ms, result)
SELECT -number, %(kind)s, jsonb_build_object('number', number), 'order:' || (10000000 - number),
    lpad(to_hex(number), 16, '0'), lpad(to_hex(number), 32, '0') || '-0000000000000001',
    now(), now(), 0, now(), 'bench', 1, 'done'
FROM generate_series(%(number)s, 1, -1) AS number
"""


class Past:
    """How much of it there is; sees to it that there is as much as a side wants."""

    def __init__(self, connection: psycopg.Connection, client: redis.Redis) -> None:
        self._connection = connection
        self._redis = client
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]
        self._rows = 0

    def become(self, entries: int, rows: int) -> None:
        """So many entries exactly; so many rows, and as few others as is cheap."""
        wait_until(lambda: self._outstanding() == 0, "acknowledgements")
        self._redis.xtrim(self._stream, maxlen=entries, approximate=False)
        self._add_entries(entries - int(self._length()))
        if rows == 0 or rows != self._rows:
            self._fill_rows(rows)
        if self._length() != entries or self._outstanding():
            raise RuntimeError(f"{self._length()} entries, {self._outstanding()} outstanding")

    def _length(self) -> int:
        length: Any = self._redis.xlen(self._stream)
        return int(length)

    def _outstanding(self) -> int:
        groups: Any = self._redis.xinfo_groups(self._stream)
        return int(groups[0]["pending"])

    def _add_entries(self, number: int) -> None:
        for first in range(0, number, CHUNK):
            self._add_chunk(min(CHUNK, number - first))

    def _add_chunk(self, number: int) -> None:
        # In one transaction with the reading, or the worker's blocked read would get them.
        pipeline = self._redis.pipeline(transaction=True)
        for one in range(number):
            pipeline.xadd(self._stream, _fields(one))
        pipeline.xreadgroup(self._group, "history", {self._stream: ">"}, count=number)
        *entry_ids, _read = pipeline.execute()
        if self._redis.xack(self._stream, self._group, *entry_ids) != number:
            raise RuntimeError("another consumer was given entries of the history")

    def _fill_rows(self, number: int) -> None:
        self._rows = number
        self._connection.execute("TRUNCATE jobs_processed")
        self._connection.execute(ROWS, {"kind": ROW, "number": number})
        # Now, and not by autovacuum in the middle of a side.
        self._connection.execute("VACUUM (FREEZE, ANALYZE) jobs_processed")


def _fields(number: int) -> dict[Any, Any]:
    return {
        "kind": ROW,
        "number": number,
        "outbox_id": 1_000_000_000 + number,
        "request_id": f"{number:016x}",
        "trace": f"{number:032x}-{1:016x}",
    }
