"""The pages of a placed order: its link, itself, its state as JSON, its file."""

import logging
from collections.abc import Callable
from functools import wraps

from django.http import (
    FileResponse,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from orders import refunds
from orders.models import Order

from .buyer import names_are_open, renamable
from .files import ticket_storage
from .grants import grant, granted_order, order_of_link
from .progress import progress

logger = logging.getLogger(__name__)
PRIVATE = {
    "Cache-Control": "no-store, private",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}
WAITING = ("placed", "ready", "delayed", "email_delayed")


def private[**P](view: Callable[P, HttpResponseBase]) -> Callable[P, HttpResponseBase]:
    """Keep the page out of caches, search engines and other sites' logs."""

    @wraps(view)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        response = view(*args, **kwargs)
        for name, value in PRIVATE.items():
            response.headers[name] = value
        return response

    return wrapped


def private_form[**P](view: Callable[P, HttpResponseBase]) -> Callable[P, HttpResponseBase]:
    """`private`, for a page with a form: without any referrer browsers say that its origin is
    `null`, and the form is refused as another site's."""

    @wraps(view)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        response = private(view)(*args, **kwargs)
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    return wrapped


@require_safe
@private
def open_link(request: HttpRequest, secret: str) -> HttpResponse:
    """`/o/<secret>/`: exchange the secret for a grant and go to the address without it."""
    order = order_of_link(secret)
    response = HttpResponseRedirect(reverse("order", args=[order.code]))
    grant(response, order, secure=request.is_secure())
    return response


@require_safe
@private
def order_page(request: HttpRequest, code: str) -> HttpResponse:
    """`/orders/<code>/`: what was bought and where it stands; follows the state live."""
    order = granted_order(request, code)
    context = {
        "order": order,
        "event": order.event,
        "lines": order.lines.all(),
        "progress": progress(order),
        "owed": refunds.owed(order),
        "paid_back": refunds.paid_back(order),
        "waiting": WAITING,
        "tickets": renamable(order),
        "names_are_open": names_are_open(order),
        "done": request.GET.get("done", ""),
    }
    return render(request, "tickets/order.html", context)


@require_safe
@private
def order_status(request: HttpRequest, code: str) -> JsonResponse:
    """`/orders/<code>/status/`: `{"state", "tickets", "pdf", "estimate"}`."""
    order = granted_order(request, code)
    now = progress(order)
    return JsonResponse(
        {
            "state": now.state,
            "tickets": now.tickets,
            "pdf": reverse("order-pdf", args=[code]) if now.file else None,
            "estimate": now.estimate,
        }
    )


@require_safe
@private
def order_pdf(request: HttpRequest, code: str) -> HttpResponseBase:
    """`/orders/<code>/tickets.pdf`: the file; before it exists, a page that tries again."""
    order = granted_order(request, code)
    now = progress(order)
    if now.file is None:
        return _being_made(request, order, now.state)
    try:
        stored = ticket_storage().open(now.file.name)
    except FileNotFoundError:
        if (then := progress(order)).state == "deleted":
            return _being_made(request, order, then.state)
        logger.exception("order %s: its file is missing from the storage", order.code)
        return _being_made(request, order, "delayed")
    return FileResponse(
        stored,
        as_attachment=True,
        filename=f"tickets-{order.code}.pdf",
        content_type="application/pdf",
    )


def _being_made(request: HttpRequest, order: Order, state: str) -> HttpResponse:
    status = 410 if state in ("cancelled", "refunded", "deleted") else 202
    context = {"order": order, "state": state}
    return render(request, "tickets/being_made.html", context, status=status)
