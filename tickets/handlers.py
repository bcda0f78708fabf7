"""The states that jobs of this app bring about: tickets are made, tickets are emailed."""

import logging
from dataclasses import dataclass

from django.conf import settings

from jobs.job import Job
from jobs.policy import Policy
from jobs.registry import handler
from orders.models import Order
from orders.services import lock_order

from . import issuing, mail, metrics, rendering, services
from .models import Delivery, DeliveryState
from .page import ticket_html

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OrderArgs:
    """Which order."""

    order_id: int


@handler("render_tickets", policy=Policy(attempts=5, timeout=60))
def render_tickets(job: Job[OrderArgs]) -> None:
    """State: a placed order has its tickets, their file, and the job of its email."""
    order = _order(job.args.order_id)
    made = _make(job, order) if order.is_placed else None
    with job.effects():
        # As it is now: it may have been refunded or changed while the file was rendered.
        now = lock_order(order.pk)
        if made is None or not services.issue(now, made, job.outbox_id):
            job.nothing_to_do()


def _order(order_id: int) -> Order:
    return Order.objects.select_related("event").get(pk=order_id)


def _make(job: Job[OrderArgs], order: Order) -> services.Made:
    tickets = issuing.drafts(order)
    html = ticket_html(issuing.paper(order, tickets))
    with metrics.RENDER_SECONDS.time():
        rendered = job.compute(rendering.render_pdf, html)
    _report_missing(order, rendered.missing)
    return services.store(rendered.pdf, order, tickets)


def _report_missing(order: Order, missing: tuple[int, ...]) -> None:
    if missing:
        metrics.MISSING_GLYPHS.inc(len(missing))
        named = " ".join(f"U+{point:04X}" for point in missing[:20])
        logger.warning("order %s: no glyph for %d code points: %s", order.code, len(missing), named)


@handler("email_tickets", policy=Policy(attempts=5, timeout=30))
def email_tickets(job: Job[OrderArgs]) -> None:
    """State: the buyer of a placed order was sent its tickets, once."""
    order = _order(job.args.order_id)
    file = services.newest_file(order)
    if not order.is_placed or file is None:
        with job.effects():
            job.nothing_to_do()
        return
    delivery = services.begin_delivery(order, file, job.outbox_id)
    if delivery.state != DeliveryState.SENT:
        _send(delivery)
    with job.effects():
        if not services.settle_sent(delivery, delivery.message_id):
            job.nothing_to_do()


def _send(delivery: Delivery) -> None:
    with metrics.EMAIL_SECONDS.time():
        mail.outgoing(delivery, _attachment(delivery)).send()


def _attachment(delivery: Delivery) -> bytes | None:
    if delivery.file.size > settings.MAIL_ATTACHMENT_LIMIT:
        return None
    with services.ticket_storage().open(delivery.file.name) as stored:
        return bytes(stored.read())
