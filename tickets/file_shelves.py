"""PDFs of events that are long past are deleted (T15): first their rows, then the storage's copy.

A row is marked while no job of its order can need the file. What it names is unlinked in a later
batch, only where no living row names that content, and is forgotten last: what is cut in between
is taken up by the next run, for which a missing file is as good as one that it unlinks.
"""

from datetime import datetime

from django.conf import settings
from django.db import connection

from jobs.failpoint import failpoint
from jobs.shelves import Shelf, register

from .files import MOST, lock_contents, ticket_storage
from .models import TicketFile

LOCK_ORDERS = """
SELECT file.id FROM tickets_ticketfile AS file
JOIN orders_order AS bought ON bought.id = file.order_id
JOIN orders_event AS event ON event.id = bought.event_id
WHERE file.id = ANY(%s) AND event.starts_at < %s
ORDER BY bought.id FOR NO KEY UPDATE OF bought SKIP LOCKED
"""
LONG_PAST = """(SELECT starts_at FROM orders_event AS event JOIN orders_order AS bought
    ON bought.event_id = event.id WHERE bought.id = row.order_id) < %(until)s"""
NOT_ASKED_FOR = """NOT EXISTS (SELECT FROM jobs_outbox
    WHERE subject = 'order:' || row.order_id AND discarded_at IS NULL)"""


def _days() -> float:
    return float(settings.FILES_DAYS)


def lock_orders(keys: list[int], until: datetime) -> list[int]:
    """Those of these files whose orders are locked now: nobody can ask a job for them until the
    transaction ends. An order that somebody works with is left to the next run."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_ORDERS, [keys, until])
        chosen = [key for (key,) in cursor.fetchall()]
    failpoint("files.orders_locked")
    return chosen


def unlink(keys: list[int], until: datetime) -> list[int]:
    """Those of these deleted files whose content is not in the storage any more, or is a living
    file's too. Raises OSError where the storage is not there, or does not let go of one."""
    storage = ticket_storage()
    if keys and not storage.exists("."):
        # Not mounted: what seems to be missing would come back with it, named by no row.
        raise FileNotFoundError("the folder of the tickets is not there: see TICKET_DIR")
    named = TicketFile.objects.filter(pk__in=keys).exclude(name="")
    names = dict(named.values_list("pk", "name"))
    locked = lock_contents(set(names.values()))
    # After the locks: whoever has named one of them since has committed.
    living = TicketFile.objects.filter(name__in=locked, deleted_at=None)
    for name in sorted(locked - set(living.values_list("name", flat=True))):
        storage.delete(name)
    failpoint("files.unlinked")
    return [key for key, name in names.items() if name in locked]


register(
    Shelf(
        name="files", table="tickets_ticketfile", born="made_at", open="deleted_at IS NULL",
        past=f"{LONG_PAST} AND {NOT_ASKED_FOR}", change="deleted_at = now()",
        choose=lock_orders, days=_days,
    ),
    Shelf(
        name="deleted files", table="tickets_ticketfile", born="",
        open="deleted_at IS NOT NULL AND name <> ''", change="name = ''",
        choose=unlink, most=MOST, days=lambda: 0.0,
    ),
)  # fmt: skip
