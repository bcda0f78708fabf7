"""The states that jobs of this app bring about: tickets are made, buyers are told."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils import timezone

from jobs.job import Job
from jobs.policy import GiveUp, Policy, TryLater
from jobs.prognosis import Prognosis
from jobs.registry import Lane, handler
from orders.models import Order
from orders.services import lock_order

from . import (
    announcement_foresight,
    announcing,  # noqa: F401 (its kinds register themselves)
    deliveries,
    emailing,
    file_shelves,  # noqa: F401 (they register themselves)
    files,
    foresight,
    generations,
    issuing,
    link_handlers,  # noqa: F401 (its kind registers itself)
    metrics,
    notice_handlers,  # noqa: F401 (its kinds register themselves)
    refund_foresight,
    reminding,  # noqa: F401 (its kinds register themselves)
    rendering,
    repeats,
    sending,
    services,
    shelves,  # noqa: F401 (they register themselves)
    stray_handlers,  # noqa: F401 (its kind registers itself)
)
from .deliveries import Message
from .files import deleted_file, newest_file, told_deleted
from .mail_errors import PAUSE
from .models import MessageKind
from .page import ticket_html
from .paying import RefundArgs, known_refund

logger = logging.getLogger(__name__)
# No provider is behind a render: one event's broken input must not hold the tickets of all others.
RENDER = Policy(attempts=5, base=10, timeout=60, hold_after=0)
REFUND = Policy(attempts=8, base=10, timeout=30, hold_after=0)
EMAIL = sending.POLICY


@dataclass(frozen=True)
class OrderArgs:
    """Which order."""

    order_id: int


@dataclass(frozen=True)
class ResendArgs:
    """Which order, and which of its ticket emails: 2 is the first that was asked for."""

    order_id: int
    generation: int


@dataclass(frozen=True)
class ChangedArgs:
    """Which order, and at which of its versions."""

    order_id: int
    order_version: int


def _foresee_refunds(args: Sequence[OrderArgs]) -> list[Prognosis]:
    return refund_foresight.of_refunds([one.order_id for one in args])


def _foresee_refund_emails(args: Sequence[RefundArgs]) -> list[Prognosis]:
    return refund_foresight.of_refund_emails([_refund(one) for one in args])


def _foresee_rerenders(args: Sequence[OrderArgs]) -> list[Prognosis]:
    return announcement_foresight.of_rerenders([one.order_id for one in args])


def _foresee_renders(args: Sequence[OrderArgs]) -> list[Prognosis]:
    return foresight.of_renders([one.order_id for one in args])


@handler(
    "render_tickets", policy=RENDER, subject="order:{order_id}", foresee=_foresee_renders,
    then="email_tickets",
)  # fmt: skip
def render_tickets(job: Job[OrderArgs]) -> None:
    """State: a placed order has its tickets, their file, and the job of its email."""
    order = _order(job.args.order_id)
    made = _make(job, order) if order.is_placed else None
    with job.effects():
        # As it is now: it may have been refunded or changed while the file was rendered.
        now = lock_order(order.pk)
        if made is None or not services.issue(now, made, job.outbox_id):
            job.nothing_to_do()


@handler(
    "rerender_tickets", policy=RENDER, subject="order:{order_id}", lane=Lane.BULK,
    foresee=_foresee_rerenders,
)  # fmt: skip
def rerender_tickets(job: Job[OrderArgs]) -> None:
    """State: the file of an order whose buyer has its tickets says when the event starts now."""
    order = _order(job.args.order_id)
    made = _make(job, order) if order.is_placed else None
    with job.effects():
        now = lock_order(order.pk)
        if made is None or not services.renew(now, made, job.outbox_id):
            job.nothing_to_do()


def _order(order_id: int) -> Order:
    return Order.objects.select_related("event").get(pk=order_id)


def _make(job: Job[OrderArgs], order: Order) -> files.Made | None:
    tickets = issuing.drafts(order)
    if not tickets:
        return None
    html = ticket_html(issuing.paper(order, tickets))
    with metrics.RENDER_SECONDS.time():
        rendered = job.compute(rendering.render_pdf, html)
    _report_missing(order, rendered.missing)
    return files.store(rendered.pdf, order, tickets)


def _report_missing(order: Order, missing: tuple[int, ...]) -> None:
    if missing:
        metrics.MISSING_GLYPHS.inc(len(missing))
        named = " ".join(f"U+{point:04X}" for point in missing[:20])
        logger.warning("order %s: no glyph for %d code points: %s", order.code, len(missing), named)


def _first(args: OrderArgs) -> Message:
    return Message(args.order_id, MessageKind.TICKETS)


def _again(args: ResendArgs) -> Message:
    return Message(args.order_id, MessageKind.TICKETS, args.generation)


def _changed(args: ChangedArgs) -> Message:
    return Message(args.order_id, MessageKind.CHANGED, args.order_version)


def _refund(args: RefundArgs) -> Message:
    return Message(args.order_id, MessageKind.REFUND, args.number)


def _foresee[A](message: Callable[[A], Message]) -> Callable[[Sequence[A]], list[Prognosis]]:
    return lambda args: foresight.of_emails([message(one) for one in args])


def _consent[A](message: Callable[[A], Message]) -> Callable[[Sequence[A]], None]:
    return lambda args: repeats.begin_again([message(one) for one in args])


@handler(
    "email_tickets", policy=EMAIL, outside=sending.MAIL, subject="order:{order_id}",
    foresee=_foresee(_first), consent=_consent(_first),
)  # fmt: skip
def email_tickets(job: Job[OrderArgs]) -> None:
    """State: the buyer of a placed order was sent its tickets, once."""
    order = _email_tickets(job, _first(job.args))
    if order is not None:
        waited = timezone.now() - order.placed_at
        metrics.ORDER_EMAILED_SECONDS.observe(waited.total_seconds())


@handler(
    "resend_tickets", policy=EMAIL, outside=sending.MAIL, subject="order:{order_id}",
    foresee=_foresee(_again), consent=_consent(_again),
)  # fmt: skip
def resend_tickets(job: Job[ResendArgs]) -> None:
    """State: the buyer of a placed order was sent its tickets, once for each time staff asked."""
    _refuse_unasked(_again(job.args))
    _email_tickets(job, _again(job.args), asked=True)


@handler(
    "email_changed_tickets", policy=EMAIL, outside=sending.MAIL, subject="order:{order_id}",
    foresee=_foresee(_changed), consent=_consent(_changed),
)  # fmt: skip
def email_changed_tickets(job: Job[ChangedArgs]) -> None:
    """State: the buyer of a placed order whose tickets are still of that version was sent them."""
    _email_tickets(job, _changed(job.args))


def _refuse_unasked(message: Message) -> None:
    # Whoever corrects a job can type any number, and each is an email under a key of its own.
    if words := foresight.unasked(message, generations.newest_generations([message.order_id])):
        raise GiveUp(words)


def _email_tickets[A](job: Job[A], message: Message, *, asked: bool = False) -> Order | None:
    """The order, where its buyer was sent it by this job."""
    order = _order(message.order_id)
    file = newest_file(order)
    delivery = None
    if order.is_placed and file is not None and deliveries.is_newest(message, order):
        delivery = deliveries.begin_with(message, order, file, job.outbox_id)
    if asked and delivery is None:
        _wait_for_file(message)
    return order if emailing.deliver(job, delivery) else None


def _wait_for_file(message: Message) -> None:
    # The render that is under way brings an email only where the buyer has none: somebody waits
    # for this one.
    order = _order(message.order_id)
    open_still = order.is_placed and deliveries.is_newest(message, order)
    if not open_still or deliveries.is_begun(message):
        return
    if gone := deleted_file(order):
        raise GiveUp(f"{told_deleted(gone)}: render the tickets again, then replay this job")
    raise TryLater(PAUSE, "the file of the order is being made", of_provider=False)


@handler("refund_order", policy=REFUND, subject="order:{order_id}", foresee=_foresee_refunds)
def refund_order(job: Job[OrderArgs]) -> None:
    """State: no ticket of what was refunded is valid, each refund has the jobs that tell and pay
    the buyer."""
    with job.effects():
        if not services.follow_up(lock_order(job.args.order_id), job.outbox_id):
            job.nothing_to_do()


@handler(
    "email_refund", policy=EMAIL, outside=sending.MAIL, subject="order:{order_id}",
    foresee=_foresee_refund_emails, consent=_consent(_refund),
)  # fmt: skip
def email_refund(job: Job[RefundArgs]) -> None:
    """State: the buyer was told of that refund of the order, once."""
    known_refund(job.args)
    emailing.tell(job, _refund(job.args), _order(job.args.order_id))
