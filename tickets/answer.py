"""“Where is my ticket?” in a sentence, and what to do about it."""

from collections.abc import Sequence

from jobs.story import Happening, State
from orders.models import Order

from .answer_parts import Answer, came_back, dead, on_its_way, open_job, state_of
from .files import deleted_file, newest_file, told_deleted
from .models import ACCEPTED, WITH_TICKETS, Delivery, MessageKind
from .refund_answer import both, refund_answer
from .times import clock

FIRST, LATER = "email_tickets", ("resend_tickets", "email_changed_tickets")


def answer(order: Order, story: Sequence[Happening]) -> Answer:
    """Where the order's tickets are, and what became of its refunds."""
    about_refunds = refund_answer(order, story)
    if about_refunds and not order.is_placed:
        return about_refunds
    if not order.is_placed:
        return Answer(
            f"The order was {order.get_status_display()}: its tickets are not valid.",
            "Nothing to do.",
        )
    about_tickets = _emailed(order, story) if newest_file(order) else _made(order, story)
    return both(about_tickets, about_refunds) if about_refunds else about_tickets


def _made(order: Order, story: Sequence[Happening]) -> Answer:
    job = open_job(story, "render_tickets")
    gone = deleted_file(order)
    if job is None and gone:
        return Answer(
            f"{told_deleted(gone)}.",
            "Nothing to do. For a buyer who still needs it: render again, then resend the email.",
        )
    if job is None:
        return Answer("The tickets are not made, and no job is to do it.", "Render again.", "bad")
    if job.what == State.DEAD:
        return dead("The tickets are not made", job, "render again")
    return Answer(f"The tickets are being made: {state_of(job)}.", on_its_way())


def _emailed(order: Order, story: Sequence[Happening]) -> Answer:
    sent = _newest_sent(order, *WITH_TICKETS)
    # Once any was sent, another job of the first one has nothing to do.
    job = open_job(story, *LATER) if sent else open_job(story, FIRST, *LATER)
    if job is None or (sent and job.outbox_id < sent.outbox_id):
        return _sent(sent) if sent else _never_sent()
    again = " again" if sent else ""
    if job.what == State.DEAD:
        return dead(f"The tickets are made, but not emailed{again}", job, "resend the email")
    return Answer(
        f"The tickets are made and will be emailed{again}: {state_of(job)}.", on_its_way()
    )


def _sent(sent: Delivery) -> Answer:
    at = f" at {clock(sent.settled_at)}" if sent.settled_at else ""
    if sent.bounced_at:
        return Answer(
            f"Emailed to {sent.shown_recipient}{at}. {came_back(sent)}",
            "Correct the address, then resend the email, or call the buyer.",
            "bad",
        )
    return Answer(
        f"Emailed to {sent.shown_recipient}{at}, and accepted there.",
        "If the buyer cannot find it: look into the spam folder, then resend the email.",
        "good",
    )


def _never_sent() -> Answer:
    return Answer(
        "The tickets are made, not emailed, and no job is to do it.", "Resend the email.", "bad"
    )


def _newest_sent(order: Order, *kinds: MessageKind) -> Delivery | None:
    sent = [one for one in order.deliveries.all()
            if one.kind in kinds and one.state in ACCEPTED]  # fmt: skip
    return max(sent, key=lambda one: one.outbox_id, default=None)
