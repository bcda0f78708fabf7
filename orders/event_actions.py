"""What staff does to a whole event: move it, cancel it. Each is a page of its own that asks first.

The line of the staff log is written in the transaction of the deed (T11).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse

from jobs.correlation import request_id

from . import announcements, batches
from .announcements import Deed
from .event_forms import CancelForm, MoveForm
from .models import Announcement, Event, EventStatus
from .money import in_words

MOVE, CANCEL = "orders.move_event", "orders.cancel_event"
STALE = (
    "It was moved or cancelled since this page was read: nothing was changed. Please look again."
)


@dataclass(frozen=True, slots=True)
class Action:
    """A link on the page of an event."""

    label: str
    url: str


class EventActions(admin.ModelAdmin[Event]):
    """The views of the actions, for the admin of events."""

    def get_urls(self) -> list[URLPattern]:
        """The admin's own, and a page for each action."""
        wrap = self.admin_site.admin_view
        return [
            path("<int:pk>/move/", wrap(self.move_view), name="orders_event_move"),
            path("<int:pk>/cancel/", wrap(self.cancel_view), name="orders_event_cancel"),
            *super().get_urls(),
        ]

    def event_actions(self, request: HttpRequest, event: Event) -> list[Action]:
        """What this person may do with this event now."""
        offered = ((MOVE, "Move the event…", "move"), (CANCEL, "Cancel the event…", "cancel"))
        if event.status == EventStatus.CANCELLED:
            return []
        return [
            Action(label, reverse(f"admin:orders_event_{name}", args=[event.pk]))
            for needed, label, name in offered
            if request.user.has_perm(needed)
        ]

    def move_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """GET: asks when it starts instead. POST: moves it and has its buyers told."""
        event = self._event(request, pk, MOVE)
        form = MoveForm(event, _posted(request))
        if form.is_valid():
            moved = announcements.move(event.pk, form.to(), self._deed(request, form))
            return self._answer(request, event, moved, "moved to the new time")
        return self._page(request, event, form, "move", f"Move {event}")

    def cancel_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """GET: shows what will be refunded. POST: cancels it; its buyers are refunded and told."""
        event = self._event(request, pk, CANCEL)
        form = CancelForm(event, _posted(request))
        if form.is_valid():
            cancelled = announcements.cancel(event.pk, self._deed(request, form))
            return self._answer(request, event, cancelled, "cancelled: it is not sold any more")
        return self._page(request, event, form, "cancel", f"Cancel {event}")

    def _event(self, request: HttpRequest, pk: int, needed: str) -> Event:
        if not request.user.has_perm(needed):
            raise PermissionDenied
        return get_object_or_404(Event, pk=pk)

    def _deed(self, request: HttpRequest, form: MoveForm | CancelForm) -> Deed:
        return Deed(
            seen=form.cleaned_data["seen"],
            by=request.user.get_username(),
            words=form.cleaned_data["words"],
            reason=form.cleaned_data.get("reason", ""),
            note=partial(self._note, request),
        )

    def _note(self, request: HttpRequest, event: Event, words: str) -> None:
        self.log_change(request, event, f"{words} (request {request_id()})")

    def _answer(
        self, request: HttpRequest, event: Event, made: Announcement | None, done: str
    ) -> HttpResponse:
        if made is None:
            self.message_user(request, STALE, messages.WARNING)
        else:
            told = f"The buyers of {made.total} orders are told by email." if made.total else ""
            self.message_user(request, f"{event} is {done}. {told}".strip(), messages.SUCCESS)
        return HttpResponseRedirect(_address(event))

    def _page(
        self, request: HttpRequest, event: Event, form: MoveForm | CancelForm, name: str, title: str
    ) -> HttpResponse:
        reach = announcements.reach(event)
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "event": event,
            "form": form,
            "orders": reach.orders,
            "amounts": [in_words(total, code) for code, total in reach.totals.items()],
            "minutes": round(batches.seconds_for(reach.orders) / 60),
            "cancelled": event.status == EventStatus.CANCELLED,
        }
        return render(request, f"admin/orders/event/{name}.html", context)


def _posted(request: HttpRequest) -> Any:
    return request.POST if request.method == "POST" else None


def _address(event: Event) -> str:
    return reverse("admin:orders_event_change", args=[event.pk])
