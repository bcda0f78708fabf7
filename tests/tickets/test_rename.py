"""Another holder: the old code is worthless at once; one new file, one email that brings it."""

import email
import email.policy
import io
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from jobs import failpoint
from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue
from jobs.prognosis import Effect
from jobs.registry import kind_named
from jobs.testing import drain, enqueued
from orders.box_office import make_group
from orders.models import Event, EventStatus, Order
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import box_office, buy, new_type
from tests.tickets.conftest import Answers
from tests.web import Answer, open_order, text
from tickets import buyer, deliveries, door, files, services
from tickets.buyer import NewHolder, Outdated, TooOften
from tickets.deliveries import Message
from tickets.door import Door
from tickets.handlers import ChangedArgs, OrderArgs
from tickets.models import BuyerAct, Delivery, MessageKind, Ticket, TicketFile, TicketStatus
from tickets.services import Actor, Refused

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sent(mailbox: MailFolder) -> PlacedOrder:
    """An order of two tickets that were emailed."""
    order = buy(new_type(), 2)
    drain()
    return order


@pytest.fixture
def page(client: Client, sent: PlacedOrder) -> str:
    """The order's address, in a browser that has followed its link."""
    return open_order(client, sent)


def ticket(order: PlacedOrder, seq: int = 1) -> Ticket:
    return Ticket.objects.get(order_id=order.id, seq=seq)


def rename(order: PlacedOrder, name: str = "Grace Hopper", seq: int = 1) -> bool:
    return buyer.rename(order.id, NewHolder(seq, ticket(order, seq).version, name))


def file_text(order: PlacedOrder) -> str:
    """The words of the file that the order has now, without spaces."""
    file = files.newest_file(Order.objects.get(pk=order.id))
    assert file is not None
    with files.ticket_storage().open(file.name) as stored:
        pages = PdfReader(io.BytesIO(stored.read())).pages
        return re.sub(r"\s", "", "".join(page.extract_text() for page in pages))


def test_a_new_holder_is_a_new_code_a_new_file_and_one_email(
    redis: Any, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    old, other = ticket(sent), ticket(sent, 2)
    assert rename(sent)
    new = ticket(sent)
    assert (new.holder_name, new.version, new.status) == ("Grace Hopper", 2, TicketStatus.VALID)
    assert new.token != old.token
    assert Order.objects.get().version == 2
    assert enqueued("render_tickets") == [{"order_id": sent.id}]
    assert OutboxRow.objects.count() == 1
    drain()
    printed = file_text(sent)
    assert new.token in printed
    assert other.token in printed
    assert old.token not in printed
    assert "GraceHopper" in printed
    told = Delivery.objects.get(kind="changed")
    assert (told.generation, told.state) == (2, "sent")
    assert len(mailbox.messages()) == 2
    assert not OutboxRow.objects.exists()
    books_are_in_order()


def test_the_email_names_who_goes_in_and_brings_the_new_file(
    client: Client, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    known = set(mailbox.messages())
    rename(sent, "Ζωή <b>&", 2)
    drain()
    [path] = set(mailbox.messages()) - known
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    assert message["Subject"] == f"Your tickets for Nachtkonzert were changed ({sent.code})"
    found = {part.get_content_type(): part for part in message.walk() if not part.is_multipart()}
    assert set(found) == {"text/plain", "text/html", "application/pdf"}
    plain, html = (found[kind].get_content() for kind in ("text/plain", "text/html"))
    assert "Ticket 1: Ada Lovelace" in plain
    assert "Ticket 2: Ζωή <b>&" in plain
    assert "Ζωή &lt;b&gt;&amp;" in html
    for content in (plain, html):
        assert f"/o/{sent.secret}/" in content
        assert "the old code opens the door no more" in content
    file = TicketFile.objects.get(order_version=2)
    with files.ticket_storage().open(file.name) as stored:
        assert found["application/pdf"].get_content() == stored.read()


def test_the_old_code_opens_no_door_from_the_commit_on(sent: PlacedOrder) -> None:
    old, event = ticket(sent).token, Event.objects.get()
    rename(sent)
    at_door = Door(by="door", key="1")
    assert door.scan(event, old, at_door).answer == "unknown"
    assert door.scan(event, ticket(sent).token, at_door).answer == "valid"


def test_whoever_went_in_keeps_the_ticket(sent: PlacedOrder) -> None:
    door.scan(Event.objects.get(), ticket(sent).token, Door(by="door", key="1"))
    with pytest.raises(Refused, match="went in with ticket 1 already"):
        rename(sent)
    assert rename(sent, seq=2)


def test_the_same_name_again_changes_nothing(client: Client, page: str, sent: PlacedOrder) -> None:
    form = {"seen": "1", "name": "  Ada   Lovelace "}
    answer: Answer = client.post(f"{page}tickets/1/holder/", form)
    assert answer.status_code == 303
    assert ticket(sent).version == Order.objects.get().version == 1
    assert not OutboxRow.objects.exists()
    assert not BuyerAct.objects.exists()


def test_the_same_form_twice_is_one_change(
    client: Client, page: str, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    form = {"seen": "1", "name": "Grace Hopper"}
    answers: list[Answer] = [client.post(f"{page}tickets/1/holder/", form) for _ in range(2)]
    assert [one["Location"] for one in answers] == [f"{page}?done=renamed"] * 2
    assert "The name is changed" in text(client.get(answers[0]["Location"]))
    assert ticket(sent).version == 2
    drain()
    assert len(mailbox.messages()) == 2


def test_a_page_that_is_older_than_the_ticket_changes_nothing_and_shows_it(
    client: Client, page: str, sent: PlacedOrder
) -> None:
    rename(sent)
    form = {"seen": "1", "name": "Eve"}
    answer: Answer = client.post(f"{page}tickets/1/holder/", form)
    assert answer.status_code == 409
    assert "your change was not made" in text(answer)
    assert 'value="Grace Hopper"' in text(answer)
    assert 'name="seen" value="2"' in text(answer)
    assert ticket(sent).holder_name == "Grace Hopper"


def test_of_two_who_rename_at_once_one_wins_and_the_other_is_told(sent: PlacedOrder) -> None:
    def ask(number: int) -> str:
        try:
            buyer.rename(sent.id, NewHolder(1, 1, f"Holder {number}"))
        except Outdated:
            return "outdated"
        finally:
            connection.close()
        return f"Holder {number}"

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(6)))
    assert found.count("outdated") == 5
    assert ticket(sent).holder_name in found
    assert (ticket(sent).version, BuyerAct.objects.count()) == (2, 1)


def test_the_door_and_a_new_holder_at_once_leave_one_of_the_two(sent: PlacedOrder) -> None:
    event = Event.objects.get()
    for turn in range(8):
        Ticket.objects.update(used_at=None, used_by="")
        BuyerAct.objects.all().delete()
        old, name = ticket(sent), f"Holder {turn}"

        def ask(old: Ticket = old, name: str = name) -> bool:
            try:
                return buyer.rename(sent.id, NewHolder(1, old.version, name))
            except Refused:
                return False
            finally:
                connection.close()

        def scan(old: Ticket = old, turn: int = turn) -> bool:
            try:
                at_door = Door(by="door", key=str(turn))
                return door.scan(event, old.token, at_door).answer == "valid"
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(ask), pool.submit(scan)]
        assert sum(one.result() for one in both) == 1


def test_ten_names_an_hour_and_the_eleventh_is_told_when(
    client: Client, page: str, sent: PlacedOrder
) -> None:
    for number in range(10):
        assert rename(sent, f"Holder {number}", number % 2 + 1)
    with pytest.raises(TooOften, match=r"10 times within an hour. It is possible again at \d\d:"):
        rename(sent, "Eve")
    form = {"seen": str(ticket(sent).version), "name": "Eve"}
    answer: Answer = client.post(f"{page}tickets/1/holder/", form)
    assert answer.status_code == 429
    assert "(Europe/Berlin)" in text(answer)
    BuyerAct.objects.update(at=timezone.now() - timedelta(minutes=61))
    assert rename(sent, "Eve")


def begun() -> None:
    Event.objects.update(starts_at=timezone.now() - timedelta(minutes=1))


def cancelled() -> None:
    Event.objects.update(status=EventStatus.CANCELLED)


def refunded() -> None:
    services.refund(Order.objects.get().pk, "ill", Actor("boxoffice"))


def voided() -> None:
    Ticket.objects.update(status=TicketStatus.VOID)


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (begun, "The event has begun"),
        (cancelled, "The event was cancelled"),
        (refunded, "This order was refunded"),
        (voided, "not valid any more"),
    ],
)
def test_what_can_not_be_changed_any_more_is_refused_in_words(
    client: Client, page: str, sent: PlacedOrder, happens: Callable[[], None], told: str
) -> None:
    happens()
    before = list(Ticket.objects.values())
    form = {"seen": "1", "name": "Eve"}
    answers: list[Answer] = [
        client.get(f"{page}tickets/1/holder/"), client.post(f"{page}tickets/1/holder/", form),
    ]  # fmt: skip
    for answer, status in zip(answers, (200, 409), strict=True):
        assert (answer.status_code, told in text(answer)) == (status, True)
        assert "<form" not in text(answer).split("<main")[1]
    assert list(Ticket.objects.values()) == before
    assert f'href="{page}tickets/1/holder/"' not in text(client.get(page))


def test_before_there_are_tickets_no_name_is_changed(client: Client, mailbox: MailFolder) -> None:
    order = buy(new_type())
    page = open_order(client, order)
    form = {"seen": "1", "name": "Eve"}
    for answer in (
        client.get(f"{page}tickets/1/holder/"), client.post(f"{page}tickets/1/holder/", form),
    ):  # fmt: skip
        assert "Your tickets are being made. Names can be changed once they are there." in text(
            answer
        )
    drain()
    assert ticket(order).holder_name == "Ada Lovelace"


@pytest.mark.parametrize("name", ["", "   ", "\u200b", "a\u202eb", "x" * 81, "Eve\x00"])
def test_a_name_that_can_not_be_printed_is_told_at_the_field(
    client: Client, page: str, sent: PlacedOrder, name: str
) -> None:
    answer: Answer = client.post(f"{page}tickets/1/holder/", {"seen": "1", "name": name})
    assert answer.status_code == 422
    assert 'class="error" id="id_name_error"' in text(answer)
    assert ticket(sent).version == 1


def test_the_page_of_the_order_follows_until_the_new_tickets_are_emailed(
    client: Client, page: str, sent: PlacedOrder
) -> None:
    def state() -> str:
        return str(client.get(f"{page}status/").json()["state"])

    assert state() == "emailed"
    rename(sent)
    assert state() == "placed"
    assert "We are making your new tickets" in text(client.get(page))
    assert client.get(f"{page}tickets.pdf").status_code == 202
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    assert state() == "ready"
    drain()
    assert state() == "emailed"


def test_two_changes_before_the_render_are_one_file_and_one_email(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    rename(sent)
    rename(sent, "Eve", 2)
    drain()
    assert list(TicketFile.objects.values_list("order_version", flat=True)) == [1, 3]
    assert Delivery.objects.get(kind="changed").generation == 3
    assert len(mailbox.messages()) == 2


def test_each_change_that_was_told_is_an_email_of_its_own(
    redis: Any, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    for number in (1, 2, 3):
        rename(sent, f"Holder {number}")
        drain()
    generations = Delivery.objects.filter(kind="changed").values_list("generation", flat=True)
    assert list(generations) == [2, 3, 4]
    assert len(mailbox.messages()) == 4
    books_are_in_order()


def again(kind: str, **args: int) -> None:
    with transaction.atomic():
        enqueue(kind, **args)
    drain()


def test_jobs_that_come_again_send_nothing_more(sent: PlacedOrder, mailbox: MailFolder) -> None:
    rename(sent)
    drain()
    for version in (2, 1, 3):
        again("email_changed_tickets", order_id=sent.id, order_version=version)
    again("render_tickets", order_id=sent.id)
    again("email_tickets", order_id=sent.id)
    assert len(mailbox.messages()) == 2


def test_a_first_email_that_was_never_begun_brings_the_new_names_itself(
    made: PlacedOrder, mailbox: MailFolder
) -> None:
    rename(made)
    drain()
    assert [one.kind for one in Delivery.objects.all()] == ["tickets"]
    assert Delivery.objects.get().file == TicketFile.objects.get(order_version=2)
    assert len(mailbox.messages()) == 1
    books_are_in_order()


def test_an_email_that_was_begun_with_the_old_file_is_not_tried_again(
    redis: Any, made: PlacedOrder, mailbox: MailFolder, answers: Answers
) -> None:
    answers(ConnectionRefusedError(111, "refused"))
    drain()
    assert Delivery.objects.get().state == "queued"
    rename(made)
    drain()
    OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
    drain()
    assert not OutboxRow.objects.exists()
    assert [one["accepted"] for one in mailbox.calls()] == [True]
    told = Delivery.objects.get(kind="changed")
    assert (told.state, told.file) == ("sent", TicketFile.objects.get(order_version=2))
    assert Delivery.objects.get(kind="tickets").state == "queued"
    books_are_in_order()


def test_a_resending_that_was_begun_before_a_part_was_refunded_comes_with_what_is_left(
    redis: Any, sent: PlacedOrder, mailbox: MailFolder, answers: Answers
) -> None:
    buyer.resend(sent.id, 1)
    answers(ConnectionRefusedError(111, "refused"))
    drain()
    services.refund(sent.id, "ill", Actor("boxoffice"), seqs={2})
    drain()
    OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
    drain()
    told = Delivery.objects.get(kind="changed")
    assert (told.state, told.file) == ("sent", TicketFile.objects.get(order_version=2))
    assert Delivery.objects.get(kind="tickets", generation=2).state == "queued"
    assert not OutboxRow.objects.filter(kind__startswith="email").exists()
    books_are_in_order()


def test_a_resending_that_was_begun_before_the_event_moved_comes_with_the_new_time(
    redis: Any, sent: PlacedOrder, mailbox: MailFolder, answers: Answers
) -> None:
    buyer.resend(sent.id, 1)
    answers(ConnectionRefusedError(111, "refused"))
    drain()
    event = Event.objects.get()
    event.starts_local += timedelta(days=1)
    event.starts_at += timedelta(days=1)
    event.save()
    again("rerender_tickets", order_id=sent.id)
    OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
    drain()
    told = Delivery.objects.get(kind="changed")
    assert (told.state, told.file) == ("sent", TicketFile.objects.get(order_version=2))
    assert len(mailbox.messages()) == 2
    books_are_in_order()


def test_an_email_that_meets_a_change_at_its_first_try_is_not_begun(made: PlacedOrder) -> None:
    order, file = Order.objects.get(), TicketFile.objects.get()
    rename(made)
    message = Message(order.pk, MessageKind.TICKETS)
    assert deliveries.begin_with(message, order, file, 1) is None
    assert not Delivery.objects.exists()


def test_a_resending_that_meets_a_change_leaves_it_to_the_email_of_the_change(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    buyer.resend(sent.id, 1)
    rename(sent)
    drain()
    kinds = list(Delivery.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds == ["tickets", "changed"]
    assert len(mailbox.messages()) == 2
    assert buyer.resend(sent.id, 2)
    drain()
    assert Delivery.objects.get(generation=3).file == TicketFile.objects.get(order_version=2)


def foresee(kind: str, args: Any) -> tuple[Effect, str]:
    known = kind_named(kind).foresee
    assert known is not None
    [found] = known([args])
    return found.effect, found.text


def test_a_replay_says_what_it_would_do(
    made: PlacedOrder, mailbox: MailFolder, answers: Answers
) -> None:
    answers(ConnectionRefusedError(111, "refused"))
    drain()
    rename(made)
    changed = "its tickets were changed since, which has an email of its own: nothing will happen"
    assert foresee("email_tickets", OrderArgs(made.id)) == (Effect.NOTHING, changed)
    assert foresee("email_changed_tickets", ChangedArgs(made.id, 1)) == (Effect.NOTHING, changed)
    assert foresee("email_changed_tickets", ChangedArgs(made.id, 2))[1].startswith("the order has")
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    assert foresee("email_changed_tickets", ChangedArgs(made.id, 2))[0] is Effect.SAFE
    drain()
    assert "already done" in foresee("email_changed_tickets", ChangedArgs(made.id, 2))[1]
    services.refund(made.id, "ill", Actor("boxoffice"))
    assert "refunded" in foresee("email_changed_tickets", ChangedArgs(made.id, 3))[1]


def test_a_render_that_was_under_way_is_made_again_with_the_new_name(
    redis: Any, sent: PlacedOrder, mailbox: MailFolder, at_failpoint: Arm
) -> None:
    left = ["Grace Hopper"]

    def meanwhile(place: str) -> None:
        if place == "runner.before_effects/render_tickets" and left:
            rename(sent, left.pop())

    at_failpoint(meanwhile)
    rename(sent, "Eve", 2)
    drain()
    printed = file_text(sent)
    for one in Ticket.objects.all():
        assert one.token in printed
    assert list(TicketFile.objects.values_list("order_version", flat=True)) == [1, 3]
    assert len(mailbox.messages()) == 2
    books_are_in_order()


PLACES = (
    "sending.accepted",
    *(
        f"runner.{place}/{kind}"
        for kind in ("render_tickets", "email_tickets", "email_changed_tickets")
        for place in ("before_effects", "committed")
    ),
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(turns=st.lists(st.tuples(st.integers(0, len(PLACES) - 1), st.booleans()), max_size=5))
def test_wherever_names_change_the_last_email_brings_the_tickets_that_open_the_door(
    mailbox: MailFolder, turns: list[tuple[int, bool]]
) -> None:
    order = buy(new_type(), 2)
    left = [(PLACES[place], twice) for place, twice in turns]

    def meanwhile(place: str) -> None:
        if left and left[0][0] == place and Ticket.objects.filter(order_id=order.id).exists():
            _, twice = left.pop(0)
            for number in range(1 + twice):
                rename(order, f"Holder {len(left)} {number}", number + 1)

    failpoint.arm(meanwhile)
    try:
        drain()
    finally:
        failpoint.arm(None)
    for _ in left:
        rename(order, f"Late {len(left)}")
        drain()
    now = Order.objects.get(pk=order.id)
    emails = Delivery.objects.filter(order=now).order_by("outbox_id")
    newest = [one for one in emails if one.state == "sent"][-1]
    assert newest.file == files.newest_file(now)
    printed = file_text(order)
    assert all(one.token in printed for one in now.tickets.all())
    assert not OutboxRow.objects.filter(subject=f"order:{order.id}").exists()


def test_the_box_office_reads_who_went_by_which_name(
    client: Client, page: str, sent: PlacedOrder
) -> None:
    client.post(f"{page}tickets/2/holder/", {"seen": "1", "name": "Grace Hopper"})
    drain()
    make_group()
    client.force_login(box_office())
    shown = text(client.get(f"/admin/orders/order/{sent.id}/change/"))
    assert "ticket 2: Ada Lovelace → Grace Hopper, request " in shown
    assert "email of the changed tickets, version 2: sent" in shown
    assert "Emailed to buyer@example.org" in shown
    assert ProcessedJob.objects.filter(kind="email_changed_tickets").count() == 1
