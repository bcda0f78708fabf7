"""What is told of a scene, and the figures in it, which come from the copy's own database."""

import textwrap

from django.db.models import Max

from jobs.models import JobEvent, OutboxRow, ProcessedJob
from orders.models import Order
from stagedoor.place import Refused
from tickets.models import Delivery, Ticket

from .buyer import Bought

WIDTH = 92


def title(text: str) -> None:
    """A new scene begins."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def tell(text: str) -> None:
    """One thing to be seen."""
    print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  "), flush=True)


def once(bought: list[Bought]) -> str:
    """That all was done once, in words. Raises Refused where it was not."""
    orders = Order.objects.filter(code__in=[one.code for one in bought])
    subjects = [f"order:{order.pk}" for order in orders]
    done = ProcessedJob.objects.filter(subject__in=subjects)
    renders = done.filter(kind="render_tickets").count()
    emails = Delivery.objects.filter(order__in=orders, state="sent").count()
    tickets = Ticket.objects.filter(order__in=orders).count()
    counted = f"Orders: {len(bought)}, tickets: {tickets}, renders: {renders}, emails: {emails}"
    if not renders == emails == len(bought):
        raise Refused(f"{counted}. That is not as it should be: please report it.")
    return f"{counted}."


def attempts() -> str:
    """What an outage has cost the emails that wait."""
    waiting = OutboxRow.objects.live().filter(kind="email_tickets")
    most = waiting.aggregate(most=Max("attempts"))["most"]
    lost = f"more than {most} attempts" if most else "an attempt"
    return (
        f"Of the {waiting.count()} jobs that wait, none has lost {lost}: an outage is not the "
        "job's fault."
    )


def story(job: OutboxRow) -> str:
    """What happened to a job, and by whom."""
    events = JobEvent.objects.filter(outbox_id=job.pk).order_by("at", "id")
    return f"Its story: {', '.join(f'{event.what} by {event.by}' for event in events)}."
