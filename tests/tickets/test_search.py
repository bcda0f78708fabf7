"""Orders are found by code, email, request id and name, each by its index."""

import secrets
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from orders.box_office import make_group
from orders.models import Order
from orders.services import PlacedOrder
from tests.people import box_office, buy, new_type
from tests.web import text
from tickets.search import search

pytestmark = pytest.mark.django_db(transaction=True)


def found(query: str) -> set[int]:
    return set(search(Order.objects.all(), query).values_list("pk", flat=True))


@pytest.fixture
def order() -> PlacedOrder:
    """Ada's, among others."""
    kind = new_type()
    for name in ("Bob Adams", "Adalbert", "Zoë Ödön", "O'Brien, Flann"):
        buy(kind, buyer_name=name, email="other@example.org")
    return buy(kind, buyer_name="Ada King-Noel Lovelace", email="Ada.Lovelace@Example.org")


def names(query: str) -> set[str]:
    return set(search(Order.objects.all(), query).values_list("buyer_name", flat=True))


def test_a_code_is_found_however_it_is_typed(order: PlacedOrder) -> None:
    code = order.code
    for typed in (code, code.lower(), f"{code[:4]} {code[4:]}", f" {code[:2]}-{code[2:]}."):
        assert found(typed) == {order.id}


def test_an_email_is_found_whole_and_in_any_case(order: PlacedOrder) -> None:
    assert found(" ada.lovelace@EXAMPLE.org ") == {order.id}
    assert found("lovelace@example.org") == set()


def test_a_request_id_is_found_whole(order: PlacedOrder) -> None:
    Order.objects.filter(pk=order.id).update(request_id="f00dfeed12345678")
    assert found("f00dfeed12345678") == {order.id}
    assert found("f00dfeed1234567") == set()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ada", {"Ada King-Noel Lovelace", "Bob Adams", "Adalbert"}),
        ("ADA KING", {"Ada King-Noel Lovelace"}),
        ("lovelace", {"Ada King-Noel Lovelace"}),
        ("Lovel", {"Ada King-Noel Lovelace"}),
        ("ödön", {"Zoë Ödön"}),
        ("ZOË", {"Zoë Ödön"}),
        ("o'b", {"O'Brien, Flann"}),
        ("noel", set()),
        ("%", set()),
        ("_da", set()),
        ("\\", set()),
    ],
)
def test_a_name_is_found_by_its_beginning_or_the_last_names(
    order: PlacedOrder, query: str, expected: set[str]
) -> None:
    assert names(query) == expected


def test_an_eight_letter_name_that_looks_like_a_code_is_found_as_a_name() -> None:
    buy(new_type(), buyer_name="Hannah Schreuer")
    assert names("schreuer") == {"Hannah Schreuer"}


COPY = """
INSERT INTO orders_order (code, secret_digest, link_key, link_version, version, event_id, email,
    buyer_name, locale, currency, total, status, idempotency_key, request_hash, request_id)
SELECT lpad(n::text, 8, '0'), decode(md5(n::text), 'hex'), 1, 1, 1, event_id,
    'buyer' || n || '@example.org', initcap(left(md5(n::text), 6)) || ' ' ||
    initcap(right(md5(n::text), 7)), 'en', 'EUR', 100, 'placed', n::text, '', md5(n::text)
FROM orders_order, generate_series(1, %s) AS n WHERE id = %s
"""


@pytest.fixture
def many(order: PlacedOrder) -> PlacedOrder:
    """The order, among 20,000 others whose statistics are known."""
    with connection.cursor() as cursor:
        cursor.execute(COPY, [20_000, order.id])
        cursor.execute("ANALYZE orders_order")
    return order


def plan(query: str) -> str:
    orders = search(Order.objects.order_by("-pk"), query)
    return str(orders[:100].explain(analyze=True))


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("{code}", "orders_order_code"),
        ("ada.lovelace@example.org", "order_email"),
        ("nobody@example.org", "order_email"),
        ("ada king", "order_name"),
        ("lovelace", "order_last_name"),
        ("nobody at all", "order_name"),
    ],
)
def test_each_look_up_goes_by_its_index(many: PlacedOrder, query: str, index: str) -> None:
    text = plan(query.format(code=many.code.lower()))
    assert index in text
    assert "Seq Scan on orders_order" not in text


@pytest.fixture
def office(client: Client) -> Client:
    """A browser in which the box office is logged in."""
    make_group()
    client.force_login(box_office())
    return client


def test_the_list_asks_by_index_too_and_counts_the_table_for_no_search(
    office: Client, many: PlacedOrder
) -> None:
    for query in (many.code, "ada.lovelace@example.org", "ada king"):
        with CaptureQueriesContext(connection) as asked:
            page = office.get("/admin/orders/order/", {"q": query})
        assert f"/admin/orders/order/{many.id}/change/" in text(page)
        for one in asked.captured_queries:
            if 'FROM "orders_order"' in one["sql"]:
                assert "Seq Scan on orders_order" not in explained(one["sql"])


def explained(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}".replace("%", "%%"), [])
        return "\n".join(row[0] for row in cursor.fetchall())


def test_any_text_may_be_searched(order: PlacedOrder) -> None:
    odd: list[Any] = ["'", '"', "a" * 5000, "@", "🎟", "--", "; DROP", secrets.token_hex(40)]
    for query in odd:
        assert found(query) == set()
