"""“Where is my ticket?” in a sentence, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.story import UNFINISHED, Happening, State
from orders.models import Order, RefundStatus
from orders.money import in_words

from .models import Delivery, DeliveryState, MessageKind
from .services import newest_file
from .timeline import dead_job_page
from .times import clock

BY_ITSELF = "Nothing to do: it goes on by itself."
FIRST, RESEND = "email_tickets", "resend_tickets"


@dataclass(frozen=True, slots=True)
class Answer:
    """`text`: the state now. `todo`: what staff can do. `url`: the page of the dead job in it."""

    text: str
    todo: str
    tone: str = ""
    url: str = ""


def answer(order: Order, story: Sequence[Happening]) -> Answer:
    """Where the order's tickets are."""
    if order.is_refunded:
        return _refunded(order, story)
    if not order.is_placed:
        return Answer("The order was cancelled: its tickets are not valid.", "Nothing to do.")
    file = newest_file(order)
    return _emailed(order, story) if file else _made(story)


def _open(story: Iterable[Happening], *kinds: str) -> Happening | None:
    """The newest job of these kinds that is not done, a dead one only where none goes on."""
    found = [
        line for line in story if line.kind in kinds and line.what in (*UNFINISHED, State.DEAD)
    ]
    return max(found, key=lambda line: (line.what != State.DEAD, line.outbox_id), default=None)


def _made(story: Sequence[Happening]) -> Answer:
    job = _open(story, "render_tickets")
    if job is None:
        return Answer("The tickets are not made, and no job is to do it.", "Render again.", "bad")
    if job.what == State.DEAD:
        return _dead("The tickets are not made", job, "render again")
    return Answer(f"The tickets are being made: {_state(job)}.", BY_ITSELF)


def _emailed(order: Order, story: Sequence[Happening]) -> Answer:
    sent = _newest_sent(order, MessageKind.TICKETS)
    # Once any was sent, another job of the first one has nothing to do.
    job = _open(story, RESEND) if sent else _open(story, FIRST, RESEND)
    if job is None or (sent and job.outbox_id < sent.outbox_id):
        return _sent(sent) if sent else _never_sent()
    again = " again" if sent else ""
    if job.what == State.DEAD:
        return _dead(f"The tickets are made, but not emailed{again}", job, "resend the email")
    return Answer(f"The tickets are made and will be emailed{again}: {_state(job)}.", BY_ITSELF)


def _sent(sent: Delivery) -> Answer:
    at = f" at {clock(sent.settled_at)}" if sent.settled_at else ""
    return Answer(
        f"Emailed to {sent.recipient}{at}, and accepted there.",
        "If the buyer cannot find it: look into the spam folder, then resend the email.",
        "good",
    )


def _never_sent() -> Answer:
    return Answer(
        "The tickets are made, not emailed, and no job is to do it.", "Resend the email.", "bad"
    )


def _refunded(order: Order, story: Sequence[Happening]) -> Answer:
    owed = " ".join(_owed(order))
    told, job = _newest_sent(order, MessageKind.REFUND), _open(story, "refund_order")
    text = f"The order was refunded: no ticket of it is valid. {owed}".strip()
    if told:
        at = f" at {clock(told.settled_at)}" if told.settled_at else ""
        return Answer(f"{text} The buyer was told{at}.", _to_pay(order), "good")
    if job is None:
        return Answer(text, "Nobody told the buyer: please do.", "bad")
    if job.what == State.DEAD:
        return _dead(f"{text} The buyer is not told", job, "tell the buyer yourself")
    return Answer(f"{text} The buyer will be told: {_state(job)}.", BY_ITSELF)


def _to_pay(order: Order) -> str:
    waits = any(refund.status == RefundStatus.REQUESTED for refund in order.refunds.all())
    return "Pay it back, then mark it as paid out." if waits else "Nothing to do."


PAYMENT = {
    RefundStatus.REQUESTED: "to pay back",
    RefundStatus.DONE: "paid out",
    RefundStatus.FAILED: "could not be paid back",
}


def _owed(order: Order) -> Iterable[str]:
    for refund in order.refunds.all():
        amount = in_words(refund.amount, order.currency)
        yield f"{amount} {PAYMENT[RefundStatus(refund.status)]}."


def _dead(text: str, job: Happening, otherwise: str) -> Answer:
    return Answer(
        f"{text}: job {job.outbox_id} is dead since {clock(job.at)}, {job.note}.",
        f"Look at the reason, then replay the job or {otherwise}.",
        "bad",
        dead_job_page(job.outbox_id),
    )


def _state(job: Happening) -> str:
    words = {
        State.DUE: f"job {job.outbox_id} is due since",
        State.WAITING: f"job {job.outbox_id} is tried again at",
        State.HELD: f"{job.kind} is held by {job.by} until",
        State.WITH_WORKERS: f"job {job.outbox_id} is with the workers since",
    }[State(job.what)]
    note = f" ({job.note})" if job.note else ""
    return f"{words} {clock(job.at)}{note}"


def _newest_sent(order: Order, kind: MessageKind) -> Delivery | None:
    sent = [one for one in order.deliveries.all()
            if one.kind == kind and one.state == DeliveryState.SENT]  # fmt: skip
    return max(sent, key=lambda one: one.generation, default=None)
