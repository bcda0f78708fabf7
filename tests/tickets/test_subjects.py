"""Orders as subjects of jobs: found by code, described for staff."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import subjects
from jobs.testing import drain
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets import services
from tickets.models import Delivery
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_order_is_found_by_its_code_however_it_is_typed() -> None:
    order = buy(new_type())
    code = order.code
    for typed in (code, code.lower(), f" {code[:4]} {code[4:]} ", f"{code[:4]}-{code[4:]}"):
        assert subjects.find(typed) == [f"order:{order.id}"]
    for other in ("", code[:7], f"{code}2", "Lovelace", "ABCD2345O", "%", "\x00"):
        assert subjects.find(other) == []


def test_an_order_is_described_by_code_address_and_state(mailbox: MailFolder) -> None:
    order = buy(new_type(), 2)
    subject = f"order:{order.id}"

    def state() -> str:
        return subjects.describe([subject])[subject].state

    about = subjects.describe([subject])[subject]
    assert (about.name, about.url) == (order.code, f"/admin/orders/order/{order.id}/change/")
    assert state() == "placed, no tickets"
    drain()
    settled = Delivery.objects.get().settled_at
    assert settled is not None
    assert state() == f"placed, 2 tickets, file ready, email sent {settled:%H:%M} UTC"
    services.refund(order.id, "moved", Actor("boxoffice"))
    assert state().startswith("refunded, no tickets")


def test_what_is_no_order_is_not_described() -> None:
    odd = ["order:", "order:x", "order:404", "order:9999999999999999999", "event:1", "order:-1"]
    assert subjects.describe(odd) == {}


def test_a_page_of_fifty_is_described_in_few_looks() -> None:
    kind = new_type()
    about = [f"order:{buy(kind).id}" for _ in range(50)]
    with CaptureQueriesContext(connection) as asked:
        assert len(subjects.describe(about)) == 50
    assert len(asked) <= 3
