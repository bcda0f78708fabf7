"""Writes the story of jobs that do not go the plain way, in the transaction that changes them."""

from collections.abc import Sequence

from django.db import connection

from .correlation import request_id
from .errors import storable
from .models import What

NOTE_LIMIT = 8_192
"""Bytes of a note: the arguments that a correction replaced are kept whole."""


def note(outbox_id: int, what: What, by: str, text: str = "") -> None:
    """One line of the story of one job."""
    note_all([outbox_id], what, by, text)


def note_all(
    outbox_ids: Sequence[int], what: What, by: str, text: str = "", batch: int | None = None
) -> None:
    """The same line for each of these jobs."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_event (outbox_id, what, by, note, request_id, batch_id, at)
            SELECT job, %s, %s, %s, %s, %s, clock_timestamp() FROM unnest(%s::bigint[]) AS job
            """,
            [what, by, storable(text, NOTE_LIMIT), request_id(), batch, list(outbox_ids)],
        )
