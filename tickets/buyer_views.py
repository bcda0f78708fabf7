"""What buyers do about an order: the email once more, another holder, their lost link.

Each form is refused in words on its own page, or leads back to the page of the order.
"""

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from orders.models import Order

from . import buyer, lost_links, services
from .buyer import NewHolder, Outdated, TooOften
from .buyer_forms import HolderForm, LostLinkForm, SeenForm
from .grants import granted_order
from .models import Ticket
from .services import Refused
from .views import private_form

INCOMPLETE = "The form was incomplete. Please try again."
reads_and_sends = require_http_methods(["GET", "HEAD", "POST"])


@reads_and_sends
@private_form
def resend(request: HttpRequest, code: str) -> HttpResponse:
    """`/orders/<code>/resend/`: asks first; POST sends the tickets once more."""
    order = granted_order(request, code)
    if request.method != "POST":
        return _resend_page(request, order, 200)
    form = SeenForm(request.POST)
    try:
        if not form.is_valid():
            raise Refused(INCOMPLETE)
        sent = buyer.resend(order.pk, form.cleaned_data["seen"])
    except Refused as refusal:
        return _resend_page(request, order, _status_of(refusal), str(refusal))
    return _back(order, "resent" if sent else "resent-already")


def _resend_page(
    request: HttpRequest, order: Order, status: int, refused: str = ""
) -> HttpResponse:
    context = {
        "order": order,
        "refused": refused or _why_not(lambda: buyer.refuse_resend_offer(order)),
        "form": SeenForm(initial={"seen": services.newest_generation(order)}),
    }
    return render(request, "tickets/resend.html", context, status=status)


def _why_not(look: Callable[[], None]) -> str:
    try:
        look()
    except Refused as refusal:
        return str(refusal)
    return ""


def _status_of(refusal: Refused) -> int:
    return 429 if isinstance(refusal, TooOften) else 409


def _back(order: Order, done: str) -> HttpResponse:
    return HttpResponseRedirect(f"{reverse('order', args=[order.code])}?done={done}", status=303)


@reads_and_sends
@private_form
def holder(request: HttpRequest, code: str, seq: int) -> HttpResponse:
    """`/orders/<code>/tickets/<seq>/holder/`: the name on a ticket; POST changes it."""
    order = granted_order(request, code)
    if request.method != "POST":
        return _holder_page(request, order, seq, 200)
    form = HolderForm(request.POST)
    if not form.is_valid():
        return _holder_page(request, order, seq, 422, form=form)
    new = NewHolder(seq, form.cleaned_data["seen"], form.cleaned_data["name"])
    try:
        buyer.rename(order.pk, new)
    except Ticket.DoesNotExist as error:
        raise Http404 from error
    except Outdated as refusal:
        return _holder_page(request, order, seq, 409, outdated=str(refusal))
    except Refused as refusal:
        return _holder_page(request, order, seq, _status_of(refusal), refused=str(refusal))
    return _back(order, "renamed")


def _holder_page(
    request: HttpRequest, order: Order, seq: int, status: int, **more: Any
) -> HttpResponse:
    refused = more.get("refused") or _why_not(lambda: buyer.refuse_rename(order))
    ticket = order.tickets.select_related("ticket_type").filter(seq=seq).first()
    if ticket is None and not refused:
        raise Http404
    if ticket is not None and not refused:
        refused = _why_not(lambda: buyer.refuse_ticket(ticket))
    context = {
        "order": order,
        "seq": seq,
        "ticket": ticket,
        "form": ticket and HolderForm(initial={"seen": ticket.version, "name": ticket.holder_name}),
        **more,
        "refused": refused,
    }
    return render(request, "tickets/holder.html", context, status=status)


@reads_and_sends
@private_form
def lost_link(request: HttpRequest) -> HttpResponse:
    """`/lost-link/`: asks for an address; the same answer for every one."""
    if request.method != "POST":
        return _lost_link_page(request, LostLinkForm(), 200)
    form = LostLinkForm(request.POST)
    if not form.is_valid():
        return _lost_link_page(request, form, 422)
    try:
        lost_links.ask(form.cleaned_data["email"])
    except lost_links.TooMany:
        response = _lost_link_page(request, form, 429)
        response.headers["Retry-After"] = "60"
        return response
    return HttpResponseRedirect(f"{reverse('lost-link')}?asked", status=303)


def _lost_link_page(request: HttpRequest, form: LostLinkForm, status: int) -> HttpResponse:
    context = {"form": form, "asked": "asked" in request.GET, "busy": status == 429}
    return render(request, "tickets/lost_link.html", context, status=status)
