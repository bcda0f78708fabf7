"""An event that never sells out, and buyers whose forms are filled in before the clock runs."""

import secrets
import string
import urllib.parse
from datetime import datetime, timedelta

from django.http import HttpResponse
from django.utils import timezone

from orders.forms import PREFIX, new_order_key
from orders.models import Event, EventStatus, Stock, TicketType
from orders.views import BUYER_COOKIE, BUYER_SALT
from orders.wallclock import instant

from .load import Form

PLACES = 1_000_000


def event_on_sale() -> TicketType:
    """A ticket type of an event on sale: one row that every order updates."""
    local = datetime(timezone.now().year + 1, 6, 1, 20)  # noqa: DTZ001 (a wall clock)
    starts_at = instant(local, "Europe/Berlin")
    event = Event.objects.create(
        slug="nachtkonzert", title="Nachtkonzert", venue="Kammersaal", tz="Europe/Berlin",
        starts_local=local, starts_at=starts_at, sale_opens_at=timezone.now() - timedelta(hours=1),
        sale_closes_at=starts_at, status=EventStatus.ON_SALE, currency="EUR",
    )  # fmt: skip
    kind = TicketType.objects.create(event=event, name="Parkett", price=4250)
    Stock.objects.create(ticket_type=kind, capacity=PLACES)
    return kind


def filled_form(kind: TicketType) -> Form:
    """One ticket, with the keys and cookies that the event's page would have given."""
    buyer = secrets.token_urlsafe(24)
    token = "".join(secrets.choice(string.ascii_letters) for _ in range(32))
    content = {
        "csrfmiddlewaretoken": token,
        "event": kind.event.slug,
        "order_key": new_order_key(buyer),
        f"{PREFIX}{kind.pk}": "1",
        "name": "Ada Lovelace",
        "email": "buyer@example.org",
    }
    page = HttpResponse()
    page.set_signed_cookie(BUYER_COOKIE, buyer, salt=BUYER_SALT)
    cookie = f"csrftoken={token}; {BUYER_COOKIE}={page.cookies[BUYER_COOKIE].coded_value}"
    return Form(urllib.parse.urlencode(content).encode(), cookie)
