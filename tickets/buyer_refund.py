"""`/orders/<code>/refund/`: the buyer gives tickets back, until the event's deadline.

A GET chooses and then shows what it comes to; the POST behind the last button does it, once.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from orders import admissions, refunds
from orders.admissions import Admission
from orders.models import Order
from orders.templatetags.shop import in_zone

from . import services
from .buyer_views import reads_and_sends
from .grants import granted_order
from .services import Actor, Refused
from .views import private_form

BUYER = Actor("the buyer")
REASON = "given back by the buyer"
NONE_CHOSEN = "Choose at least one ticket."
GIVEN_BACK = "What you chose there was given back already. These tickets are left."
CHANGED = (
    "The order has changed since you opened this page, and nothing was given back. Please look "
    "at it again."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One ticket that is left. `holder` is empty until it is made."""

    admission: Admission
    holder: str
    used: bool

    @property
    def seq(self) -> int:
        """Its number in the order."""
        return self.admission.seq


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What the buyer may give back now. `closed`: why nothing; `seen`: refunds there were."""

    rows: list[Row] = field(default_factory=list)
    closed: str = ""
    seen: int = 0

    def chosen(self, seqs: Collection[int]) -> list[Admission]:
        """Those of these that may be given back."""
        return [row.admission for row in self.rows if row.seq in seqs and not row.used]

    @property
    def open_rows(self) -> list[Row]:
        """Those that may be given back."""
        return [row for row in self.rows if not row.used]


@reads_and_sends
@private_form
def refund_page(request: HttpRequest, code: str) -> HttpResponseBase:
    """GET: choose, then confirm. POST: give these back; 303 to the order, or the page with why."""
    order = granted_order(request, code)
    if request.method == "POST":
        return _give_back(request, order)
    offer = offer_of(order)
    asked = "seq" in request.GET or "chosen" in request.GET
    seqs = _seqs(request.GET)
    if not asked and len(offer.open_rows) == 1:
        seqs = {offer.open_rows[0].seq}
    error = _why_none(order, seqs) if asked and not offer.chosen(seqs) else ""
    return _page(request, order, offer, seqs, error)


def _why_none(order: Order, seqs: set[int]) -> str:
    # The page from before a refund, by the back button: nothing is wrong, and it was not forgotten.
    return GIVEN_BACK if _are_refunded(order, seqs) else NONE_CHOSEN


def offer_of(order: Order) -> Offer:
    """What may be given back of the order at this moment."""
    if closed := _closed(order):
        return Offer(closed=closed)
    # The number first: a refund after it is noticed by it.
    seen = refunds.newest_number(order)
    rows = _rows(order)
    closed = "" if any(not row.used for row in rows) else "Every ticket of this order was used."
    return Offer(rows=rows, closed=closed, seen=seen)


def _rows(order: Order) -> list[Row]:
    made = {ticket.seq: ticket for ticket in order.tickets.all()}
    return [
        Row(one, made[one.seq].holder_name, services.was_used(made[one.seq]))
        if one.seq in made
        else Row(one, "", used=False)
        for one in admissions.left(order)
    ]


def _closed(order: Order) -> str:
    if not order.is_placed:
        return f"This order was {order.get_status_display()} already."
    event = order.event
    if event.takes_back:
        return ""
    if event.refund_deadline is None:
        return "Tickets for this event cannot be given back here."
    return (
        f"Tickets for this event could be given back until {in_zone(event.refund_deadline, event)}."
    )


def _seqs(data: QueryDict) -> set[int]:
    return {int(text) for text in data.getlist("seq")[:1000] if text.isdecimal() and len(text) < 6}


def _give_back(request: HttpRequest, order: Order) -> HttpResponse:
    seqs = _seqs(request.POST)
    if _are_refunded(order, seqs):
        return _to_order(order)
    offer = offer_of(order)
    seen = request.POST.get("seen", "")
    if offer.closed or not seqs or not seen.isdecimal():
        return _page(request, order, offer, seqs, CHANGED if seqs else NONE_CHOSEN, 409)
    try:
        done = services.refund(order.pk, REASON, BUYER, seqs=seqs, seen=int(seen[:6]), used=False)
    except Refused as refusal:
        return _page(request, order, offer_of(order), set(), str(refusal), 409)
    # Not done: another press of the same button was first, or it is another order by now.
    if done or _are_refunded(order, seqs):
        return _to_order(order)
    return _page(request, order, offer_of(order), set(), CHANGED, 409)


def _are_refunded(order: Order, seqs: set[int]) -> bool:
    return bool(seqs) and seqs <= admissions.refunded(order)


def _to_order(order: Order) -> HttpResponse:
    return HttpResponseRedirect(reverse("order", args=[order.code]), status=303)


def _page(
    request: HttpRequest,
    order: Order,
    offer: Offer,
    seqs: Collection[int],
    error: str,
    status: int = 200,
) -> HttpResponse:
    chosen = [] if error or offer.closed else offer.chosen(seqs)
    error = "" if offer.closed else error
    context = {
        "order": order,
        "event": order.event,
        "offer": offer,
        "error": error,
        "chosen": chosen,
        "rows": [row for row in offer.rows if row.admission in chosen],
        "amount": refunds.amount_of(chosen),
        "all": len(chosen) == len(offer.rows),
    }
    return render(request, "tickets/refund.html", context, status=status)
