"""An email that is begun goes out, with its file, and is settled in the effects of its job."""

from django.conf import settings

from jobs.job import Job
from orders.models import Order

from . import deliveries, sending, services
from .deliveries import Message
from .models import ACCEPTED, Delivery


def tell[A](job: Job[A], message: Message, order: Order, *, wanted: bool = True) -> None:
    """The email without a file, sent once; nothing to do where it is not `wanted` any more."""
    delivery = None
    if wanted:
        delivery = sent(deliveries.begin(message, order, None, job.outbox_id))
    with job.effects():
        if delivery is None or not settled(job, delivery):
            job.nothing_to_do()


def sent(delivery: Delivery) -> Delivery:
    """The same, once the provider has accepted it; raises what `sending.send` does."""
    if delivery.state not in ACCEPTED:
        delivery.provider_id = sending.send(delivery, _attachment(delivery))
    return delivery


def settled[A](job: Job[A], delivery: Delivery) -> bool:
    """Inside `effects()`: it was accepted. False where that was known already."""
    return deliveries.settle_sent(delivery, delivery.provider_id, job.outbox_id)


def _attachment(delivery: Delivery) -> bytes | None:
    file = delivery.file
    if file is None or file.size > settings.MAIL_ATTACHMENT_LIMIT:
        return None
    with services.ticket_storage().open(file.name) as stored:
        return bytes(stored.read())
