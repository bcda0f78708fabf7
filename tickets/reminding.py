"""The jobs that remind buyers of an event on the day before."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone

from jobs.job import Job
from jobs.policy import GiveUp
from jobs.prognosis import Prognosis
from jobs.registry import Lane, handler
from jobs.schedule import ONCE, Schedule, declare
from orders import batches
from orders.models import Order

from . import emailing, reminder_foresight, reminders, repeats, sending
from .announcing import FAN_OUT
from .models import Reminder
from .reminder_foresight import message_of


@dataclass(frozen=True)
class NoArgs:
    """It looks what there is to do."""


@dataclass(frozen=True)
class BatchArgs:
    """Which reminder, and the last order before the batch."""

    reminder_id: int
    cursor: int


@dataclass(frozen=True)
class RemindArgs:
    """Which order is reminded by which reminder."""

    order_id: int
    reminder_id: int


def _pairs(args: Sequence[RemindArgs]) -> list[tuple[int, int]]:
    return [(one.order_id, one.reminder_id) for one in args]


def _foresee_batches(args: Sequence[BatchArgs]) -> list[Prognosis]:
    return reminder_foresight.of_batches([(one.reminder_id, one.cursor) for one in args])


def _foresee_emails(args: Sequence[RemindArgs]) -> list[Prognosis]:
    return reminder_foresight.of_emails(_pairs(args))


def _consent(args: Sequence[RemindArgs]) -> None:
    repeats.begin_again(reminder_foresight.messages_of(_pairs(args)))


@handler("begin_reminders", policy=FAN_OUT, lane=Lane.BULK)
def begin_reminders(job: Job[NoArgs]) -> None:
    """State: each event whose reminder is due has begun it, once for each date it is on."""
    with job.effects():
        due = reminders.due_events(timezone.now())
        begun = [reminders.begin(pk, job.outbox_id) for pk in due]
        if not any(begun):
            job.nothing_to_do()


@handler(
    "remind_event", policy=FAN_OUT, lane=Lane.BULK, subject="reminder:{reminder_id}",
    foresee=_foresee_batches,
)  # fmt: skip
def remind_event(job: Job[BatchArgs]) -> None:
    """State: each order of that batch has the job that reminds its buyer, the next batch its own;
    or there is nothing to remind of any more, and it says so."""
    with job.effects():
        batch = batches.lock(Reminder, job.args.reminder_id, job.args.cursor)
        if batch is None:
            job.nothing_to_do()
        else:
            reminders.tell_next(batch)


@handler(
    "remind_order", policy=sending.POLICY, lane=Lane.BULK, outside=sending.MAIL,
    subject="order:{order_id}", foresee=_foresee_emails, consent=_consent,
)  # fmt: skip
def remind_order(job: Job[RemindArgs]) -> None:
    """State: the buyer of a placed order with a valid ticket was reminded of the event, once."""
    reminder = _known(job.args.reminder_id)
    order = Order.objects.select_related("event").get(pk=job.args.order_id)
    wanted = bool(reminders.concerned([reminder], [order.pk]))
    emailing.tell(job, message_of(order.pk, reminder), order, wanted=wanted)


def _known(reminder_id: int) -> Reminder:
    found = Reminder.objects.select_related("event").filter(pk=reminder_id).first()
    if found is None:
        raise GiveUp(f"there is no reminder {reminder_id}")
    return found


# One that was missed needs no more than the next one: it finds all that is due.
declare(
    Schedule(
        name="reminders", words="Reminds ticket holders on the day before their event",
        cron="*/5 * * * *", kind="begin_reminders", catch_up=ONCE,
    )
)  # fmt: skip
