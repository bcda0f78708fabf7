"""All that happened to one order, for staff: placed, jobs, file, emails, refunds, who did what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import F
from django.urls import NoReverseMatch, reverse

from jobs.models import What
from jobs.story import Happening, State
from orders.models import Order
from orders.money import in_words

from .lost_links import emails_with
from .models import Answer, Delivery, DeliveryState, MessageKind, Scan

BAD = (State.DEAD, What.BURIED, What.FAILED)
GOOD = (State.DONE,)
ANNOUNCED_NAMES: dict[str, str] = {
    MessageKind.MOVED: "email that the event moved",
    MessageKind.CANCELLED: "email that the event is cancelled",
    MessageKind.REMINDER: "reminder of the event",
}
REFUNDED = "refunded "
"""How the staff log begins to tell a refund, whose row tells it too."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `tone`: good, bad or empty; `url`: where something can be done about it."""

    at: datetime
    what: str
    note: str = ""
    by: str = ""
    tone: str = ""
    url: str = ""


def timeline(order: Order, story: Sequence[Happening]) -> list[Line]:
    """The oldest first; what is still to come, such as the next try of a job, last."""
    lines = [
        _placed(order),
        *(_job(happening) for happening in story),
        *_files(order),
        *_emails(order),
        *_links(order),
        *_refunds(order),
        *_scans(order),
        *_buyer(order),
        *_staff(order),
    ]
    return sorted(lines, key=lambda line: line.at)


def _placed(order: Order) -> Line:
    number = sum(line.quantity for line in order.lines.all())
    tickets = f"{number} ticket{'' if number == 1 else 's'}"
    total = in_words(order.total, order.currency)
    request = f", request {order.request_id}" if order.request_id else ""
    return Line(order.placed_at, "placed", f"{tickets}, {total}{request}")


def _job(happening: Happening) -> Line:
    tone = "bad" if happening.what in BAD else "good" if happening.what in GOOD else ""
    return Line(
        happening.at,
        f"job {happening.outbox_id} {happening.kind}: {happening.what}",
        happening.note,
        happening.by,
        tone,
        dead_job_page(happening.outbox_id) if happening.what == State.DEAD else "",
    )


def dead_job_page(outbox_id: int) -> str:
    """Where a dead job is replayed; empty in a build without that page."""
    try:
        return reverse("admin:jobs_deadjob_change", args=[outbox_id])
    except NoReverseMatch:
        return ""


def _files(order: Order) -> Iterator[Line]:
    for file in order.files.all():
        yield Line(
            file.made_at,
            "file made",
            f"version {file.order_version}, template {file.template_revision}, {file.size} bytes",
            tone="good",
        )
        if file.deleted_at:
            yield Line(
                file.deleted_at, "file deleted",
                f"version {file.order_version}: the event is long past",
            )  # fmt: skip


def _emails(order: Order) -> Iterator[Line]:
    for delivery in order.deliveries.all():
        name = _name(delivery)
        yield Line(delivery.first_try_at, f"{name}: first try", f"to {delivery.shown_recipient}")
        if delivery.settled_at:
            note = f"provider id {delivery.provider_id or 'not told'}"
            yield Line(delivery.settled_at, f"{name}: sent", note, tone="good")
        elif delivery.state == DeliveryState.UNCERTAIN:
            times = "once" if delivery.tries < 2 else f"{delivery.tries} times"
            note = f"given to the provider {times} without an answer: it may have taken it"
            at = delivery.called_at or delivery.first_try_at
            yield Line(at, f"{name}: uncertain", note, tone="bad")
        if delivery.bounced_at:
            yield Line(
                delivery.bounced_at, f"{name}: bounced", delivery.get_bounce_display(), tone="bad"
            )


def _name(delivery: Delivery) -> str:
    if delivery.kind == MessageKind.TICKETS:
        return f"email {delivery.generation} of the tickets"
    if delivery.kind == MessageKind.CHANGED:
        return f"email of the changed tickets, version {delivery.generation}"
    if delivery.kind in ANNOUNCED_NAMES:
        return ANNOUNCED_NAMES[delivery.kind]
    number = f" {delivery.generation}" if delivery.generation > 1 else ""
    return f"email of the {delivery.kind}{number}"


def _links(order: Order) -> Iterator[Line]:
    """Answers to a lost link that had this order's in it."""
    for answer in emails_with(order):
        yield Line(answer.first_try_at, "lost link: first try", f"to {answer.recipient}")
        if answer.settled_at:
            tone = "bad" if answer.state == DeliveryState.BOUNCED else "good"
            yield Line(answer.settled_at, f"lost link: {answer.state}", tone=tone)


def _buyer(order: Order) -> Iterator[Line]:
    for act in order.acts.all():
        request = f", request {act.request_id}" if act.request_id else ""
        yield Line(act.at, "buyer", f"{act.note}{request}")


def _refunds(order: Order) -> Iterator[Line]:
    for refund in order.refunds.all():
        amount = in_words(refund.amount, order.currency)
        name = "refund" if refund.number == 1 else f"refund {refund.number}"
        yield Line(
            # When it was paid out by hand, and by whom, the staff log tells.
            refund.requested_at, f"{name} requested", f"{amount}: {refund.reason}", refund.actor,
        )  # fmt: skip
        if refund.settled_at and refund.failure:
            yield Line(refund.settled_at, f"{name}: not paid back", refund.failure, tone="bad")
        elif refund.settled_at and refund.provider_id:
            note = f"{amount}, provider id {refund.provider_id}"
            yield Line(refund.settled_at, f"{name}: paid back", note, tone="good")
        elif refund.tried_at and not refund.settled_at:
            yield Line(refund.tried_at, f"{name}: payment provider asked", amount)


def _scans(order: Order) -> Iterator[Line]:
    for scan in Scan.objects.filter(ticket__order=order).annotate(seq=F("ticket__seq")):
        let_in = scan.answer == Answer.VALID
        told = "somebody went in with it" if let_in else f"let nobody in: {scan.answer}"
        tone = "good" if let_in else "bad"
        yield Line(scan.at, f"ticket {scan.seq} at the door", told, scan.by, tone)


def _staff(order: Order) -> Iterator[Line]:
    of_orders = ContentType.objects.get_for_model(Order)
    entries = LogEntry.objects.filter(content_type=of_orders, object_id=str(order.pk))
    for entry in entries.select_related("user"):
        words = entry.get_change_message()
        if not words.startswith(REFUNDED):
            yield Line(entry.action_time, "staff", words, entry.user.get_username())
