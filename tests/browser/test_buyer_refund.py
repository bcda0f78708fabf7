"""A buyer in a real browser gives tickets back."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.testing import drain
from orders.models import Order, Refund
from orders.services import PlacedOrder
from tests.people import buy, new_event, new_type
from tickets.models import Ticket

from .people import Visitor


@pytest.fixture
def order(transactional_db: None) -> PlacedOrder:
    """Two tickets that were emailed, of an event that takes them back."""
    event = new_event(refunds_until=timezone.now() + timedelta(days=2))
    placed = buy(new_type(event=event, name="Stalls"), 2)
    drain()
    return placed


def test_a_buyer_gives_one_of_two_tickets_back(order: PlacedOrder, visitor: Visitor) -> None:
    visitor.go(f"/o/{order.secret}/")
    visitor.follow("Give tickets back")
    visitor.press("Continue")
    visitor.sees("Choose at least one ticket.")
    visitor.tick("2: Stalls Ada Lovelace")
    visitor.press("Continue")
    visitor.sees("Give this ticket back?", "We pay back", "Your other tickets stay valid.")
    assert not Refund.objects.exists()
    visitor.press("Give back for €42.50")
    visitor.sees("Some of your tickets were refunded.", "€42.50")
    drain()
    visitor.sees("Download the tickets (PDF)")
    states = Ticket.objects.filter(order_id=order.id).values_list("seq", "status")
    assert sorted(states) == [(1, "valid"), (2, "void")]


def test_a_buyer_gives_all_tickets_back(order: PlacedOrder, visitor: Visitor) -> None:
    visitor.go(f"/o/{order.secret}/")
    visitor.follow("Give tickets back")
    visitor.follow("Give all of them back")
    visitor.press("Give back for €85.00")
    visitor.sees("This order was refunded.", "€85.00")
    assert Order.objects.get(pk=order.id).is_refunded
