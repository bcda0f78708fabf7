"""Tables of what was bought: tickets, their files, their emails. Only `services` writes them.

Rows that are effects of a job carry its `outbox_id`.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models.functions import Lower, Now

from orders.batches import Batched
from orders.models import AnnouncementKind, Event, Order, TicketType


class TicketStatus(models.TextChoices):
    VALID = "valid", "valid"
    VOID = "void", "void"


class Ticket(models.Model):
    """One admission. `token` is what the code at the door says; a new version is a new token.

    `used_at`: somebody went in with it; `used_by` is who stood at the door.
    """

    order = models.ForeignKey(Order, models.PROTECT, related_name="tickets")
    seq = models.PositiveSmallIntegerField(
        "number", help_text="Of the ticket in its order: with the code it is read out at the door."
    )
    ticket_type = models.ForeignKey(TicketType, models.PROTECT)
    holder_name = models.CharField("holder", max_length=1000)
    token = models.CharField(max_length=26, unique=True)
    version = models.PositiveIntegerField(
        default=1, help_text="Another holder is another version; codes of older ones open no door."
    )
    status = models.CharField(
        max_length=5, choices=TicketStatus, default=TicketStatus.VALID,
        help_text="Void: it was refunded, or the event is cancelled. It opens no door.",
    )  # fmt: skip
    issued_at = models.DateTimeField("issued (UTC)")
    outbox_id = models.BigIntegerField()
    used_at = models.DateTimeField(null=True)
    used_by = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        ordering = ("order_id", "seq")
        constraints = [models.UniqueConstraint("order", "seq", name="ticket_order_seq")]
        permissions = [
            ("export_attendees", "Can export the attendees of an event"),
            ("scan_ticket", "Can let people in at the door"),
        ]

    def __str__(self) -> str:
        return f"ticket {self.order.code}-{self.seq}"


class TicketFile(models.Model):
    """The PDF of an order as it was at `order_version`; `name` is its address in the storage.

    `deleted_at`: nobody gets it from then on, since the event is long past; once the storage has
    forgotten it too, `name` is empty.
    """

    order = models.ForeignKey(Order, models.PROTECT, related_name="files")
    order_version = models.PositiveIntegerField(
        help_text="The version of the order that it shows. The newest file is the good one."
    )
    template_revision = models.PositiveIntegerField(
        "design", help_text="Which design of the tickets it was made with."
    )
    name = models.CharField(max_length=120)
    sha256 = models.CharField("fingerprint", max_length=64, help_text="SHA-256 of the file.")
    size = models.PositiveIntegerField("bytes")
    outbox_id = models.BigIntegerField()
    made_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField("deleted (UTC)", null=True)

    class Meta:
        permissions = [("rerender_order", "Can render the tickets of an order again")]
        constraints = [
            models.UniqueConstraint(
                "order", "order_version", "template_revision", name="ticket_file_version"
            ),
            models.CheckConstraint(
                condition=~models.Q(name="", deleted_at=None), name="ticket_file_named"
            ),
        ]
        indexes = [
            models.Index("id", name="ticket_file_living", condition=models.Q(deleted_at=None)),
            models.Index(
                "id", name="ticket_file_to_unlink",
                condition=models.Q(deleted_at__isnull=False) & ~models.Q(name=""),
            ),
            HashIndex(
                "name", name="ticket_file_content", condition=models.Q(deleted_at=None)
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"file of order {self.order.code}, version {self.order_version}"


class MessageKind(models.TextChoices):
    TICKETS = "tickets", "tickets"
    CHANGED = "changed", "changed"
    REFUND = "refund", "refund"
    MOVED = "moved", "moved"
    CANCELLED = "cancelled", "cancelled"
    REMINDER = "reminder", "reminder"


ANNOUNCED = {
    AnnouncementKind.MOVED.value: MessageKind.MOVED,
    AnnouncementKind.CANCELLED.value: MessageKind.CANCELLED,
}
"""The email of each kind of announcement; its generation is the announcement's number."""


WITH_TICKETS = (MessageKind.TICKETS, MessageKind.CHANGED)
"""The emails that carry the order's file."""


class DeliveryState(models.TextChoices):
    QUEUED = "queued", "queued"
    SENT = "sent", "sent"
    UNCERTAIN = "uncertain", "uncertain"
    FAILED = "failed", "failed"
    BOUNCED = "bounced", "bounced"


ACCEPTED = (DeliveryState.SENT, DeliveryState.BOUNCED)
"""Of what the provider has taken: no other try of it is made."""


class Bounce(models.TextChoices):
    """Why an accepted email came back, in the words that staff reads."""

    INVALID = "invalid", "the address does not exist"
    BOUNCED = "bounced", "the address does not exist, or its mailbox is full"
    BLOCKED = "blocked", "the provider or the recipient's server blocks it"
    TIMED_OUT = "timed_out", "the recipient's server did not answer"
    SPAM = "spam", "it was taken for spam"
    UNSUBSCRIBED = "unsubscribed", "this address wants no email from us"
    OTHER = "other", "the provider gives no reason"


class Email(models.Model):
    """One email, written before its first try: every later try sends the same words.

    In `text` and `html` the secret links are placeholders: the database alone opens no order.
    `tries` are the calls that may have been taken: each is going on, was cut, or its answer was
    lost; `called_at` is when the first of them began. `uncertain`: there are such calls, and the
    provider knows no keys. `bounced`: it was accepted, and came back. `arrived_at`: the provider
    says that the recipient's server took it. `masked_at`: its words and address were forgotten
    then; it cannot be sent any more.
    """

    recipient = models.EmailField("to", max_length=254)
    message_id = models.CharField(max_length=200)
    idempotency_key = models.CharField(max_length=200, unique=True)
    subject = models.CharField(max_length=250)
    text = models.TextField()
    html = models.TextField()
    state = models.CharField(
        max_length=10, choices=DeliveryState, default=DeliveryState.QUEUED,
        help_text="Queued: it is being tried. Sent: the provider has taken it. Uncertain: it may "
        "have, and says nothing. Failed: it will not. Bounced: taken, and came back.",
    )  # fmt: skip
    tries = models.PositiveSmallIntegerField(db_default=0)
    called_at = models.DateTimeField(null=True)
    provider_id = models.CharField(
        "at the provider", max_length=200, blank=True, default="",
        help_text="What the provider calls it: ask there by this.",
    )  # fmt: skip
    first_try_at = models.DateTimeField("first try (UTC)")
    settled_at = models.DateTimeField("settled (UTC)", null=True)
    arrived_at = models.DateTimeField(null=True)
    bounced_at = models.DateTimeField(null=True)
    bounce = models.CharField(max_length=20, choices=Bounce, blank=True, db_default="")
    masked_at = models.DateTimeField(null=True)
    outbox_id = models.BigIntegerField()

    call_noted = False
    """In memory: the call that is about to be made is one of `tries` already."""

    class Meta:
        abstract = True

    @property
    def shown_recipient(self) -> str:
        """The address, for people."""
        return "an address that was forgotten" if self.masked_at else self.recipient

    def links(self) -> "dict[str, Order]":
        """Each placeholder in its words, and the order whose link it stands for."""
        raise NotImplementedError


LINK = "[[order-link]]"
"""Stands in the stored words for the secret link, which is derived when the message goes out."""


class Delivery(Email):
    """One email about an order. `generation`: 1, and one more for each resending; of the email
    that tells of changed tickets, the version of the order.
    """

    order = models.ForeignKey(Order, models.PROTECT, related_name="deliveries")
    kind = models.CharField("about", max_length=20, choices=MessageKind)
    generation = models.PositiveIntegerField(
        "which", default=1,
        help_text="1 is the first, each resending one more. Of changed tickets: the version.",
    )  # fmt: skip
    calendar = models.TextField(blank=True, default="")
    file = models.ForeignKey(TicketFile, models.PROTECT, null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        permissions = [("resend_tickets", "Can resend the email of an order")]
        constraints = [
            models.UniqueConstraint(
                "order", "kind", "generation", "recipient", name="delivery_message"
            )
        ]
        indexes = [
            models.Index(
                fields=["provider_id"],
                name="delivery_provider_id",
                condition=~models.Q(provider_id=""),
            ),
            models.Index("id", name="delivery_unmasked", condition=models.Q(masked_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to the buyer of order {self.order.code}"

    def links(self) -> dict[str, Order]:
        """Its order's own."""
        return {LINK: self.order}


class NoticeKind(models.TextChoices):
    SALES = "sales", "sales"
    STOCK = "stock", "stock"


class Notice(models.Model):
    """What staff is told about a day: the words of all its emails; nobody's data is in them."""

    kind = models.CharField("about", max_length=20, choices=NoticeKind)
    day = models.DateField(help_text="The day that it tells of, on the shop's calendar.")
    subject = models.CharField(max_length=250)
    text = models.TextField()
    html = models.TextField()
    outbox_id = models.BigIntegerField()
    made_at = models.DateTimeField("made (UTC)", db_default=Now())

    class Meta:
        default_permissions = ("view",)
        ordering = ("-day", "kind")
        constraints = [models.UniqueConstraint("kind", "day", name="notice_day")]

    def __str__(self) -> str:
        return f"{self.kind}, {self.day:%-d %b %Y}"


class NoticeDelivery(Email):
    """The email of a notice to one of the staff."""

    notice = models.ForeignKey(Notice, models.PROTECT, related_name="deliveries")

    class Meta:
        default_permissions = ()
        verbose_name_plural = "notice deliveries"
        constraints = [models.UniqueConstraint("notice", "recipient", name="notice_recipient")]
        indexes = [
            models.Index(
                "provider_id", name="notice_provider_id", condition=~models.Q(provider_id="")
            ),
            models.Index("id", name="notice_unmasked", condition=models.Q(masked_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.notice} to {self.recipient}"

    def links(self) -> dict[str, Order]:
        """None."""
        return {}


class StockCheck(models.Model):
    """What a check of the stock found. `places`: by how many the places taken differ from the
    admissions sold; `tickets`: the same of sold admissions and valid tickets; `found`: where."""

    at = models.DateTimeField("when (UTC)", db_default=Now())
    places = models.PositiveIntegerField()
    tickets = models.PositiveIntegerField()
    found = models.JSONField()
    outbox_id = models.BigIntegerField()

    class Meta:
        default_permissions = ("view",)
        ordering = ("-at",)

    def __str__(self) -> str:
        return f"stock check of {self.at:%-d %b %Y %H:%M} UTC"


class Reminder(Batched):
    """The buyers of an event are reminded of it on the day before `day`, its date where it is.

    Once for each date that the event is moved to. It covers the orders that were placed before
    `due_at`. `number`: 1 for the event's first. `skipped`: why the others are told nothing.
    """

    event = models.ForeignKey(Event, models.PROTECT, related_name="reminders")
    number = models.PositiveSmallIntegerField()
    day = models.DateField()
    due_at = models.DateTimeField()
    skipped = models.CharField(max_length=200, blank=True, default="")
    outbox_id = models.BigIntegerField()
    begun_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        ordering = ("event_id", "number")
        constraints = [
            models.UniqueConstraint("event", "number", name="reminder_number"),
            models.UniqueConstraint("event", "day", name="reminder_day"),
        ]

    def __str__(self) -> str:
        return f"reminder {self.number} of {self.event}"


class Answer(models.TextChoices):
    """What the door says to one scan."""

    VALID = "valid", "Valid"
    USED = "used", "Used"
    VOID = "void", "Void"
    OTHER_EVENT = "other", "Other event"
    WHICH = "which", "Which ticket?"
    NAME = "name", "Ask for the name"
    UNKNOWN = "unknown", "No such ticket"


class Scan(models.Model):
    """One scan at a door of the event, never changed. `ticket` is null where none was meant.

    `key` tells two sendings of one form; what was typed is not kept: it may be a token.
    """

    event = models.ForeignKey(Event, models.PROTECT, related_name="+", db_index=False)
    ticket = models.ForeignKey(Ticket, models.PROTECT, null=True, related_name="scans")
    answer = models.CharField(max_length=10, choices=Answer)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    key = models.CharField(max_length=32)

    class Meta:
        default_permissions = ()
        indexes = [models.Index("event", "id", name="scan_event")]

    def __str__(self) -> str:
        return f"scan {self.pk}: {self.answer}"


class Act(models.TextChoices):
    RESEND = "resend", "resend"
    RENAME = "rename", "rename"


class BuyerAct(models.Model):
    """What whoever holds the link did to an order: limits are counted here, the timeline tells it.

    `outbox_id`: the job that it enqueued. `order_version`: the order's from then on. `masked_at`:
    the names in its note were forgotten then.
    """

    order = models.ForeignKey(Order, models.PROTECT, related_name="acts")
    what = models.CharField(max_length=10, choices=Act)
    note = models.TextField()
    order_version = models.PositiveIntegerField()
    outbox_id = models.BigIntegerField()
    request_id = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=Now())
    masked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(
                "id", name="buyer_act_unmasked",
                condition=models.Q(what=Act.RENAME, masked_at=None),
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.what} of order {self.order.code}"


class LostLinkRequest(models.Model):
    """Somebody asked for the links of `email`, an address that may have no order at all.

    `code`: names it to the mail provider, whose memory outlives a restored database.
    """

    email = models.EmailField(max_length=254)
    code = models.CharField(max_length=26, unique=True)
    request_id = models.CharField(max_length=64)
    asked_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        indexes = [models.Index("asked_at", name="lost_link_asked")]

    def __str__(self) -> str:
        return f"lost link {self.pk}"


class LinkDelivery(Email):
    """The email that answers a lost link: the links of `order_ids`, in this order."""

    asked = models.OneToOneField(LostLinkRequest, models.CASCADE, related_name="delivery")
    order_ids = ArrayField(models.BigIntegerField())

    class Meta:
        default_permissions = ()
        verbose_name_plural = "link deliveries"
        indexes = [
            models.Index(Lower("recipient"), "first_try_at", name="link_delivery_to"),
            models.Index(
                "provider_id", name="link_provider_id", condition=~models.Q(provider_id="")
            ),
        ]

    def __str__(self) -> str:
        return f"answer to lost link {self.asked_id}"

    def links(self) -> dict[str, Order]:
        """Those that still exist, each under its place in the email."""
        found = Order.objects.in_bulk(self.order_ids)
        numbered = enumerate(self.order_ids, start=1)
        return {placeholder(number): found[pk] for number, pk in numbered if pk in found}


def placeholder(number: int) -> str:
    """What stands for one of several links, see `LINK`."""
    return f"[[order-link-{number}]]"
