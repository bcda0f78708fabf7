"""“Lost your link?”: the same answer for every address; one email with the links, at most."""

import email
import email.policy
import json
import logging
import re
import smtplib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.models import OutboxRow, ProcessedJob
from jobs.prognosis import Effect, Prognosis
from jobs.registry import kind_named
from jobs.testing import drain, enqueued
from orders.models import Event, Order, OrderStatus
from orders.services import PlacedOrder
from stagedoor.logs import JsonFormatter
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import buy, new_type
from tests.tickets.conftest import Answers
from tests.web import Answer, text
from tickets import lost_links
from tickets.link_handlers import LinkArgs
from tickets.lost_links import TooMany
from tickets.models import LinkDelivery, LostLinkRequest
from tickets.timeline import timeline

pytestmark = pytest.mark.django_db(transaction=True)

KNOWN, UNKNOWN = "buyer@example.org", "nobody@example.org"


@pytest.fixture
def order(mailbox: MailFolder) -> PlacedOrder:
    """An order whose tickets were emailed; the mailbox is empty again."""
    placed = buy(new_type())
    drain()
    for path in mailbox.folder.iterdir():
        path.unlink()
    return placed


def ask(client: Client, address: str = KNOWN) -> Answer:
    return client.post("/lost-link/", {"email": address})


def sent(mailbox: MailFolder) -> list[EmailMessage]:
    paths = mailbox.messages()
    return [
        email.message_from_bytes(one.read_bytes(), policy=email.policy.default) for one in paths
    ]


def words(message: EmailMessage) -> dict[str, str]:
    return {
        part.get_content_type(): part.get_content()
        for part in message.walk()
        if not part.is_multipart()
    }


def foresee(*asked_ids: int) -> list[Prognosis]:
    known = kind_named("email_links").foresee
    assert known is not None
    return list(known([LinkArgs(pk) for pk in asked_ids]))


def test_the_link_of_an_order_comes_by_email(
    redis: Any, client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    ask(client)
    drain()
    [message] = sent(mailbox)
    assert (message["To"], message["Subject"]) == (KNOWN, "Your orders at Stagedoor")
    found = words(message)
    assert set(found) == {"text/plain", "text/html"}
    for content in found.values():
        for part in ("Nachtkonzert", "20:00", "Europe/Berlin", order.code):
            assert part in content
        assert f"{settings.BASE_URL}/o/{order.secret}/" in content
        assert "[[" not in content
    answer: Answer = client.get(f"/o/{order.secret}/", follow=True)
    assert answer.status_code == 200
    assert LinkDelivery.objects.get().state == "sent"
    books_are_in_order()


def test_a_known_and_an_unknown_address_are_answered_alike(
    client: Client, order: PlacedOrder
) -> None:
    answers, looks = [], []
    for address in (KNOWN, UNKNOWN):
        client.get("/lost-link/")
        with CaptureQueriesContext(connection) as asked:
            first = ask(client, address)
            page: Answer = client.get(first["Location"])
        answers.append((first.status_code, first["Location"], page.status_code, text(page)))
        looks.append([re.sub(r"'[^']*'|\d+", "?", one["sql"]) for one in asked])
        assert not first.cookies
    assert answers[0] == answers[1]
    assert looks[0] == looks[1]
    assert answers[0][0] == 303
    assert KNOWN not in answers[0][3]
    assert len(enqueued("email_links")) == LostLinkRequest.objects.count() == 2


def test_an_address_without_orders_is_sent_nothing(
    redis: Any, client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    ask(client, UNKNOWN)
    drain()
    assert not sent(mailbox)
    assert ProcessedJob.objects.get(kind="email_links").result == "nothing to do"
    assert not LinkDelivery.objects.exists()
    books_are_in_order()


def test_jobs_logs_and_stored_words_hold_no_address_and_no_secret(
    client: Client, order: PlacedOrder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        ask(client)
        rows = json.dumps(list(OutboxRow.objects.values("args", "subject", "kind")))
        drain()
    rows += json.dumps(list(ProcessedJob.objects.values("args", "subject", "kind")))
    logged = "".join(
        JsonFormatter().format(one) for one in caplog.records if one.name != "django.db.backends"
    )
    for told in (rows, logged):
        assert KNOWN not in told
        assert order.secret not in told
    stored = LinkDelivery.objects.get()
    for told in (stored.text, stored.html, stored.idempotency_key):
        assert order.secret not in told
        assert KNOWN not in told


def test_the_address_is_found_in_any_case_and_the_email_goes_to_it_as_it_was_ordered_with(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    ask(client, "BUYER@Example.ORG")
    drain()
    assert [message["To"] for message in sent(mailbox)] == [KNOWN]


def test_events_that_are_over_and_orders_of_others_are_not_in_it(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    buy(new_type(event__title="Of another"), email="other@example.org")
    over = new_type(event__title="Over")
    buy(over)
    Event.objects.filter(pk=over.event_id).update(starts_at=timezone.now() - timedelta(hours=13))
    begun = new_type(event__title="Just begun")
    buy(begun)
    Event.objects.filter(pk=begun.event_id).update(starts_at=timezone.now() - timedelta(hours=1))
    ask(client)
    drain()
    [message] = [one for one in sent(mailbox) if "Your orders" in one["Subject"]]
    content = words(message)["text/plain"]
    assert "Nachtkonzert" in content
    assert "Just begun" in content
    assert "Over" not in content
    assert "Of another" not in content


def test_a_refunded_order_is_named_as_such(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    Order.objects.update(status=OrderStatus.REFUNDED)
    ask(client)
    drain()
    [message] = sent(mailbox)
    for content in words(message).values():
        assert "(refunded)" in content


def test_of_many_orders_the_newest_are_in_it_each_with_its_own_link(
    client: Client, mailbox: MailFolder
) -> None:
    kind = new_type()
    orders = [buy(kind, order_key=str(number)) for number in range(22)]
    OutboxRow.objects.all().delete()
    ask(client)
    drain()
    [message] = sent(mailbox)
    content = words(message)["text/plain"]
    links = re.findall(r"/o/([A-Z2-7]{26})/", content)
    assert links == [one.secret for one in reversed(orders)][:20]
    assert "These are the newest 20" in content
    assert "[[" not in content


def test_a_title_that_looks_like_a_placeholder_opens_no_other_buyers_order(
    client: Client, mailbox: MailFolder
) -> None:
    other = buy(new_type(), email="other@example.org")
    mine = buy(new_type(event__title=f"[[order-link-2]] [[order-link]] [[{other.code}]]"))
    OutboxRow.objects.all().delete()
    ask(client)
    drain()
    [message] = sent(mailbox)
    assert other.secret not in message.as_string()
    assert mine.secret not in str(message["Subject"])


def test_a_revoked_link_is_told_as_it_is_now(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    Order.objects.update(link_version=2)
    ask(client)
    drain()
    [message] = sent(mailbox)
    assert order.secret not in message.as_string()


def test_one_address_is_answered_three_times_an_hour_and_told_the_same_all_the_same(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    pages = set()
    for address in (KNOWN, KNOWN.upper(), KNOWN, KNOWN, KNOWN.title()):
        pages.add(text(client.get(ask(client, address)["Location"])))
        drain()
    assert len(sent(mailbox)) == LinkDelivery.objects.count() == 3
    assert len(pages) == 1
    LinkDelivery.objects.update(first_try_at=timezone.now() - timedelta(minutes=61))
    ask(client)
    drain()
    assert len(sent(mailbox)) == 4


def test_another_address_is_answered_meanwhile(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    buy(new_type(), email="other@example.org")
    OutboxRow.objects.all().delete()
    for _ in range(4):
        ask(client)
    ask(client, "other@example.org")
    drain()
    assert len(sent(mailbox)) == 4


@override_settings(LOST_LINKS_PER_MINUTE=3)
def test_above_the_rate_everybody_is_asked_to_come_later(
    client: Client, order: PlacedOrder
) -> None:
    assert [ask(client, UNKNOWN).status_code for _ in range(3)] == [303] * 3
    busy = [ask(client, address) for address in (KNOWN, UNKNOWN)]
    for answer in busy:
        assert (answer.status_code, answer["Retry-After"]) == (429, "60")
        assert "Please try again in a minute" in text(answer)
    plain = [text(one).replace(KNOWN, "").replace(UNKNOWN, "") for one in busy]
    assert re.sub(r'value="\w{64}"', "", plain[0]) == re.sub(r'value="\w{64}"', "", plain[1])
    assert LostLinkRequest.objects.count() == 3
    assert client.get("/lost-link/").status_code == 200
    LostLinkRequest.objects.update(asked_at=timezone.now() - timedelta(seconds=61))
    assert ask(client).status_code == 303


@override_settings(LOST_LINKS_PER_MINUTE=3)
def test_the_rate_holds_with_many_at_once(transactional_db: None) -> None:
    def listened_to(_: int) -> bool:
        try:
            lost_links.ask(UNKNOWN)
        except TooMany:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(listened_to, range(24))) == 3
    assert LostLinkRequest.objects.count() == 3


def test_answers_that_run_at_once_are_three_to_one_address(
    order: PlacedOrder, mailbox: MailFolder
) -> None:
    for _ in range(8):
        lost_links.ask(KNOWN)
    asked = list(LostLinkRequest.objects.all())

    def begin(one: LostLinkRequest) -> bool:
        try:
            return lost_links.begin(one, 1) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(begin, asked)) == 3


def test_the_timeline_of_an_order_tells_of_the_answer(client: Client, order: PlacedOrder) -> None:
    ask(client)
    drain()
    lines = [line.what for line in timeline(Order.objects.get(), [])]
    assert lines[-2:] == ["lost link: first try", "lost link: sent"]


@pytest.mark.parametrize("address", ["", "ada", "a@b", "a\x00@example.org", "x" * 260 + "@a.org"])
def test_what_is_no_address_is_told_at_the_field(client: Client, address: str) -> None:
    answer = ask(client, address)
    assert answer.status_code == 422
    assert 'class="error"' in text(answer)
    assert not LostLinkRequest.objects.exists()


def test_reading_asks_for_nothing_and_the_form_needs_its_cookie(order: PlacedOrder) -> None:
    strict = Client(enforce_csrf_checks=True)
    for path in ("/lost-link/", "/lost-link/?asked"):
        page: Answer = strict.get(path)
        assert page.status_code == 200
        assert page["Cache-Control"] == "no-store, private"
        assert page["X-Robots-Tag"] == "noindex"
    assert ask(strict).status_code == 403
    token = re.search(
        r'name="csrfmiddlewaretoken" value="([^"]+)"', text(strict.get("/lost-link/"))
    )
    assert token
    assert not LostLinkRequest.objects.exists()
    form = {"email": KNOWN, "csrfmiddlewaretoken": token[1]}
    answer: Answer = strict.post("/lost-link/", form)
    assert answer.status_code == 303


def test_every_page_leads_to_it(client: Client) -> None:
    assert 'href="/lost-link/"' in text(client.get("/"))
    assert 'href="/lost-link/"' in text(client.get("/no-such-page/"))


def test_a_second_run_sends_no_second_email(
    client: Client, order: PlacedOrder, mailbox: MailFolder, at_failpoint: Arm
) -> None:
    failed: list[str] = []

    def fail_once(place: str) -> None:
        if place == "runner.before_effects/email_links" and not failed:
            failed.append(place)
            raise RuntimeError("after the provider's answer, before the commit")

    at_failpoint(fail_once)
    ask(client)
    drain()
    Event.objects.update(title="Another")
    OutboxRow.objects.update(available_at=timezone.now())
    drain()
    assert [call["accepted"] for call in mailbox.calls()] == [True, False]
    assert len(sent(mailbox)) == 1
    assert not OutboxRow.objects.exists()


@override_settings(MAIL_KEY_WINDOW=0)
def test_without_keys_a_lost_answer_is_uncertain_and_a_replay_may_send_twice(
    client: Client, order: PlacedOrder, answers: Answers
) -> None:
    lost = smtplib.SMTPServerDisconnected("lost after DATA")
    answers(lost, lost)
    ask(client)
    [asked] = LostLinkRequest.objects.all()
    drain()
    delivery = LinkDelivery.objects.get()
    assert (delivery.state, delivery.tries) == ("uncertain", 1)
    [found] = foresee(asked.pk)
    assert found.effect is Effect.MAY_REPEAT
    OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
    drain()
    assert "may send twice" in OutboxRow.objects.get().dead_reason
    assert KNOWN not in OutboxRow.objects.get().traceback
    with transaction.atomic():
        lost_links.begin_again([asked.pk])
    assert LinkDelivery.objects.get().tries == 1


def test_a_replay_says_what_it_would_do(client: Client, order: PlacedOrder) -> None:
    for address in (KNOWN, UNKNOWN):
        ask(client, address)
    known, unknown = LostLinkRequest.objects.order_by("pk").values_list("pk", flat=True)
    found = foresee(known, unknown, 404)
    assert [one.effect for one in found] == [Effect.SAFE, Effect.NOTHING, Effect.NOTHING]
    assert "no order to come" in found[1].text
    drain()
    [found_now] = foresee(known)
    assert found_now.text.startswith("already done")
    with CaptureQueriesContext(connection) as looks:
        foresee(*range(known, known + 5000))
    assert len(looks) <= 3


def test_a_request_that_is_not_kept_any_more_is_nothing_to_do(
    client: Client, order: PlacedOrder, mailbox: MailFolder
) -> None:
    ask(client)
    LostLinkRequest.objects.all().delete()
    drain()
    assert not sent(mailbox)
