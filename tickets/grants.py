"""Who may see an order: the secret link is exchanged for a signed cookie of that order alone."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from orders.links import digest_of
from orders.models import Order

COOKIE = "grant"
SALT = "tickets.grant"
MAX_AGE = 30 * 24 * 3600
"""Seconds that a browser keeps the grant (selling.md §4)."""


def order_of_link(secret: str) -> Order:
    """The order of a secret link. Raises Http404 for every link that opens none."""
    order = Order.objects.filter(secret_digest=digest_of(secret.upper())).first()
    if order is None:
        raise Http404
    return order


def grant(response: HttpResponse, order: Order, *, secure: bool) -> None:
    """Let this browser see the order until its link is revoked or the cookie is old."""
    response.set_signed_cookie(
        COOKIE,
        f"{order.code}:{order.link_version}",
        salt=SALT,
        max_age=MAX_AGE,
        path=reverse("order", args=[order.code]),
        secure=secure,
        httponly=True,
        samesite="Lax",
    )


def granted_order(request: HttpRequest, code: str) -> Order:
    """The order `code`, for a browser that holds its grant. Raises Http404 for every other."""
    value = request.get_signed_cookie(COOKIE, "", salt=SALT, max_age=MAX_AGE)
    # The cookie first: whoever has none makes the database look for nothing, whatever is asked.
    if not value or not value.startswith(f"{code}:"):
        raise Http404
    order = Order.objects.select_related("event").filter(code=code).first()
    if order is None or value != f"{order.code}:{order.link_version}":
        raise Http404
    return order
