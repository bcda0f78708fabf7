"""The box office's page of an order: what was bought and what became of it. Nothing is edited."""

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html

from jobs.story import story_of
from orders.models import Order, OrderLine, Refund
from orders.money import in_words

from . import notice_admin  # noqa: F401 (its pages register themselves)
from .answer import answer
from .models import Delivery, Ticket, TicketFile
from .order_actions import OrderActions
from .search import search
from .subjects import subject_of
from .timeline import timeline
from .times import moment


class ReadOnlyInline(admin.TabularInline[Any, Order]):
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: services write these rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: services write these rows."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the order, whose code names each row: else a look for each."""
        return super().get_queryset(request).select_related("order")


class LineInline(ReadOnlyInline):
    model = OrderLine
    fields = ("name", "quantity", "amount")
    readonly_fields = ("amount",)

    @admin.display(description="price")
    def amount(self, line: OrderLine) -> str:
        """Of one, as sold."""
        return in_words(line.price, line.order.currency)


class TicketInline(ReadOnlyInline):
    # Without the token: whoever reads it can go in.
    model = Ticket
    fields = ("seq", "ticket_type", "holder_name", "version", "status", "issued_at", "used")
    readonly_fields = ("used",)

    @admin.display(description="used at the door")
    def used(self, ticket: Ticket) -> str:
        """When somebody went in with it, on the event's clock, and who let them in."""
        if ticket.used_at is None:
            return "—"
        return f"{moment(ticket.used_at, ticket.order.event)} by {ticket.used_by}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With what names a ticket type: else two looks for each ticket."""
        return super().get_queryset(request).select_related("ticket_type__event", "order__event")


class FileInline(ReadOnlyInline):
    model = TicketFile
    fields = ("order_version", "template_revision", "size", "sha256", "deleted_at")


class DeliveryInline(ReadOnlyInline):
    model = Delivery
    fields = (
        "kind",
        "generation",
        "to",
        "state",
        "first_try_at",
        "settled_at",
        "provider_id",
    )
    readonly_fields = ("to",)

    @admin.display(description="recipient")
    def to(self, delivery: Delivery) -> str:
        """The address, or that it was forgotten."""
        return delivery.shown_recipient


class RefundInline(ReadOnlyInline):
    model = Refund
    fields = ("number", "owed", "tickets", "status", "reason", "actor", "requested_at")
    readonly_fields = ("owed", "tickets")

    @admin.display(description="amount")
    def owed(self, refund: Refund) -> str:
        """What is to be paid back."""
        return in_words(refund.amount, refund.order.currency)

    @admin.display(description="tickets")
    def tickets(self, refund: Refund) -> str:
        """The numbers of those that it covers."""
        return ", ".join(str(item.seq) for item in refund.items.order_by("seq"))


@admin.register(Order)
class OrderAdmin(OrderActions):
    inlines = (LineInline, TicketInline, FileInline, DeliveryInline)
    list_display = ("code", "event", "buyer", "amount", "status", "placed")
    list_filter = ("status", "placed_at", "event")
    list_select_related = ("event",)
    # Counting all orders again for each search costs as much as the search.
    show_full_result_count = False
    search_fields = ("code",)
    search_help_text = "Code, email or request id; or how the name or last name begins."
    fields = (
        "code", "event", "buyer_name", "email", "amount", "status", "placed_at", "version",
        "request_id",
    )  # fmt: skip

    class Media:
        css = {"all": ("tickets/order_admin.css",)}

    def get_inlines(self, request: HttpRequest, obj: Order | None) -> list[Any]:
        """With its refunds, where there are any."""
        refunded = obj is not None and obj.refunds.exists()
        return [*self.inlines, RefundInline] if refunded else [*self.inlines]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Order], search_term: str
    ) -> tuple[QuerySet[Order], bool]:
        """By indexes alone, see `search`."""
        return (search(queryset, search_term) if search_term.strip() else queryset), False

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """With the answer to “where is my ticket?”, the timeline, and what staff may do."""
        order = kwargs.get("obj")
        if order is not None:
            story = story_of(subject_of(order.pk))
            context |= {
                "answer": answer(order, story),
                "timeline": timeline(order, story),
                "now": timezone.now(),
                "deeds": self.deeds(request, order),
                "may_open": request.user.has_perm("jobs.view_deadjob"),
            }
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="buyer", ordering="buyer_name")
    def buyer(self, order: Order) -> str:
        """Name and address below each other: the list has to fit beside its filters."""
        return format_html("<bdi>{}</bdi><br>{}", order.buyer_name, order.email)

    @admin.display(description="placed (UTC)", ordering="placed_at")
    def placed(self, order: Order) -> str:
        """As in the timeline of the order."""
        return f"{order.placed_at:%-d %b %Y %H:%M}"

    @admin.display(description="total", ordering="total")
    def amount(self, order: Order) -> str:
        """In the event's currency."""
        return in_words(order.total, order.currency)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: orders are placed by buyers."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never by a form: each change of an order is a transaction of its own."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False
