"""A buyer's browser for the tests: reads pages, fills in the order form, follows the link."""

import re
from typing import Any

from django.db import connection
from django.test import Client
from django.urls import reverse

from orders.models import TicketType
from orders.services import PlacedOrder

type Answer = Any
"""What the test client answers; the stubs know several classes for it, all of them private."""


def text(answer: Answer) -> str:
    """The page as text."""
    return str(answer.content.decode())


def order_key(page: Answer) -> str:
    """The key that the order form of `page` carries."""
    found = re.search(r'name="order_key" value="([^"]+)"', text(page))
    assert found, text(page)
    return found[1]


def filled(client: Client, kind: TicketType, **changes: object) -> dict[str, object]:
    """The form of the event's page as a buyer fills it in; a value None leaves a field out."""
    page = client.get(reverse("event", args=[kind.event.slug]))
    form: dict[str, object] = {
        "event": kind.event.slug,
        "order_key": order_key(page),
        f"quantity-{kind.pk}": "2",
        "name": "Ada Lovelace",
        "email": "ada@example.org",
        **changes,
    }
    return {name: value for name, value in form.items() if value is not None}


def order(client: Client, kind: TicketType, **changes: object) -> Answer:
    """Fill in the form and send it."""
    return client.post("/orders/", filled(client, kind, **changes))


def open_order(client: Client, placed: PlacedOrder) -> str:
    """Follow the order's secret link; the address that it leads to."""
    answer: Answer = client.get(f"/o/{placed.secret}/")
    assert answer.status_code == 302
    return str(answer["Location"])


def forget_connections() -> None:
    """Take new ones from here on: the test client, unlike a server, keeps what is broken."""
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
