"""The jobs of an announcement: batch after batch of its orders, and the email of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.job import Job
from jobs.policy import GiveUp, Policy
from jobs.prognosis import Prognosis
from jobs.registry import Lane, handler
from orders import announcements
from orders.models import Announcement, Order

from . import announcement_foresight, emailing, fan_out, repeats, sending
from .announcement_foresight import message_of

FAN_OUT = Policy(attempts=8, base=10, timeout=60, hold_after=0)


@dataclass(frozen=True)
class BatchArgs:
    """Which announcement, and the last order before the batch."""

    announcement_id: int
    cursor: int


@dataclass(frozen=True)
class AnnounceArgs:
    """Which order is told of which announcement."""

    order_id: int
    announcement_id: int


def _pairs(args: Sequence[AnnounceArgs]) -> list[tuple[int, int]]:
    return [(one.order_id, one.announcement_id) for one in args]


def _foresee_batches(args: Sequence[BatchArgs]) -> list[Prognosis]:
    return announcement_foresight.of_batches([(one.announcement_id, one.cursor) for one in args])


def _foresee_emails(args: Sequence[AnnounceArgs]) -> list[Prognosis]:
    return announcement_foresight.of_emails(_pairs(args))


def _consent(args: Sequence[AnnounceArgs]) -> None:
    repeats.begin_again(announcement_foresight.messages_of(_pairs(args)))


@handler(
    "announce_event", policy=FAN_OUT, lane=Lane.BULK, subject="announcement:{announcement_id}",
    foresee=_foresee_batches,
)  # fmt: skip
def announce_event(job: Job[BatchArgs]) -> None:
    """State: each order of that batch has the job that tells its buyer, and is refunded where the
    event is cancelled; the next batch has its own job."""
    with job.effects():
        batch = announcements.lock_batch(job.args.announcement_id, job.args.cursor)
        if batch is None:
            job.nothing_to_do()
        else:
            fan_out.tell_next(batch, job.outbox_id)


@handler(
    "announce_order", policy=sending.POLICY, lane=Lane.BULK, outside=sending.MAIL,
    subject="order:{order_id}", foresee=_foresee_emails, consent=_consent,
)  # fmt: skip
def announce_order(job: Job[AnnounceArgs]) -> None:
    """State: the buyer of the order was told of the event's newest announcement, once."""
    announcement = _known(job.args.announcement_id)
    order = Order.objects.select_related("event").get(pk=job.args.order_id)
    newest = announcements.newest_number(announcement.event)
    wanted = fan_out.concerns(announcement, order, newest)
    emailing.tell(job, message_of(order.pk, announcement), order, wanted=wanted)


def _known(announcement_id: int) -> Announcement:
    found = Announcement.objects.select_related("event").filter(pk=announcement_id).first()
    if found is None:
        raise GiveUp(f"there is no announcement {announcement_id}")
    return found
