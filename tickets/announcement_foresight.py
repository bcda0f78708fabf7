"""What replays of an announcement's jobs would do, for many at once in few looks."""

from collections.abc import Iterable, Sequence

from jobs.prognosis import Effect, Prognosis
from orders import announcements
from orders.models import Announcement, Order, OrderStatus

from . import batch_foresight, foresight
from .deliveries import Message
from .fan_out import concerns
from .foresight import SAFE
from .models import ANNOUNCED

NO_SUCH = Prognosis(Effect.IMPOSSIBLE, "there is no such announcement")
NOT_PLACED = Prognosis(Effect.NOTHING, "the order is not placed: nothing will happen")
OVERTAKEN = Prognosis(
    Effect.NOTHING, "it has nothing to tell the buyer of this order any more: nothing will happen"
)


def message_of(order_id: int, announcement: Announcement) -> Message:
    """The email that tells the order's buyer of it."""
    return Message(order_id, ANNOUNCED[announcement.kind], announcement.number)


def _announcements(numbers: Iterable[int]) -> dict[int, Announcement]:
    return Announcement.objects.select_related("event").in_bulk(list(numbers))


def messages_of(asked: Sequence[tuple[int, int]]) -> list[Message]:
    """Of order ids and announcement ids; those of no announcement are left out."""
    known = _announcements({number for _, number in asked})
    return [message_of(order, known[number]) for order, number in asked if number in known]


def of_emails(asked: Sequence[tuple[int, int]]) -> list[Prognosis]:
    """Whether a replay would tell the order's buyer of the announcement, and for the first time."""
    known = _announcements({number for _, number in asked})
    orders = Order.objects.in_bulk([order for order, _ in asked])
    newest = announcements.newest_numbers(one.event_id for one in known.values())
    found = dict(zip(messages_of(asked), foresight.of_emails(messages_of(asked)), strict=True))

    def one(order_id: int, number: int) -> Prognosis:
        announcement, order = known.get(number), orders.get(order_id)
        if announcement is None:
            return NO_SUCH
        said = found[message_of(order_id, announcement)]
        if order is None or said.effect == Effect.NOTHING:
            return said
        told = concerns(announcement, order, newest[announcement.event_id])
        return said if told else OVERTAKEN

    return [one(*pair) for pair in asked]


def of_rerenders(order_ids: Sequence[int]) -> list[Prognosis]:
    """Whether each order's file may be another one by now."""
    placed = Order.objects.filter(pk__in=order_ids, status=OrderStatus.PLACED)
    numbers = set(placed.values_list("pk", flat=True))
    return [SAFE if order_id in numbers else NOT_PLACED for order_id in order_ids]


def of_batches(asked: Sequence[tuple[int, int]]) -> list[Prognosis]:
    """Of announcement ids and cursors: whether the batch after each is the next one."""
    return batch_foresight.of_batches(_announcements(number for number, _ in asked), asked, NO_SUCH)
