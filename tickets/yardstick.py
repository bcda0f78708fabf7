"""What one order costs here: the kinds that it makes, a render and an email as measured."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobs.capacity import Cost, Step
from jobs.history import Night
from jobs.pool import Pool
from jobs.registry import Kind, Lane, all_kinds, kind_named
from orders.models import Order

from . import mail
from .models import LINK, Delivery
from .page import Admission, Paper, ticket_html
from .rendering import render_timed
from .tokens import new_token

FIRST = "render_tickets"
"""The kind that placing an order enqueues."""
EMAIL = "email_tickets"
RENDERS = 5
"""Measured, after one that warms the process up."""
FILE_SIZE = 40_000
"""Bytes of a file of two tickets."""
HOLDER = "Zoë O’Hara"
LIMIT = 60.0
"""Seconds: the timeout of a render's policy."""


def kinds() -> Iterator[str]:
    """The kinds that every order makes, in their order."""
    kind = FIRST
    while kind:
        yield kind
        kind = kind_named(kind).then


def others(nights: Sequence[Night]) -> Iterator[Step]:
    """What else was made for orders in past nights (resends, refunds), a part of one for each."""
    orders = sum(found.number for night in nights if (found := night.of(FIRST)))
    for kind in all_kinds():
        if kind.name in set(kinds()) or kind.lane is Lane.BULK or not about_order(kind):
            continue
        made = [found for night in nights if (found := night.of(kind.name))]
        if number := sum(one.number for one in made):
            seconds = sum(one.number * one.seconds for one in made) / number
            yield Step(kind.name, Cost(seconds, service=kind.outside), number / orders)


def about_order(kind: Kind[Any]) -> bool:
    """Whether its jobs are about one order."""
    return kind.subject.startswith("order:")


def past_seconds(kind: str, nights: Sequence[Night]) -> float | None:
    """The mean of the newest night with jobs of `kind`."""
    return next((found.seconds for night in nights if (found := night.of(kind))), None)


def measured_render(tickets: int) -> Cost:
    """The file of an order of so many tickets, in a process as a worker has them.

    Core seconds are the process's own: other load on this machine is not in them.
    """
    html = ticket_html(_paper(tickets))
    pool = Pool(1, warm_up=settings.JOBS["WARM_UP"])
    try:
        pool.compute(LIMIT, _nothing, render_timed, html)
        taken = [pool.compute(LIMIT, _nothing, render_timed, html) for _ in range(RENDERS)]
    finally:
        pool.close()
    core = fmean(taken)
    return Cost(core, core)


def measured_email() -> Cost:
    """One made with its attachment and given to nobody: without the provider's own time."""
    began = time.process_time()
    message = mail.outgoing(_email(), bytes(FILE_SIZE))
    message.message().as_bytes()
    core = time.process_time() - began
    return Cost(core, core)


def _nothing() -> None:
    """A render that begins is no news here."""


def _paper(tickets: int) -> Paper:
    return Paper(
        event_title="A Midsummer Night’s Dream", venue="Globe on the Wharf, London",
        starts="Friday, 24 June 2026, 19:30", doors="18:30", zone="Europe/London",
        order_code="MEASURED", seller=settings.SHOP_NAME, language="en",
        issued_at=datetime(2026, 1, 1, tzinfo=UTC),
        admissions=tuple(
            Admission(seq=seq, token=new_token(), holder=HOLDER, type_name="Stalls", price="£42.50")
            for seq in range(1, tickets + 1)
        ),
    )  # fmt: skip


def _email() -> Delivery:
    order = Order(pk=0, code="MEASURED", link_key=max(settings.LINK_KEYS), link_version=1)
    return Delivery(
        order=order, recipient="nobody@example.org", subject="Your tickets", text=LINK, html=LINK,
        idempotency_key="measured", message_id="<measured@example.org>",
        first_try_at=timezone.now(),
    )  # fmt: skip
