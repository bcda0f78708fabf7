"""The box office's pages for events: make, publish, close, and set how many places there are."""

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html

from . import services
from .admin_forms import (
    MOVE,
    WHEN,
    CapacityForm,
    EventForm,
    TicketTypeForm,
    TicketTypeFormSet,
)
from .event_actions import EventActions
from .models import Event, EventStatus, Stock, TicketType


class TicketTypeInline(admin.TabularInline[TicketType, Event]):
    model = TicketType
    form = TicketTypeForm
    formset = TicketTypeFormSet
    extra = 1
    fields = ("name", "price", "max_per_order", "sort", "capacity", "taken")
    readonly_fields = ("taken",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the places of each type."""
        return super().get_queryset(request).select_related("stock")

    @admin.display(description="taken")
    def taken(self, kind: TicketType) -> str:
        """How many places of it are sold, as it is now."""
        return str(kind.stock.taken) if kind.pk else "—"

    @admin.display(description="capacity")
    def capacity(self, kind: TicketType) -> str:
        """For those who only look."""
        return str(kind.stock.capacity)


@admin.register(Event)
class EventAdmin(EventActions):
    form = EventForm
    inlines = (TicketTypeInline,)
    list_display = ("title", "starts_there", "venue", "status", "sold", "capacity_link")
    list_filter = ("status",)
    search_fields = ("title", "venue", "slug")
    prepopulated_fields = {"slug": ("title",)}
    date_hierarchy = "starts_at"
    actions = ("publish", "close")
    readonly_fields = ("status",)
    fieldsets = (
        (None, {"fields": ("title", "slug", "venue", "status")}),
        ("When", {"fields": ("tz", "starts_local", "starts_fold", "doors_minutes")}),
        ("Sale", {"fields": ("sale_opens", "sale_closes", "refunds_end", "currency")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        """With the stock that the list shows."""
        return super().get_queryset(request).prefetch_related("ticket_types__stock")

    def save_model(self, request: HttpRequest, obj: Event, form: EventForm, change: bool) -> None:
        """Without what has an action of its own."""
        if not change:
            super().save_model(request, obj, form, change)
        elif not services.save_details(obj) and {*WHEN} & {*form.changed_data}:
            self.message_user(request, f"It still starts as before. {MOVE}", messages.WARNING)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """With what staff may do with the event."""
        if event := kwargs.get("obj"):
            context["event_actions"] = self.event_actions(request, event)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="sale opens")
    def sale_opens(self, event: Event) -> str:
        """For those who only look, as the two below."""
        return _there(event, event.sale_opens_at)

    @admin.display(description="sale closes")
    def sale_closes(self, event: Event) -> str:
        """On the event's own wall clock."""
        return _there(event, event.sale_closes_at)

    @admin.display(description="refunds until")
    def refunds_end(self, event: Event) -> str:
        """On the event's own wall clock."""
        return _there(event, event.refunds_until) if event.refunds_until else "never"

    @admin.display(description="starts", ordering="starts_at")
    def starts_there(self, event: Event) -> str:
        """On the event's own wall clock."""
        return _there(event, event.starts_at)

    @admin.display(description="sold")
    def sold(self, event: Event) -> str:
        """Places taken of all there are."""
        stocks = [kind.stock for kind in event.ticket_types.all()]
        return f"{sum(s.taken for s in stocks)} of {sum(s.capacity for s in stocks)}"

    @admin.display(description="places")
    def capacity_link(self, event: Event) -> str:
        """To the page that changes the capacity."""
        return format_html(
            '<a href="{}">Change capacity</a>',
            reverse("admin:orders_event_capacity", args=[event.pk]),
        )

    @admin.action(description="Publish: put on sale", permissions=["publish"])
    def publish(self, request: HttpRequest, events: QuerySet[Event]) -> None:
        """Draft or closed → on sale."""
        self._set_status(request, events, EventStatus.ON_SALE, "put on sale")

    @admin.action(description="Close the sale", permissions=["publish"])
    def close(self, request: HttpRequest, events: QuerySet[Event]) -> None:
        """On sale → closed."""
        self._set_status(request, events, EventStatus.CLOSED, "closed")

    def has_publish_permission(self, request: HttpRequest) -> bool:
        """Publishing and closing is a permission of its own."""
        return request.user.has_perm("orders.publish_event")

    def _set_status(
        self, request: HttpRequest, events: QuerySet[Event], to: EventStatus, done: str
    ) -> None:
        for event in events:
            if not event.ticket_types.exists():
                self.message_user(request, f"{event} has no ticket types.", messages.ERROR)
            elif services.set_status(event.pk, to):
                self.log_change(request, event, done)
                self.message_user(request, f"{event} was {done}.", messages.SUCCESS)
            else:
                self.message_user(
                    request, f"{event} is {event.get_status_display()}: not {done}.", messages.ERROR
                )

    def get_urls(self) -> list[URLPattern]:
        """The admin's own, and the page for the capacity."""
        page = self.admin_site.admin_view(self.capacity_view)
        return [
            path("<int:event_id>/capacity/", page, name="orders_event_capacity"),
            *super().get_urls(),
        ]

    def capacity_view(self, request: HttpRequest, event_id: int) -> HttpResponse:
        """How many places each ticket type has. A view of its own: the form of the event is one
        transaction, and stock is written by a single UPDATE that waits for nobody."""
        if not request.user.has_perm("orders.change_stock"):
            raise PermissionDenied
        event = get_object_or_404(Event, pk=event_id)
        form = CapacityForm(event, request.POST or None)
        if request.method == "POST" and form.is_valid() and self._set_capacities(request, form):
            return HttpResponseRedirect(reverse("admin:orders_event_changelist"))
        context = {
            **self.admin_site.each_context(request),
            "title": f"Capacity of {event}",
            "opts": self.opts,
            "event": event,
            "form": form,
        }
        return render(request, "admin/orders/capacity.html", context)

    def _set_capacities(self, request: HttpRequest, form: CapacityForm) -> bool:
        for kind, capacity in form.changes():
            if services.set_capacity(kind.pk, capacity):
                self.log_change(request, form.event, f"capacity of {kind.name}: {capacity}")
                self.message_user(request, f"{kind.name}: {capacity} places.", messages.SUCCESS)
            else:
                taken = Stock.objects.get(pk=kind.pk).taken
                form.add_error(
                    f"capacity-{kind.pk}",
                    f"{taken} are taken already: the capacity cannot be below that.",
                )
        return not form.errors


def _there(event: Event, at: datetime) -> str:
    return f"{at.astimezone(event.zone):%d %b %Y %H:%M} ({event.tz})"
