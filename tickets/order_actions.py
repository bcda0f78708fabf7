"""What staff does on the page of an order: each a view of its own, each in the staff log.

The line of the log is written in the transaction of the deed: neither is there without the other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse

from jobs.correlation import request_id
from orders import refunds
from orders.models import Event, Order
from orders.money import in_words

from . import services
from .attendees import attendees
from .files import newest_file
from .refund_form import RefundForm
from .services import Actor, Refused

RESEND, RENDER = "tickets.resend_tickets", "tickets.rerender_order"
REFUND, EXPORT = "orders.refund_order", "tickets.export_attendees"
CHANGE_PAGE = "admin:orders_order_change"
INCOMPLETE = "The form was incomplete. Please try again from this page."

type Done = tuple[int, str]
"""Level and words of the message that says how it went."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A button on the page. `seen`: what the form carries; None: a page that asks first."""

    label: str
    url: str
    seen: int | None = None


class SeenForm(forms.Form):
    """What the page showed, the newest email or the refund: the same form twice does it once."""

    seen = forms.IntegerField(min_value=1)


class OrderActions(admin.ModelAdmin[Order]):
    """The views of the actions, for the admin of orders."""

    def get_urls(self) -> list[URLPattern]:
        """The admin's own, and a page for each action."""
        views: dict[str, Callable[..., HttpResponseBase]] = {
            "<int:pk>/resend/": self.resend_view,
            "<int:pk>/render/": self.render_view,
            "<int:pk>/refund/": self.refund_view,
            "<int:pk>/paid-out/": self.paid_out_view,
            "event/<int:pk>/attendees.csv": self.attendees_view,
        }
        own = [
            path(
                route,
                self.admin_site.admin_view(view),
                name=f"orders_order_{view.__name__.removesuffix('_view')}",
            )
            for route, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def deeds(self, request: HttpRequest, order: Order) -> list[Deed]:
        """What this person may do with this order now."""
        offered = [*(_of_placed(order) if order.is_placed else ()), *_to_pay(order)]
        return [deed for needed, deed in offered if request.user.has_perm(needed)]

    def resend_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """POST: send the tickets once more."""
        return self._act(request, pk, RESEND, self._resend)

    def _resend(self, request: HttpRequest, order: Order, actor: Actor) -> Done:
        form = SeenForm(request.POST)
        if not form.is_valid():
            raise Refused(INCOMPLETE)
        if services.resend(order.pk, form.cleaned_data["seen"], actor):
            return messages.SUCCESS, f"The tickets will be emailed to {order.email} once more."
        return messages.WARNING, (
            "It was resent already since this page was read: nothing more is sent. "
            "To send yet another email, press again now."
        )

    def render_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """POST: render the tickets once more."""
        return self._act(request, pk, RENDER, self._render)

    def _render(self, request: HttpRequest, order: Order, actor: Actor) -> Done:
        job = services.render_again(order.pk, actor)
        return messages.SUCCESS, f"Job {job} renders the tickets again. No email is sent for it."

    def refund_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """GET: asks which tickets and why. POST: refunds these."""
        _require(request, REFUND)
        order = get_object_or_404(Order.objects.select_related("event"), pk=pk)
        form = RefundForm(order, request.POST if request.method == "POST" else None)
        if form.is_valid() or (form.is_bound and not order.is_placed):
            return self._act(request, pk, REFUND, partial(self._refund, form))
        context = {
            **self.admin_site.each_context(request),
            "title": f"Refund order {order.code}",
            "opts": self.opts,
            "order": order,
            "amount": in_words(form.amount, order.currency),
            "form": form,
        }
        return render(request, "admin/orders/order/refund.html", context)

    def _refund(self, form: RefundForm, request: HttpRequest, order: Order, actor: Actor) -> Done:
        if not order.is_placed:
            return messages.WARNING, "The order is not placed any more: nothing was changed."
        chosen, seen = form.cleaned_data["seq"], form.cleaned_data["seen"]
        amount = in_words(form.chosen_amount(), order.currency)
        if services.refund(order.pk, form.cleaned_data["reason"], actor, seqs=chosen, seen=seen):
            return messages.SUCCESS, (
                f"Refunded. {amount} are to be paid back; the buyer is told by email."
            )
        return messages.WARNING, (
            "The order was refunded or changed since the page was read: nothing was changed."
        )

    def paid_out_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """POST: the money of a refund is with the buyer."""
        return self._act(request, pk, REFUND, self._paid_out)

    def _paid_out(self, request: HttpRequest, order: Order, actor: Actor) -> Done:
        form = SeenForm(request.POST)
        if not form.is_valid():
            raise Refused(INCOMPLETE)
        if services.paid_out(order.pk, form.cleaned_data["seen"], actor):
            return messages.SUCCESS, "The refund is marked as paid out."
        return messages.WARNING, "It was marked as paid out already: nothing was changed."

    def _act(
        self, request: HttpRequest, pk: int, needed: str,
        deed: Callable[[HttpRequest, Order, Actor], Done],
    ) -> HttpResponse:  # fmt: skip
        _require(request, needed)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        order = get_object_or_404(Order, pk=pk)
        try:
            level, words = deed(request, order, self._actor(request))
        except Refused as refusal:
            level, words = messages.ERROR, str(refusal)
        self.message_user(request, words, level)
        return HttpResponseRedirect(reverse(CHANGE_PAGE, args=[pk]))

    def _actor(self, request: HttpRequest) -> Actor:
        return Actor(request.user.get_username(), partial(self._note, request))

    def _note(self, request: HttpRequest, about: Any, words: str) -> None:
        self.log_change(request, about, f"{words} (request {request_id()})")

    def attendees_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """POST, since it is written into the staff log: the attendees of the event as CSV."""
        _require(request, EXPORT)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        event = get_object_or_404(Event, pk=pk)
        self._note(request, event, "exported the attendees")
        return StreamingHttpResponse(
            attendees(event),
            content_type="text/csv; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="attendees-{event.slug}.csv"',
                "Cache-Control": "no-store, private",
            },
        )


def _of_placed(order: Order) -> Iterator[tuple[str, Deed]]:
    seen = services.newest_generation(order)
    if newest_file(order) is not None:
        yield RESEND, Deed("Resend the email", _url("resend", order), seen)
    yield RENDER, Deed("Render again", _url("render", order), seen)
    yield REFUND, Deed("Refund…", _url("refund", order))


def _to_pay(order: Order) -> Iterator[tuple[str, Deed]]:
    waiting = refunds.to_pay(order)
    for refund in waiting:
        which = f" of refund {refund.number}" if len(waiting) > 1 else ""
        label = f"Mark {in_words(refund.amount, order.currency)}{which} as paid out"
        yield REFUND, Deed(label, _url("paid_out", order), refund.pk)


def _url(name: str, order: Order) -> str:
    return reverse(f"admin:orders_order_{name}", args=[order.pk])


def _require(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied
