"""The pages of selling over HTTP: the order form, its answers, and whatever is thrown at it."""

import re
from datetime import timedelta
from http import HTTPStatus

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import OutboxRow
from orders.forms import new_order_key
from orders.models import Event, EventStatus, Order, OrderLine, Stock, TicketType
from orders.views import BUYER_COOKIE, BUYER_SALT
from tests import servers
from tests.people import EventFactory, TicketTypeFactory, buy
from tests.web import Answer, filled, forget_connections, order, order_key, text

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
XSS = "<script>alert(1)</script>&\"'"


def nothing_written() -> bool:
    clean = not (Order.objects.exists() or OrderLine.objects.exists() or OutboxRow.objects.exists())
    return clean and not Stock.objects.filter(taken__gt=0).exists()


def test_an_order_leads_over_its_link_to_its_page(client: Client) -> None:
    answer = order(client, TicketTypeFactory())
    assert answer.status_code == HTTPStatus.SEE_OTHER
    assert re.fullmatch(r"/o/[A-Z2-7]{26}/", answer["Location"])
    link = client.get(answer["Location"])
    code = Order.objects.get().code
    assert (link.status_code, link["Location"]) == (302, f"/orders/{code}/")
    cookie = link.cookies["grant"]
    assert cookie["path"] == f"/orders/{code}/"
    assert cookie["httponly"]
    assert cookie["max-age"] == 30 * 24 * 3600
    page = client.get(link["Location"])
    assert page.status_code == 200
    assert answer["Location"].strip("/")[2:] not in text(page)
    assert "We are making your tickets" in text(page)


def test_the_second_click_leads_to_the_same_order(client: Client) -> None:
    form = filled(client, TicketTypeFactory())
    first, second = (client.post("/orders/", form) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert Order.objects.count() == 1


def test_the_same_form_with_other_content_names_the_first_order(client: Client) -> None:
    kind = TicketTypeFactory()
    form = filled(client, kind)
    first = client.post("/orders/", form)
    second = client.post("/orders/", {**form, f"quantity-{kind.pk}": "5"})
    assert second.status_code == 422
    assert f"You already placed order <strong>{Order.objects.get().code}" in text(second)
    assert first["Location"] in text(second)
    assert Order.objects.count() == 1


BAD_FIELDS = [
    ({"name": ""}, "This field is required"),
    ({"name": " \u200b "}, "Please enter a name"),
    ({"name": "Ada\x07"}, "control character"),
    ({"name": "Ada\x00"}, "Null characters are not allowed"),
    ({"name": "Ada\u202egnp"}, "turns the text around"),
    ({"name": "A" * 81}, "81 letters"),
    ({"name": "A" * 3000}, "far too long"),
    ({"name": "A" * 5000}, "at most 4000"),
    ({"email": ""}, "This field is required"),
    ({"email": "ada"}, "Enter a valid email address"),
    ({"email": "ada@example.org\r\nBcc: all@example.org"}, "Enter a valid email address"),
    ({"email": "ada\x00@example.org"}, "Null characters are not allowed"),
    ({"email": "a" * 250 + "@example.org"}, "at most 254"),
]
BAD_NUMBERS = [
    ("0", "Choose at least one ticket"),
    ("", "Choose at least one ticket"),
    ("-1", "Choose 0 or more"),
    ("9", "At most 8 in one order"),
    ("1.5", "Choose a whole number"),
    ("two", "Choose a whole number"),
    ("1\x00", "Choose a whole number"),
    ("9" * 5000, "Choose a whole number"),
    ("1e3", "Choose a whole number"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_FIELDS)
def test_a_bad_field_gets_the_form_again_with_the_message_and_what_was_typed(
    client: Client, changes: dict[str, object], words: str
) -> None:
    kind = TicketTypeFactory()
    answer = order(client, kind, **changes)
    assert answer.status_code == 422
    assert words in text(answer)
    [(field, _)] = changes.items()
    assert f'id="id_{field}_error"' in text(answer)
    kept = {"name": "Ada Lovelace", "email": "ada@example.org"}
    kept.pop(field)
    for value in (*kept.values(), "2"):
        assert f'value="{value}"' in text(answer)
    assert nothing_written()


@pytest.mark.parametrize(("number", "words"), BAD_NUMBERS)
def test_a_bad_number_of_tickets_says_so(client: Client, number: str, words: str) -> None:
    kind = TicketTypeFactory()
    answer = order(client, kind, **{f"quantity-{kind.pk}": number})
    assert answer.status_code == 422
    assert words in text(answer)
    assert 'value="Ada Lovelace"' in text(answer)
    assert nothing_written()


def test_a_form_without_any_number_says_so(client: Client) -> None:
    kind = TicketTypeFactory()
    answer = order(client, kind, **{f"quantity-{kind.pk}": None})
    assert answer.status_code == 422
    assert "Choose at least one ticket" in text(answer)


@pytest.mark.parametrize("name", ["quantity-999999", "quantity-", "quantity-x", "quantity-\x00"])
def test_an_unknown_ticket_type_is_refused(client: Client, name: str) -> None:
    answer = order(client, TicketTypeFactory(), **{name: "1"})
    assert answer.status_code == 422
    assert "no such ticket type" in text(answer)
    assert nothing_written()


def test_a_ticket_type_of_another_event_is_refused(client: Client) -> None:
    other = TicketTypeFactory()
    answer = order(client, TicketTypeFactory(), **{f"quantity-{other.pk}": "1"})
    assert answer.status_code == 422
    assert "no such ticket type" in text(answer)
    assert nothing_written()


@pytest.mark.parametrize("slug", ["no-such", "", None, "\x00", "a" * 5000, "no\nsuch", "ü"])
def test_an_unknown_event_is_not_found(client: Client, slug: str | None) -> None:
    answer = order(client, TicketTypeFactory(), event=slug)
    assert answer.status_code == 404
    assert "No such event" in text(answer)
    assert nothing_written()


def test_a_draft_is_shown_to_nobody(client: Client) -> None:
    kind = TicketTypeFactory(event__title="Secret plans")
    form = filled(client, kind)
    Event.objects.update(status=EventStatus.DRAFT)
    assert client.post("/orders/", form).status_code == 404
    assert client.get(reverse("event", args=[kind.event.slug])).status_code == 404
    assert "Secret plans" not in text(client.get("/"))
    assert nothing_written()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": EventStatus.CANCELLED}, "This event was cancelled"),
        ({"status": EventStatus.CLOSED}, "The sale for this event has closed"),
        ({"starts_at": timezone.now() - timedelta(minutes=1)}, "This event is over"),
        ({"sale_closes_at": timezone.now() - timedelta(minutes=1)}, "has closed"),
        ({"sale_opens_at": timezone.now() + timedelta(hours=2)}, "The sale opens on"),
    ],
    ids=["cancelled", "closed", "past", "after the sale", "before the sale"],
)
@pytest.mark.parametrize("name", ["Ada Lovelace", ""], ids=["good form", "bad form"])
def test_an_event_that_is_not_on_sale_takes_no_order_and_says_why_once(
    client: Client, changes: dict[str, object], words: str, name: str
) -> None:
    form = filled(client, kind := TicketTypeFactory(), name=name)
    Event.objects.update(**changes)
    answer = client.post("/orders/", form)
    assert 400 <= answer.status_code < 500
    assert text(answer).count(words) == 1
    assert "<form" not in text(answer)
    assert "fields marked below" not in text(answer)
    assert nothing_written()
    page = client.get(reverse("event", args=[kind.event.slug]))
    assert page.status_code == 200
    assert words in text(page)
    assert "<form" not in text(page)


def test_sold_out_says_how_many_are_left_and_keeps_the_form(client: Client) -> None:
    kind = TicketTypeFactory(name="Stalls", capacity=1)
    answer = order(client, kind)
    assert answer.status_code == 409
    assert "Stalls: only 1 left." in text(answer)
    assert 'value="Ada Lovelace"' in text(answer)
    assert nothing_written()
    again = client.post(
        "/orders/",
        {**filled(client, kind), "order_key": order_key(answer), f"quantity-{kind.pk}": "1"},
    )
    assert again.status_code == 303
    assert "Sold out" in text(client.get(reverse("event", args=[kind.event.slug])))


BAD_KEYS = [None, "", "forged", "forged:forged", "\x00", "x" * 100_000]


@pytest.mark.parametrize("key", BAD_KEYS, ids=["none", "empty", "forged", "signed", "NUL", "huge"])
def test_a_form_with_a_bad_key_comes_back_with_a_good_one(client: Client, key: str | None) -> None:
    kind = TicketTypeFactory()
    answer = order(client, kind, order_key=key)
    assert answer.status_code == 422
    assert "not made for this browser" in text(answer)
    assert 'value="Ada Lovelace"' in text(answer)
    assert nothing_written()
    assert order(client, kind, order_key=order_key(answer)).status_code == 303


def test_the_key_of_another_browser_is_refused(client: Client) -> None:
    kind = TicketTypeFactory()
    theirs = filled(Client(), kind)["order_key"]
    answer = order(client, kind, order_key=theirs)
    assert answer.status_code == 422
    assert nothing_written()


def test_a_form_without_its_cookie_comes_back_with_a_new_one_and_then_works() -> None:
    client = Client()
    form = filled(client, TicketTypeFactory())
    del client.cookies[BUYER_COOKIE]
    answer = client.post("/orders/", form)
    assert answer.status_code == 422
    assert nothing_written()
    again = client.post("/orders/", {**form, "order_key": order_key(answer)})
    assert again.status_code == 303


def test_a_forged_buyer_cookie_counts_as_none(client: Client) -> None:
    form = filled(client, TicketTypeFactory())
    client.cookies[BUYER_COOKIE] = "mine:1:forged"
    answer = client.post("/orders/", {**form, "order_key": new_order_key("mine")})
    assert answer.status_code == 422
    assert BUYER_SALT not in text(answer)
    assert nothing_written()


def test_a_form_without_the_csrf_cookie_gets_a_page_that_says_what_to_do() -> None:
    client = Client(enforce_csrf_checks=True)
    form = filled(client, TicketTypeFactory())
    answer = client.post("/orders/", form)
    assert answer.status_code == 403
    assert "Please send the form again" in text(answer)
    assert nothing_written()


def test_the_csrf_token_of_the_page_is_accepted() -> None:
    client = Client(enforce_csrf_checks=True)
    kind = TicketTypeFactory()
    page = client.get(reverse("event", args=[kind.event.slug]))
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text(page))
    assert token
    form = {**filled(client, kind), "csrfmiddlewaretoken": token[1]}
    assert client.post("/orders/", form).status_code == 303


def test_huge_input_is_refused_with_a_page(client: Client) -> None:
    answer = order(client, TicketTypeFactory(), name="A" * 3_000_000)
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in text(answer)
    assert "<h1>" in text(answer)
    assert nothing_written()


def test_thousands_of_fields_are_refused_with_a_page(client: Client) -> None:
    many = {f"quantity-{number}": "1" for number in range(1, 2000)}
    answer = order(client, TicketTypeFactory(), **many)
    assert 400 <= answer.status_code < 500
    assert "<h1>" in text(answer)
    assert nothing_written()


def test_bytes_that_are_no_text_are_refused_with_a_page(client: Client) -> None:
    kind = TicketTypeFactory()
    form = filled(client, kind, name=None)
    body = "&".join(f"{name}={value}" for name, value in form.items()).encode() + b"&name=%ff%fe"
    raw = body.replace(b"%ff%fe", b"\xff\xfe")
    for content in (body, raw):
        answer = client.generic(
            "POST", "/orders/", content, content_type="application/x-www-form-urlencoded"
        )
        assert answer.status_code in (303, 400, 422)
        assert "Traceback" not in text(answer)
    broken = client.generic(
        "POST", "/orders/", b"--x\r\nnonsense", content_type="multipart/form-data; boundary=x"
    )
    assert 400 <= broken.status_code < 500
    odd = client.generic("POST", "/orders/", body, content_type="text/plain; charset=nonsense")
    assert 400 <= odd.status_code < 500


@pytest.mark.parametrize("path", ["/", "/events/{slug}/", "/events/{slug}/?quantity=2", "/orders/"])
def test_get_and_head_change_nothing(client: Client, path: str) -> None:
    kind = TicketTypeFactory()
    before = list(Stock.objects.values()), list(Event.objects.values())
    for method in (client.get, client.head):
        answer = method(path.format(slug=kind.event.slug))
        assert answer.status_code in (200, 405)
    assert (list(Stock.objects.values()), list(Event.objects.values())) == before
    assert nothing_written()


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_pages_for_reading_take_nothing_else(client: Client, method: str) -> None:
    kind = TicketTypeFactory()
    for path in ("/", f"/events/{kind.event.slug}/"):
        assert getattr(client, method)(path).status_code == 405


def test_markup_in_names_and_titles_stays_text_on_every_page(client: Client) -> None:
    kind = TicketTypeFactory(
        name=XSS, event__title=XSS, event__venue=XSS, event__status=EventStatus.ON_SALE
    )
    answer = order(client, kind, name=XSS)
    pages = [
        client.get("/"),
        client.get(reverse("event", args=[kind.event.slug])),
        order(client, kind, name=XSS, email=XSS),
        client.get(answer["Location"], follow=True),
    ]
    for page in pages:
        assert "<script>alert" not in text(page)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#x27;" in text(page)


def test_every_page_has_a_strict_content_policy(client: Client) -> None:
    kind = TicketTypeFactory()
    for path in ("/", f"/events/{kind.event.slug}/", "/no-such-page", "/admin/login/"):
        policy = client.get(path)["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy


def test_a_lock_that_is_not_had_gives_a_friendly_page(client: Client) -> None:
    kind = TicketTypeFactory()
    form = filled(client, kind)
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT 1 FROM orders_stock FOR UPDATE")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 100")
        answer = client.post("/orders/", form)
    finally:
        other.rollback()
        other.close()
        forget_connections()
    assert_busy(answer)
    assert nothing_written()
    assert client.post("/orders/", form).status_code == 303


def assert_busy(answer: Answer) -> None:
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "One moment, please" in text(answer)
    assert "Nothing was lost" in text(answer)
    for trace in ("Traceback", "psycopg", "Error", "SELECT"):
        assert trace not in text(answer)


def test_a_database_that_is_gone_gives_a_friendly_page_until_it_is_back(client: Client) -> None:
    kind = TicketTypeFactory()
    form = filled(client, kind)
    servers.POSTGRES.kill()
    try:
        answers = [client.post("/orders/", form), client.get("/")]
    finally:
        servers.POSTGRES.start()
        forget_connections()
    for answer in answers:
        assert_busy(answer)
    assert client.post("/orders/", form).status_code == 303


def test_a_fault_of_ours_gives_a_page_without_a_trace(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.raise_request_exception = False

    def broken(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    form = filled(client, TicketTypeFactory())
    monkeypatch.setattr("orders.views.place_order", broken)
    answer = client.post("/orders/", form)
    assert answer.status_code == 500
    assert "Something went wrong" in text(answer)
    assert "ZeroDivision" not in text(answer)


def test_a_well_formed_request_id_is_kept_and_goes_with_the_order(client: Client) -> None:
    form = filled(client, TicketTypeFactory())
    answer = client.post(
        "/orders/",
        form,
        headers={"X-Request-ID": "req-12345678", "traceparent": f"00-{TRACE}-01"},
    )
    assert answer["X-Request-ID"] == "req-12345678"
    row = OutboxRow.objects.get()
    assert (row.request_id, row.trace) == ("req-12345678", TRACE)
    assert Order.objects.get().request_id == "req-12345678"


@pytest.mark.parametrize(
    "offered", ["", "short", "a b c d e f g", "x" * 65, "evil\nline", "ünïcode1"]
)
def test_an_odd_request_id_is_replaced(client: Client, offered: str) -> None:
    one, two = (client.get("/", headers={"X-Request-ID": offered}) for _ in range(2))
    assert re.fullmatch("[0-9a-f]{16}", one["X-Request-ID"])
    assert one["X-Request-ID"] != two["X-Request-ID"]


@pytest.mark.parametrize(
    "offered", ["", "nonsense", f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01"]
)
def test_without_a_good_traceparent_the_order_gets_a_trace(client: Client, offered: str) -> None:
    form = filled(client, TicketTypeFactory())
    client.post("/orders/", form, headers={"traceparent": offered})
    trace = OutboxRow.objects.get().trace
    assert re.fullmatch("[0-9a-f]{32}-[0-9a-f]{16}", trace)
    assert trace not in offered


@pytest.mark.parametrize("path", ["/", "/no-such-page", "/healthz"])
def test_every_answer_carries_its_request_id(client: Client, path: str) -> None:
    assert client.get(path)["X-Request-ID"]


def test_the_access_log_masks_the_secret_and_stays_one_line(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    secret = buy(TicketTypeFactory()).secret
    with caplog.at_level("INFO", logger="stagedoor.access"):
        client.get(f"/o/{secret}/")
        client.get(f"/o/{secret}/%0aGET / 200")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "GET /o/…/ 302"
    assert secret not in str([record.__dict__ for record in caplog.records])
    assert all("\n" not in line for line in lines)


def test_prices_are_shown_in_the_events_currency_and_times_in_its_zone(client: Client) -> None:
    yen = TicketTypeFactory(price=4250, event__currency="JPY", event__tz="Asia/Tokyo")
    page = text(client.get(reverse("event", args=[yen.event.slug])))
    assert "¥4,250" in page
    assert "20:00" in page
    assert "Asia/Tokyo" in page


def test_the_list_names_every_state_of_a_sale(client: Client) -> None:
    TicketTypeFactory(event__title="Open")
    TicketTypeFactory(event__title="Gone", capacity=0)
    TicketTypeFactory(event__title="Soon", event__sale_opens_at=timezone.now() + timedelta(days=1))
    TicketTypeFactory(event__title="Off", event__status=EventStatus.CANCELLED)
    TicketTypeFactory(event__title="Shut", event__status=EventStatus.CLOSED)
    past = timezone.now() - timedelta(minutes=1)
    EventFactory(title="Past", starts_at=past, sale_closes_at=past)
    page = text(client.get("/"))
    for words in (">On sale<", ">Sold out<", ">On sale from ", ">Cancelled<", ">Sale closed<"):
        assert page.count(words) == 1, words
    assert "Past" not in page


def test_the_demo_events_can_be_ordered(client: Client) -> None:
    call_command("demo")
    for kind in TicketType.objects.select_related("event"):
        assert order(client, kind).status_code == 303
    with transaction.atomic():
        assert Order.objects.count() == TicketType.objects.count()
