"""Rows that say they are relayed and whose entry is nowhere: what a relay should have mended."""

from collections.abc import Sequence

from django.conf import settings
from django.db import connection

from jobs.tally import State, Tally

DOUBTFUL = """
SELECT id, entry_id FROM jobs_outbox
WHERE dead_at IS NULL AND relayed_at < statement_timestamp() - make_interval(secs => %(after)s)
    AND due_at BETWEEN to_timestamp(%(since)s)
        AND statement_timestamp() - make_interval(secs => %(after)s)
    AND entry_id ~ '^[0-9]{1,20}-[0-9]{1,20}$'
ORDER BY due_at LIMIT %(limit)s
"""
"""A row is due before it is relayed: the second condition only spares rows of a backlog, down the
index of ages: the young ones, and those that wait in front of the first that is relayed."""
STILL = """
SELECT count(*) FROM unnest(%s::bigint[], %s::text[]) AS seen (id, entry)
JOIN jobs_outbox AS job USING (id)
WHERE dead_at IS NULL AND relayed_at IS NOT NULL AND entry_id = seen.entry
"""
LIMIT = 200
"""Publications looked up in one script: about 1 ms, in which the server serves nobody else."""

type Publication = tuple[int, str]


def doubtful(tally: Tally) -> list[Publication]:
    """Outbox id and entry id of the oldest rows that were relayed more than AUDIT_AFTER ago."""
    since = min((rows.due_at for rows in tally.of(State.RELAYED)), default=None)
    if since is None:
        return []
    after = settings.JOBS["AUDIT_AFTER"]
    with connection.cursor() as cursor:
        cursor.execute(DOUBTFUL, {"since": since, "after": after, "limit": LIMIT})
        return list(cursor.fetchall())


def count_still_relayed(publications: Sequence[Publication]) -> int:
    """How many of these are as they were, now that their entries were found nowhere.

    An outcome is committed before its entry is acknowledged: what was done meanwhile shows here.
    """
    if not publications:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(STILL, [[row for row, _ in publications], [e for _, e in publications]])
        return int(cursor.fetchone()[0])
