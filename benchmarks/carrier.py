"""Bare psycopg and redis: the statements of a relay's step, as fast as they go. Knows no Django."""

import json
from typing import Any

import psycopg
import redis

BATCH = 500
"""Rows of a step, as a relay takes them when it is not told otherwise."""
MAXLEN = 400_000
"""Entries that the stream keeps: more than any side publishes."""

type Due = tuple[int, str, str, str, str]
"""Outbox id, kind, args as JSON, request id, trace."""

EPOCH = "SELECT value FROM jobs_epoch WHERE id = 1 FOR SHARE"
LOCK_DUE = """
SELECT id, kind, args::text, request_id, trace FROM jobs_outbox
WHERE relayed_at IS NULL AND dead_at IS NULL AND available_at <= statement_timestamp()
ORDER BY available_at, id LIMIT %s FOR UPDATE SKIP LOCKED
"""
MARK = """
UPDATE jobs_outbox AS row SET relayed_at = statement_timestamp(), entry_id = new.entry
FROM unnest(%s::bigint[], %s::text[]) AS new (id, entry) WHERE row.id = new.id
"""


def publish_due(url: str, client: redis.Redis, stream: str) -> None:
    """Publish every due row to `stream`, batch by batch."""
    with psycopg.connect(url) as connection:
        while _step(connection, client, stream):
            pass


def _step(connection: psycopg.Connection, client: redis.Redis, stream: str) -> int:
    with connection.transaction():
        connection.execute(EPOCH).fetchone()
        found: list[Due] = connection.execute(LOCK_DUE, [BATCH]).fetchall()
        if found:
            entries = _append(client, stream, found)
            connection.execute(MARK, [[row[0] for row in found], entries])
    return len(found)


def _append(client: redis.Redis, stream: str, found: list[Due]) -> list[str]:
    pipeline = client.pipeline(transaction=False)
    for row in found:
        pipeline.xadd(stream, _fields(*row), maxlen=MAXLEN, approximate=True)
    pipeline.get(f"{stream}:epoch")
    *entry_ids, _epoch = pipeline.execute()
    return [entry_id.decode() for entry_id in entry_ids]


def _fields(outbox_id: int, kind: str, args: str, request_id: str, trace: str) -> dict[Any, Any]:
    envelope = {"outbox_id": outbox_id, "request_id": request_id, "trace": trace}
    return {"kind": kind, **json.loads(args), **envelope}
