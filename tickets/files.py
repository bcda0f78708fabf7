"""The PDFs of orders: kept under the address of their content, each named by a row.

A row lives until `deleted_at`. Whoever writes a row that names a content, and whoever deletes the
content, holds its lock: nothing that a living row names is ever deleted.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import connection
from django.db.models import F, QuerySet

from jobs.policy import TryLater
from orders.models import Order

from .models import Ticket, TicketFile
from .page import TEMPLATE_REVISION
from .times import clock

CONTENT_LOCK = 731_743
"""An advisory lock, with a content's name: shared by who names it, of one alone who deletes it."""
MOST = 100
"""Files unlinked in one transaction: a session that is idle for 5 s in one is ended."""
PAUSE = 10.0
"""Seconds until a file is made again that was deleted just when it was to be named."""


def ticket_storage() -> Storage:
    """Where the PDFs are kept: private, never served by address."""
    return storages["tickets"]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A rendered and stored file, not yet the order's: the order may have changed meanwhile."""

    order_version: int
    tickets: Sequence[Ticket]
    name: str
    sha256: str
    size: int


def store(pdf: bytes, order: Order, tickets: Sequence[Ticket]) -> Made:
    """Keep the PDF under the address of its content: storing the same bytes twice is one file."""
    digest = hashlib.sha256(pdf).hexdigest()
    name = f"{digest[:2]}/{digest}.pdf"
    if not ticket_storage().exists(name):
        ticket_storage().save(name, ContentFile(pdf))
    return Made(
        order_version=order.version, tickets=tickets, name=name, sha256=digest, size=len(pdf)
    )


def save(order: Order, made: Made, outbox_id: int) -> bool:
    """Inside `effects()`, with the order locked: the row of its file. False where it has one for
    this version and design. Raises TryLater where the content was deleted since it was stored."""
    if not (_share(made.name) and ticket_storage().exists(made.name)):
        raise TryLater(PAUSE, "its file was deleted since it was made", of_provider=False)
    content = {"name": made.name, "sha256": made.sha256, "size": made.size}
    _, new = TicketFile.objects.get_or_create(
        order=order,
        order_version=order.version,
        template_revision=TEMPLATE_REVISION,
        defaults={**content, "outbox_id": outbox_id},
    )
    return new


def newest_file(order: Order) -> TicketFile | None:
    """The file of the order as it is now."""
    return _of_version(order).filter(deleted_at=None).first()


def deleted_file(order: Order) -> TicketFile | None:
    """The file that it had, where none is left because its event is long past."""
    newest = _of_version(order).order_by(F("deleted_at").desc(nulls_first=True)).first()
    return newest if newest is not None and newest.deleted_at else None


def told_deleted(file: TicketFile) -> str:
    """That and when it was deleted, in words for staff."""
    when = f" at {clock(file.deleted_at)}" if file.deleted_at else ""
    return f"The file of the tickets was deleted{when}, since the event is long past"


def _of_version(order: Order) -> QuerySet[TicketFile]:
    current = order.files.filter(order_version=order.version)
    return current.order_by("-template_revision")


def _share(name: str) -> bool:
    # Until the commit: whoever deletes finds the row, or is skipped.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock_shared(%s, hashtext(%s))", [CONTENT_LOCK, name]
        )
        return bool(cursor.fetchone()[0])


def named(names: Collection[str]) -> set[str]:
    """Those of these contents that a row names, deleted or not."""
    rows = TicketFile.objects.filter(name__in=names)
    living, deleted = rows.filter(deleted_at=None), rows.exclude(deleted_at=None).exclude(name="")
    return {name for found in (living, deleted) for name in found.values_list("name", flat=True)}


def lock_contents(names: Collection[str]) -> set[str]:
    """In the caller's transaction: those of these contents that nobody is about to name, nor may
    until it ends. The others are left out: nothing is waited for."""
    sql = """SELECT name FROM unnest(%s::text[]) AS name
        WHERE pg_try_advisory_xact_lock(%s, hashtext(name))"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(names), CONTENT_LOCK])
        return {name for (name,) in cursor.fetchall()}
