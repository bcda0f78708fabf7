"""An email that is begun goes out, with its file, and is settled in the effects of its job."""

from django.conf import settings

from jobs.job import Job
from orders.models import Order

from . import deliveries, sending
from .deliveries import Message
from .files import ticket_storage
from .models import ACCEPTED, Delivery, Email


def tell[A](job: Job[A], message: Message, order: Order, *, wanted: bool = True) -> None:
    """The email without a file, sent once; nothing to do where it is not `wanted` any more."""
    deliver(job, deliveries.begin(message, order, None, job.outbox_id) if wanted else None)


def deliver[A](job: Job[A], email: Email | None) -> bool:
    """The email that is begun, sent once; whether this job did it. Nothing to do where there is
    none. Raises what `sending.send` does."""
    if email is not None and email.state not in ACCEPTED:
        email.provider_id = sending.send(email, _attachment(email))
    with job.effects():
        done = email is not None and _settled(job, email)
        if not done:
            job.nothing_to_do()
    return done


def _settled[A](job: Job[A], email: Email) -> bool:
    return deliveries.settle_sent(email, email.provider_id, job.outbox_id)


def _attachment(email: Email) -> bytes | None:
    file = email.file if isinstance(email, Delivery) else None
    if file is None or file.size > settings.MAIL_ATTACHMENT_LIMIT:
        return None
    with ticket_storage().open(file.name) as stored:
        return bytes(stored.read())
