"""The box office's page of an order: what was bought and what became of it. Nothing is edited."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from orders.models import Order, OrderLine
from orders.money import in_words

from .models import Delivery, Ticket, TicketFile


class ReadOnlyInline(admin.TabularInline[Any, Order]):
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: services write these rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: services write these rows."""
        return False


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
    fields = ("seq", "ticket_type", "holder_name", "version", "status", "issued_at")


class FileInline(ReadOnlyInline):
    model = TicketFile
    fields = ("order_version", "template_revision", "size", "sha256")


class DeliveryInline(ReadOnlyInline):
    model = Delivery
    fields = (
        "kind",
        "generation",
        "recipient",
        "state",
        "first_try_at",
        "settled_at",
        "provider_id",
    )


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin[Order]):
    inlines = (LineInline, TicketInline, FileInline, DeliveryInline)
    list_display = ("code", "event", "buyer_name", "email", "amount", "status", "placed_at")
    list_filter = ("status", "event")
    list_select_related = ("event",)
    search_fields = ("code__iexact", "email__iexact", "buyer_name", "request_id__exact")
    date_hierarchy = "placed_at"
    fields = (
        "code", "event", "buyer_name", "email", "amount", "status", "placed_at", "version",
        "request_id",
    )  # fmt: skip

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
