"""Tables of selling: events, ticket types, places, orders, refunds.

`services` alone writes places and orders, `refunds` alone refunds, `announcements` alone those.
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.contrib.postgres.indexes import OpClass
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Left, Lower, Now
from django.utils import timezone

from .batches import Batched
from .deadline import may_refund, refund_deadline
from .money import valid_currency
from .wallclock import WallClockField, valid_zone


class EventStatus(models.TextChoices):
    DRAFT = "draft", "draft"
    ON_SALE = "on_sale", "on sale"
    CLOSED = "closed", "closed"
    CANCELLED = "cancelled", "cancelled"


class EventQuerySet(models.QuerySet["Event"]):
    def listed(self) -> "EventQuerySet":
        """What buyers see: published and not over."""
        published = self.exclude(status=EventStatus.DRAFT).filter(starts_at__gt=Now())
        return published.prefetch_related("ticket_types__stock")


class Event(models.Model):
    """`starts_local` is the truth (what the poster says); `starts_at` is what it means in UTC."""

    slug = models.SlugField(
        "end of its address", unique=True, max_length=80,
        help_text="The event's page is /events/…/. Links that are out do not follow a change.",
    )  # fmt: skip
    title = models.CharField(max_length=120, help_text="As on the poster; printed on the tickets.")
    venue = models.CharField(max_length=120, help_text="Where it is; printed on the tickets.")
    tz = models.CharField(
        "time zone",
        max_length=64,
        validators=[valid_zone],
        help_text="Where it is, e.g. Europe/Berlin. Its times are typed and shown on its clock.",
    )
    starts_local = WallClockField("starts", help_text="In the event's time zone.")
    starts_fold = models.SmallIntegerField(
        "which, if twice",
        null=True,
        blank=True,
        choices=[(0, "the first (before the clocks go back)"), (1, "the second")],
        help_text="Only for a time that comes twice on the night when the clocks go back.",
    )
    starts_at = models.DateTimeField("starts (UTC)", editable=False)
    doors_minutes = models.PositiveSmallIntegerField(
        "doors open", default=60, help_text="Minutes before the start."
    )
    sale_opens_at = models.DateTimeField()
    sale_closes_at = models.DateTimeField()
    refunds_until = models.DateTimeField(null=True, blank=True)
    status = models.CharField(
        max_length=10, choices=EventStatus, default=EventStatus.DRAFT,
        help_text="Draft: nobody sees it. On sale: between the two times below. Closed: shown, not "
        "sold. “Publish” and “Close the sale” are actions of the list of events.",
    )  # fmt: skip
    currency = models.CharField(
        max_length=3, default="EUR", validators=[valid_currency],
        help_text="Of all its prices, three letters, for example EUR.",
    )  # fmt: skip

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ("starts_at",)
        permissions = [
            ("publish_event", "Can publish and close events"),
            ("move_event", "Can move events to another time"),
            ("cancel_event", "Can cancel events and refund their orders"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(sale_opens_at__lt=F("sale_closes_at")),
                name="event_sale_opens_first",
                violation_error_message="The sale must open before it closes.",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def zone(self) -> ZoneInfo:
        """The event's zone: every time about it is shown there."""
        return ZoneInfo(self.tz)

    @property
    def sale_state(self) -> str:
        """upcoming, open or closed: it flips by the clock alone, no job is needed."""
        now = timezone.now()
        if self.status != EventStatus.ON_SALE or self.sale_closes_at <= now:
            return "closed"
        return "upcoming" if self.sale_opens_at > now else "open"

    @property
    def refund_deadline(self) -> datetime | None:
        """Until when buyers may give tickets back, on the event's wall clock; None: never."""
        deadline = refund_deadline(self.refunds_until, self.starts_at)
        return deadline.astimezone(self.zone) if deadline else None

    @property
    def takes_back(self) -> bool:
        """Whether buyers may give tickets back at this moment."""
        return may_refund(self.refunds_until, self.starts_at, timezone.now())

    @property
    def sold_out(self) -> bool:
        """Nothing is left of any ticket type."""
        return not any(kind.stock.left for kind in self.ticket_types.all())

    @property
    def price_from(self) -> int:
        """The lowest price, in minor units, of what is left; 0 where nothing is."""
        left = [kind.price for kind in self.ticket_types.all() if kind.stock.left]
        return min(left, default=0)

    @property
    def starts(self) -> datetime:
        """The start on the wall clock of the event's zone."""
        return self.starts_at.astimezone(self.zone)

    @property
    def doors(self) -> datetime:
        """When the doors open, on the wall clock of the event's zone."""
        return (self.starts_at - timedelta(minutes=self.doors_minutes)).astimezone(self.zone)


class TicketTypeQuerySet(models.QuerySet["TicketType"]):
    def published(self, slug: str) -> "TicketTypeQuerySet":
        """What buyers see of the event `slug`, with event and stock."""
        of_event = self.filter(event__slug=slug).exclude(event__status=EventStatus.DRAFT)
        return of_event.select_related("event", "stock")


class TicketType(models.Model):
    """`price` in minor units of the event's currency."""

    event = models.ForeignKey(Event, models.PROTECT, related_name="ticket_types")
    name = models.CharField(max_length=80, help_text="Printed on the tickets.")
    price = models.PositiveBigIntegerField(help_text="In minor units: 4250 is 42.50 EUR.")
    max_per_order = models.PositiveSmallIntegerField(
        "most in one order", default=8, validators=[MinValueValidator(1)]
    )
    sort = models.PositiveSmallIntegerField(
        "place in the list", default=0, help_text="Smaller numbers come first."
    )

    objects = TicketTypeQuerySet.as_manager()

    class Meta:
        ordering = ("sort", "id")
        constraints = [
            models.UniqueConstraint("event", "name", name="ticket_type_name"),
            models.CheckConstraint(condition=Q(price__gte=0), name="ticket_type_price"),
            models.CheckConstraint(condition=Q(max_per_order__gte=1), name="ticket_type_max"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.event})"


class Stock(models.Model):
    """Places of one ticket type: a narrow table of its own, since every order updates a row."""

    ticket_type = models.OneToOneField(TicketType, models.CASCADE, primary_key=True)
    capacity = models.PositiveIntegerField()
    taken = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name_plural = "stock"
        constraints = [
            models.CheckConstraint(
                condition=Q(taken__gte=0) & Q(taken__lte=F("capacity")),
                name="stock_within_capacity",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.taken} of {self.capacity}"

    @property
    def left(self) -> int:
        """Places that can still be sold."""
        return self.capacity - self.taken


class OrderStatus(models.TextChoices):
    PLACED = "placed", "placed"
    CANCELLED = "cancelled", "cancelled"
    REFUNDED = "refunded", "refunded"


class LastWord(models.Func):
    """What stands after the last space of a name."""

    template = "SUBSTRING(%(expressions)s FROM '[^ ]+$')"
    output_field = models.CharField()


NAME_SEARCHED = 100
"""Code points of a name, at most 400 bytes, by which it is found: a row of an index has 2,704."""


def searched(name: models.expressions.Combinable | str) -> Left:
    """What the index of a name holds of it, and what a searched name is compared as."""
    return Left(Lower(name), NAME_SEARCHED)


class Order(models.Model):
    """`placed` means sold. Fulfilment is not here but in tickets, files and deliveries."""

    code = models.CharField(
        max_length=8, unique=True, help_text="What buyers read to you; it opens nothing by itself."
    )
    secret_digest = models.BinaryField(max_length=32, unique=True)
    link_key = models.PositiveSmallIntegerField()
    link_version = models.PositiveIntegerField(default=1)
    version = models.PositiveIntegerField(
        default=1, help_text="Higher after each change of what its tickets say. Files are of one."
    )
    event = models.ForeignKey(Event, models.PROTECT, related_name="orders")
    email = models.EmailField(max_length=254, help_text="Where its emails go.")
    buyer_name = models.CharField("buyer", max_length=1000)
    locale = models.CharField(max_length=20, default="en")
    currency = models.CharField(max_length=3)
    total = models.PositiveBigIntegerField()
    status = models.CharField(
        max_length=10, choices=OrderStatus, default=OrderStatus.PLACED,
        help_text="Placed: sold, whether its tickets are made or not. Refunded: all of it; while "
        "any ticket is left it stays placed.",
    )  # fmt: skip
    idempotency_key = models.CharField(max_length=64, unique=True)
    request_hash = models.BinaryField(max_length=32)
    request_id = models.CharField(
        "request", max_length=64, help_text="In every line of the logs that is about this purchase."
    )
    placed_at = models.DateTimeField("placed (UTC)", db_default=Now())

    class Meta:
        indexes = [
            models.Index(Lower("email"), name="order_email"),
            models.Index("event", "placed_at", name="order_event"),
            # Beginnings of the whole name and of its last word; no extension is needed for them.
            models.Index(
                OpClass(searched("buyer_name"), name="text_pattern_ops"), name="order_name"
            ),
            models.Index(
                OpClass(searched(LastWord("buyer_name")), name="text_pattern_ops"),
                name="order_last_name",
            ),
        ]
        permissions = [("refund_order", "Can refund orders")]

    def __str__(self) -> str:
        return f"order {self.code}"

    @property
    def is_placed(self) -> bool:
        """Sold, and neither cancelled nor refunded."""
        return self.status == OrderStatus.PLACED

    @property
    def is_refunded(self) -> bool:
        """The whole of it was taken back."""
        return self.status == OrderStatus.REFUNDED


class OrderLine(models.Model):
    """One ticket type of an order; price in minor units and name as sold."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    ticket_type = models.ForeignKey(TicketType, models.PROTECT)
    quantity = models.PositiveSmallIntegerField()
    price = models.PositiveBigIntegerField()
    name = models.CharField("ticket type", max_length=80, help_text="As it was called when sold.")

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint("order", "ticket_type", name="order_line_type"),
            models.CheckConstraint(condition=Q(quantity__gte=1), name="order_line_quantity"),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} × {self.name}"

    @property
    def amount(self) -> int:
        """Price of all of them, in minor units."""
        return self.price * self.quantity


class RefundStatus(models.TextChoices):
    REQUESTED = "requested", "requested"
    DONE = "done", "done"
    FAILED = "failed", "failed"


class Refund(models.Model):
    """What is owed back for an order or a part of it, in minor units.

    `number`: 1 for the order's first. `requested` until it was paid out; `failed`: the provider
    refuses to, it is owed all the same and paid by hand. `provider_key` is given to whoever pays
    it out, the same for every try; `tried_at`: the provider was asked then and may have paid.
    `outbox_id`: the job that met the renders under way and sent the others on their way.
    """

    order = models.ForeignKey(Order, models.PROTECT, related_name="refunds")
    number = models.PositiveSmallIntegerField(
        default=1, db_default=1, help_text="1 is the first refund of the order."
    )
    amount = models.PositiveBigIntegerField()
    status = models.CharField(
        max_length=10, choices=RefundStatus, default=RefundStatus.REQUESTED,
        help_text="Requested: to be paid out. Done: it was. Failed: the payment provider refuses; "
        "the buyer is owed it all the same, pay by hand.",
    )  # fmt: skip
    reason = models.CharField(max_length=500, help_text="For colleagues.")
    actor = models.CharField("by", max_length=200)
    provider_key = models.CharField(max_length=64, unique=True)
    provider_id = models.CharField(max_length=200, blank=True, default="", db_default="")
    failure = models.CharField(max_length=200, blank=True, default="", db_default="")
    request_id = models.CharField(max_length=64, blank=True, default="")
    requested_at = models.DateTimeField("requested (UTC)", db_default=Now())
    tried_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    outbox_id = models.BigIntegerField(null=True)

    class Meta:
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint("order", "number", name="refund_number")]

    def __str__(self) -> str:
        return f"refund {self.provider_key}"


class RefundItem(models.Model):
    """One admission that a refund covers, by its number in the order: tickets may not exist yet.

    `live` for good, also where paying it back failed: its place may be sold again by then.
    """

    refund = models.ForeignKey(Refund, models.CASCADE, related_name="items")
    order = models.ForeignKey(Order, models.PROTECT, related_name="+")
    seq = models.PositiveSmallIntegerField()
    live = models.BooleanField(default=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["order", "seq"], condition=Q(live=True), name="refund_item_once"
            )
        ]

    def __str__(self) -> str:
        return f"admission {self.seq} of order {self.order_id}"


class AnnouncementKind(models.TextChoices):
    MOVED = "moved", "moved"
    CANCELLED = "cancelled", "cancelled"


class Announcement(Batched):
    """An event was moved or cancelled, and how far its buyers have been told.

    It covers the orders of the event that are placed when their turn comes. `number`: 1 for the
    event's first. `words` are for buyers, `reason` is for colleagues.
    """

    event = models.ForeignKey(Event, models.PROTECT, related_name="announcements")
    number = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=10, choices=AnnouncementKind)
    words = models.TextField(blank=True, default="")
    reason = models.CharField(max_length=500, blank=True, default="")
    by = models.CharField(max_length=200)
    request_id = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())
    old_starts_at = models.DateTimeField()
    old_doors_minutes = models.PositiveSmallIntegerField()
    starts_at = models.DateTimeField()
    doors_minutes = models.PositiveSmallIntegerField()

    class Meta:
        default_permissions = ()
        ordering = ("event_id", "number")
        constraints = [models.UniqueConstraint("event", "number", name="announcement_number")]

    def __str__(self) -> str:
        return f"announcement {self.number} of {self.event}"

    @property
    def doors(self) -> datetime:
        """When the doors open, on the wall clock of the event's zone."""
        opened = self.starts_at - timedelta(minutes=self.doors_minutes)
        return opened.astimezone(self.event.zone)

    @property
    def is_cancellation(self) -> bool:
        """Whether the event does not take place, so that its orders are refunded."""
        return self.kind == AnnouncementKind.CANCELLED
