"""Dead jobs for the pages: buried as a worker buries them, each with its error and its letter."""

import contextlib
from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from jobs import dead_letters
from jobs.conclusion import Failure
from jobs.models import OutboxRow, RefusedEntry
from jobs.outbox import enqueue
from jobs.stream import Entry, Letters
from orders.services import PlacedOrder

ERROR = "ConnectionRefusedError: [Errno 111] Connection refused"
TRACEBACK = f"""Traceback (most recent call last):
  File "tickets/sending.py", line 41, in send
    connection.send_messages([message])
  File "smtplib.py", line 339, in connect
    self.sock = self._get_socket(host, port, self.timeout)
{ERROR}
"""


def bury(outbox_id: int, error: str = ERROR, traceback: str = TRACEBACK, attempts: int = 8) -> int:
    """Let this job be dead since this moment; its outbox id."""
    entry_id = f"{outbox_id}-1"
    OutboxRow.objects.filter(pk=outbox_id).update(entry_id=entry_id, attempts=attempts)
    entry = Entry(entry_id, [(b"outbox_id", str(outbox_id).encode())])
    failure = Failure(error, traceback, "worker-1")
    with contextlib.closing(Letters(settings.REDIS_URL)) as letters:
        assert dead_letters.bury(letters, entry, outbox_id, f"failed {attempts} times", failure)
    return outbox_id


def render_of(order: PlacedOrder) -> int:
    """The outbox id of the job that makes the order's tickets."""
    return OutboxRow.objects.get(kind="render_tickets", subject=f"order:{order.id}").pk


def email_of(order: PlacedOrder) -> int:
    """The outbox id of a new job that emails the order's tickets."""
    with transaction.atomic():
        return enqueue("email_tickets", order_id=order.id)


def long_ago(outbox_ids: Sequence[int], ago: timedelta) -> None:
    """Let these have died that long ago."""
    OutboxRow.objects.filter(pk__in=outbox_ids).update(
        dead_at=timezone.now() - ago, due_at=F("due_at") - ago
    )


def not_parsing(outbox_id: int, **args: object) -> int:
    """Let this job be dead with arguments that are none of its kind; its outbox id."""
    OutboxRow.objects.filter(pk=outbox_id).update(args=args)
    return bury(outbox_id, "MalformedJob: order_id is not an int", traceback="", attempts=0)


def refuse(*fields: tuple[bytes, bytes]) -> int:
    """The id of a refused entry that carries these fields."""
    with contextlib.closing(Letters(settings.REDIS_URL)) as letters:
        dead_letters.refuse(letters, Entry("9-9", list(fields)), "no such outbox row", "worker-1")
    return RefusedEntry.objects.get(entry_id="9-9").pk
