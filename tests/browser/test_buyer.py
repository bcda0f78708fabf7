"""A buyer in a real browser: the email again, another name, a lost link."""

import pytest

from jobs.testing import drain, enqueued
from orders.services import PlacedOrder
from tests.people import buy, new_type
from tickets.models import LostLinkRequest, Ticket

from .people import Visitor


@pytest.fixture
def order(transactional_db: None) -> PlacedOrder:
    """Two tickets that were emailed."""
    placed = buy(new_type(), 2)
    drain()
    return placed


def test_a_buyer_asks_for_the_email_again(order: PlacedOrder, visitor: Visitor) -> None:
    visitor.go(f"/o/{order.secret}/")
    visitor.follow("Send it again")
    visitor.press("Send it again")
    visitor.sees("We are sending the email once more to buyer@example.org.")
    assert enqueued("resend_tickets") == [{"order_id": order.id, "generation": 2}]


def test_who_goes_in_appears_with_the_tickets_on_the_open_page(
    transactional_db: None, visitor: Visitor
) -> None:
    placed = buy(new_type(), 2)
    visitor.go(f"/o/{placed.secret}/")
    visitor.sees("We are making your tickets.")
    visitor.sees_no("Who goes in")
    drain()
    visitor.sees("Your tickets are emailed.", "Who goes in")
    assert visitor.links("Change the name on ticket 2") == 1


def test_what_was_done_is_told_once(order: PlacedOrder, visitor: Visitor) -> None:
    visitor.go(f"/o/{order.secret}/")
    visitor.follow("Send it again")
    visitor.press("Send it again")
    visitor.sees("We are sending the email once more")
    visitor.window.do(lambda page: page.reload())
    visitor.sees("Your tickets are emailed.")
    visitor.sees_no("We are sending the email once more")


def test_a_buyer_names_another_holder(order: PlacedOrder, visitor: Visitor) -> None:
    visitor.go(f"/o/{order.secret}/")
    visitor.follow("Change the name on ticket 2")
    visitor.fill("Name on the ticket", " ")
    visitor.press("Change the name")
    visitor.sees("This field is required.")
    visitor.fill("Name on the ticket", "Grace Hopper")
    visitor.press("Change the name")
    visitor.sees("The name is changed.", "Grace Hopper", "We are making your new tickets.")
    assert Ticket.objects.get(order_id=order.id, seq=2).holder_name == "Grace Hopper"


def test_somebody_asks_for_a_lost_link(order: PlacedOrder, visitor: Visitor) -> None:
    visitor.go("/")
    visitor.window.do(lambda page: page.get_by_role("link", name="Lost your link?").click())
    visitor.fill("Email", "buyer@example.org")
    visitor.press("Email me my links")
    visitor.sees("Please look at your email.")
    assert LostLinkRequest.objects.get().email == "buyer@example.org"
