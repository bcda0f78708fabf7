"""What replays of the jobs that remind buyers of an event would do, for many in few looks."""

from collections.abc import Sequence

from jobs.prognosis import Effect, Prognosis

from . import batch_foresight, foresight, reminders
from .deliveries import Message
from .models import MessageKind, Reminder

NO_SUCH = Prognosis(Effect.IMPOSSIBLE, "there is no such reminder")
OVERTAKEN = Prognosis(
    Effect.NOTHING, "the buyer of this order is not to be reminded any more: nothing will happen"
)


def message_of(order_id: int, reminder: Reminder) -> Message:
    """The email that reminds the order's buyer."""
    return Message(order_id, MessageKind.REMINDER, reminder.number)


def _reminders(asked: Sequence[tuple[int, int]], place: int) -> dict[int, Reminder]:
    found = Reminder.objects.select_related("event")
    return found.in_bulk(list({pair[place] for pair in asked}))


def messages_of(asked: Sequence[tuple[int, int]]) -> list[Message]:
    """Of order ids and reminder ids; those of no reminder are left out."""
    known = _reminders(asked, 1)
    return [message_of(order, known[number]) for order, number in asked if number in known]


def of_emails(asked: Sequence[tuple[int, int]]) -> list[Prognosis]:
    """Whether a replay would remind the order's buyer, and for the first time."""
    known = _reminders(asked, 1)
    messages = messages_of(asked)
    said = dict(zip(messages, foresight.of_emails(messages), strict=True))
    wanted = reminders.concerned(list(known.values()), [order for order, _ in asked])

    def one(order_id: int, number: int) -> Prognosis:
        if number not in known:
            return NO_SUCH
        found = said[message_of(order_id, known[number])]
        idle = found.effect in (Effect.NOTHING, Effect.IMPOSSIBLE)
        return found if idle or (number, order_id) in wanted else OVERTAKEN

    return [one(*pair) for pair in asked]


def of_batches(asked: Sequence[tuple[int, int]]) -> list[Prognosis]:
    """Of reminder ids and cursors: whether the batch after each is the next one."""
    return batch_foresight.of_batches(_reminders(asked, 0), asked, NO_SUCH)
