"""What became of an order's refunds, in the answer to “Where is my ticket?”."""

from collections.abc import Iterator, Sequence

from jobs.story import Happening, State
from orders.models import Order, Refund, RefundStatus
from orders.money import in_words

from .answer_parts import Answer, came_back, dead, on_its_way, open_job, state_of
from .models import ACCEPTED, Delivery, MessageKind
from .times import clock

KINDS = ("refund_order", "email_refund", "announce_order")
"""The jobs that tell the buyer, the one after the other; of a cancelled event, the last alone."""


def refund_answer(order: Order, story: Sequence[Happening]) -> Answer | None:
    """Who is told and paid what; None of an order without refunds."""
    refunds = sorted(order.refunds.all(), key=lambda refund: refund.number)
    if not refunds and not order.is_refunded:
        return None
    whole = "The order was refunded: no ticket of it is valid."
    begun = [whole if order.is_refunded else "A part of it was refunded."]
    text = " ".join([*begun, *_amounts(order, refunds)])
    job = open_job(story, "pay_refund")
    if job is not None and job.what == State.DEAD:
        return dead(f"{text} The payment is not made", job, "pay it by hand and mark it")
    return _told(order, refunds, story, text)


def _amounts(order: Order, refunds: Sequence[Refund]) -> Iterator[str]:
    if refunds and not any(refund.amount for refund in refunds):
        yield "Nothing is to be paid back."
    for refund in filter(lambda one: one.amount, refunds):
        yield f"{in_words(refund.amount, order.currency)} {_payment(refund)}."


def _payment(refund: Refund) -> str:
    if refund.status == RefundStatus.DONE:
        return "paid out"
    if refund.status == RefundStatus.FAILED:
        return f"could not be paid back: {refund.failure or 'the provider refuses it'}"
    if refund.tried_at:
        return f"asked of the payment provider since {clock(refund.tried_at)}"
    return "to pay back"


def _told(order: Order, refunds: Sequence[Refund], story: Sequence[Happening], text: str) -> Answer:
    told = {one.generation: one for one in _accepted(order, MessageKind.REFUND)}
    for one in _accepted(order, MessageKind.CANCELLED):
        # The event was cancelled: it tells of what was left of the order then.
        told[max(refund.number for refund in refunds)] = one
    todo, tone = _to_pay(refunds)
    if refunds and all(refund.number in told for refund in refunds):
        last = told[refunds[-1].number]
        if last.bounced_at:
            return Answer(f"{text} {came_back(last)}", f"Tell the buyer yourself. {todo}", "bad")
        at = f" at {clock(last.settled_at)}" if last.settled_at else ""
        return Answer(f"{text} The buyer was told{at}.", todo, tone)
    job = open_job(story, *KINDS)
    if job is None:
        return Answer(text, "Nobody told the buyer: please do.", "bad")
    if job.what == State.DEAD:
        return dead(f"{text} The buyer is not told", job, "tell the buyer yourself")
    return Answer(f"{text} The buyer will be told: {state_of(job)}.", on_its_way())


def _accepted(order: Order, kind: MessageKind) -> list[Delivery]:
    return [one for one in order.deliveries.all() if one.kind == kind and one.state in ACCEPTED]


def _to_pay(refunds: Sequence[Refund]) -> tuple[str, str]:
    """What is left to do about the money, and the tone of it."""
    if any(refund.status == RefundStatus.FAILED for refund in refunds):
        return "Pay it back by hand, then mark it as paid out.", "bad"
    waiting = [refund for refund in refunds if refund.status == RefundStatus.REQUESTED]
    if any(refund.tried_at is None for refund in waiting):
        return "Pay it back, then mark it as paid out.", "good"
    if waiting:
        return "Before anybody pays it by hand: look at the provider, it may have paid.", ""
    return "Nothing to do.", "good"


def both(tickets: Answer, about_refunds: Answer) -> Answer:
    """One answer out of two: what is wrong with either comes first in what to do."""
    parts = [tickets, about_refunds]
    worse, other = parts if tickets.tone == "bad" or about_refunds.tone != "bad" else parts[::-1]
    todo = " ".join(
        dict.fromkeys(part.todo for part in (worse, other) if part.todo != "Nothing to do.")
    )
    return Answer(
        f"{tickets.text} {about_refunds.text}",
        todo or "Nothing to do.",
        worse.tone,
        worse.url or other.url,
    )
