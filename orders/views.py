"""The pages of selling: the list of events, an event with its order form, and `POST /orders/`."""

import secrets

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from .forms import OrderForm
from .models import Event, EventStatus, TicketType
from .services import (
    KeyReused,
    NotOnSale,
    PlacedOrder,
    SaleRefused,
    place_order,
    refuse_unless_on_sale,
)

BUYER_COOKIE = "buyer"
BUYER_SALT = "orders.buyer"


@require_safe
def event_list(request: HttpRequest) -> HttpResponse:
    """`/`: what is on sale, and what will be."""
    return render(request, "orders/event_list.html", {"events": Event.objects.listed()})


@require_safe
@never_cache
def event_page(request: HttpRequest, slug: str) -> HttpResponse:
    """`/events/<slug>/`: the event and its order form."""
    offer = _offer(slug)
    if offer is None:
        return _no_event(request)
    return _page(request, OrderForm(*offer, _buyer(request)), 200)


@require_POST
@never_cache
def place(request: HttpRequest) -> HttpResponse:
    """`POST /orders/`: 303 to the order, or the form again (4xx) with what is wrong."""
    offer = _offer(request.POST.get("event", ""))
    if offer is None:
        return _no_event(request)
    form = OrderForm(*offer, _buyer(request), request.POST)
    if not form.is_valid():
        return _page(request, form, 422)
    try:
        order = place_order(form.wish())
    except SaleRefused as refusal:
        form.add_error(None, str(refusal))
        return _page(request, form, 409)
    except KeyReused as reused:
        return _page(request, form, 422, earlier=reused.order)
    return HttpResponseRedirect(_link(order), status=303)


def _link(order: PlacedOrder) -> str:
    return reverse("order-link", args=[order.secret])


def _offer(slug: str) -> tuple[Event, list[TicketType]] | None:
    """The published event and its ticket types with their stock: one statement of the sale."""
    if not slug.isprintable():
        return None
    types = list(TicketType.objects.published(slug))
    if types:
        return types[0].event, types
    event = Event.objects.exclude(status=EventStatus.DRAFT).filter(slug=slug).first()
    return (event, []) if event else None


def _no_event(request: HttpRequest) -> HttpResponse:
    context = {
        "title": "No such event",
        "text": "We sell no tickets for an event of that name. Please choose one from the list.",
    }
    return render(request, "error.html", context, status=404)


def _buyer(request: HttpRequest) -> str:
    known = request.get_signed_cookie(BUYER_COOKIE, "", salt=BUYER_SALT)
    return known or secrets.token_urlsafe(24)


def _page(
    request: HttpRequest, form: OrderForm, status: int, earlier: PlacedOrder | None = None
) -> HttpResponse:
    closed = ""
    try:
        refuse_unless_on_sale(form.event)
    except NotOnSale as reason:
        closed = str(reason)
    context = {
        "event": form.event,
        "form": form,
        "closed": closed,
        "sold_out": not any(kind.stock.left for kind in form.types),
        "earlier": earlier,
        "earlier_link": _link(earlier) if earlier else "",
    }
    response = render(request, "orders/event.html", context, status=status)
    # With every form, also one that shows errors: its key is of use only with this cookie.
    response.set_signed_cookie(
        BUYER_COOKIE, form.buyer, salt=BUYER_SALT, httponly=True, samesite="Lax",
        secure=request.is_secure(), max_age=7 * 24 * 3600,
    )  # fmt: skip
    return response
