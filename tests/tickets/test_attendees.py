"""The attendees of an event as CSV: every admission, and nothing a spreadsheet calculates."""

import csv
import io
import tracemalloc

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from jobs.testing import drain
from orders.box_office import make_group
from orders.models import Event
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_event, new_type, stranger
from tests.web import Answer, text
from tickets import attendees, services
from tickets.attendees import harmless
from tickets.models import Ticket
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def office(client: Client) -> Client:
    """A browser in which the box office is logged in."""
    make_group()
    client.force_login(box_office())
    return client


def address(event: Event) -> str:
    return reverse("admin:orders_order_attendees", args=[event.pk])


def rows(answer: Answer) -> list[list[str]]:
    content = b"".join(answer.streaming_content).decode()
    assert content.startswith("\ufeff")
    return list(csv.reader(io.StringIO(content.removeprefix("\ufeff"))))


def test_there_is_a_row_for_each_admission_sold_also_without_a_ticket_yet(
    office: Client, mailbox: MailFolder
) -> None:
    event = new_event()
    seat, stand = new_type(event=event, name="Seat"), new_type(event=event, name="Standing")
    made = buy(seat, quantities={seat.pk: 1, stand.pk: 2})
    drain()
    Ticket.objects.filter(seq=2).update(holder_name="Grace Hopper")
    Ticket.objects.filter(seq=1).update(used_at="2026-12-05T18:42Z")
    refunded, elsewhere = buy(seat), buy(new_type())
    services.refund(refunded.id, "moved", Actor("grace"))
    part = buy(seat, 2)
    services.refund(part.id, "cannot come", Actor("grace"), seqs=[1])
    waiting = buy(seat, buyer_name="Žofie Ω, “x”")
    answer: Answer = office.post(address(event))
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == f'attachment; filename="attendees-{event.slug}.csv"'
    ada, mail = "Ada Lovelace", "buyer@example.org"
    assert rows(answer) == [
        ["order", "seq", "ticket type", "holder", "buyer", "email", "status", "used at"],
        [made.code, "1", "Seat", ada, ada, mail, "valid", "2026-12-05 19:42"],
        [made.code, "2", "Standing", "Grace Hopper", ada, mail, "valid", ""],
        [made.code, "3", "Standing", ada, ada, mail, "valid", ""],
        [part.code, "2", "Seat", ada, ada, mail, "being made", ""],
        [waiting.code, "1", "Seat", "Žofie Ω, “x”", "Žofie Ω, “x”", mail, "being made", ""],
    ]
    assert elsewhere.code not in str(rows)


FORMULAS = [
    "=1+1", "+1", "-1", "@SUM(A1)", '"=1"', "\t1", "\r1", "\n1", " =1", "\u00a0=1", "\u2003+1",
    "\u200b=1", "\ufeff=1", "＝1+1", "＋1", "－1", "＠x", " ＝1", "﹢1", "﹣1", "﹦1", "﹫x",
    "\t", "\rx",
]  # fmt: skip
SPLIT = {
    "Smith;=HYPERLINK(1)": "Smith;'=HYPERLINK(1)",
    "Smith; -1": "Smith;' -1",
    "Smith,\u200b=1": "Smith,'\u200b=1",
    "Smith\t@x|+1": "Smith\t'@x|'+1",
    "Smith\r\n=1": "Smith\r\n'=1",
    "Smith\u2028=1": "Smith\u2028'=1",
    "Smith;＝1": "Smith;'＝1",
    'Smith;"=1"': 'Smith;\'"=1"',
    'Smith;" "" =1': 'Smith;\'" "" =1',
    "=1;=2": "'=1;'=2",
    "\t=1": "'\t'=1",
    ";;=1": ";;'=1",
}
HARMLESS = [
    "Ada; Bob",
    "Ada, née B.",
    "a;'=1",
    "a;1-2",
    "Ada",
    "",
    "a=1",
    "1-2",
    "'=1",
    "Ödön",
    "Ada -",
    "buyer@example.org",
    " ",
    "(=)",
]


@pytest.mark.parametrize("cell", FORMULAS, ids=ascii)
def test_what_a_spreadsheet_takes_for_a_formula_is_escaped(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"


@pytest.mark.parametrize(("cell", "expected"), SPLIT.items(), ids=ascii)
def test_so_is_what_becomes_a_cell_of_its_own_where_another_sign_separates(
    cell: str, expected: str
) -> None:
    assert harmless(cell) == expected


@given(st.text(st.sampled_from("a;,\t|\r\n\u2028 \u200b\"'=+-@＝"), max_size=12))
def test_no_separator_makes_a_formula_of_what_was_exported(cell: str) -> None:
    out = io.StringIO()
    csv.writer(out).writerow(["code", harmless(cell), "status"])
    for separator in ";,\t|":
        for row in csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=separator):
            for part in row:
                bare = part.strip('\u200b \t\r\n\u2028"')
                assert not bare.startswith(tuple("=+-@＝")), (separator, row)


@pytest.mark.parametrize("cell", HARMLESS, ids=ascii)
def test_all_else_stays_as_it_is(cell: str) -> None:
    assert harmless(cell) == cell


def test_names_and_types_leave_escaped(office: Client, mailbox: MailFolder) -> None:
    kind = new_type(name='=HYPERLINK("http://x")')
    buy(kind, buyer_name="@Ada", email="=a@example.org")
    [_, row] = rows(office.post(address(kind.event)))
    assert row[2:6] == ['\'=HYPERLINK("http://x")', "'@Ada", "'@Ada", "'=a@example.org"]


def test_an_export_is_in_the_staff_log(office: Client) -> None:
    event = new_event()
    answer = office.post(address(event), headers={"X-Request-ID": "export-1"})
    assert answer.status_code == 200
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user.get_username()) == (str(event.pk), "boxoffice")
    assert entry.change_message == "exported the attendees (request export-1)"


def test_exporting_is_a_permission_of_its_own(client: Client) -> None:
    make_group()
    event = new_event()
    user = box_office()
    client.force_login(user)
    page = reverse("admin:orders_event_change", args=[event.pk])
    assert "Export attendees" in text(client.get(page))
    user.groups.get().permissions.remove(Permission.objects.get(codename="export_attendees"))
    assert "Export attendees" not in text(client.get(page))
    assert client.post(address(event)).status_code == 403
    client.force_login(stranger())
    assert client.post(address(event)).status_code == 403
    assert not LogEntry.objects.exists()
    answer: Answer = Client().post(address(event))
    assert answer["Location"].startswith("/admin/login/")


def test_an_event_that_is_not_there_is_not_found(office: Client) -> None:
    assert office.post("/admin/orders/order/event/404/attendees.csv").status_code == 404


COPY = """
WITH copied AS (
    INSERT INTO orders_order (code, secret_digest, link_key, link_version, version, event_id, email,
        buyer_name, locale, currency, total, status, idempotency_key, request_hash, request_id)
    SELECT lpad(n::text, 8, '0'), decode(md5(n::text), 'hex'), 1, 1, 1, event_id,
        'buyer' || n || '@example.org', 'Buyer ' || n, 'en', 'EUR', 100, 'placed', n::text, '', ''
    FROM orders_order, generate_series(%s::int, %s::int) AS n WHERE id = %s RETURNING id
)
INSERT INTO orders_orderline (order_id, ticket_type_id, quantity, price, name)
SELECT copied.id, ticket_type_id, quantity, price, name
FROM copied, orders_orderline WHERE order_id = %s
"""


def test_the_memory_of_an_export_does_not_grow_with_the_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attendees, "CHUNK", 200)
    kind = new_type()
    order = buy(kind, 2)

    def orders(first: int, last: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(COPY, [first, last, order.id, order.id])

    def peak() -> tuple[int, int]:
        tracemalloc.start()
        number = sum(lines.count("\r\n") for lines in attendees.attendees(kind.event))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return number, most

    orders(1, 999)
    peak()
    few, small = peak()
    orders(1000, 9999)
    many, large = peak()
    assert (few, many) == (2001, 20_001)
    assert large < 1.2 * small
