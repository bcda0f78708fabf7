"""Words and addresses are forgotten after a while, emails later; nobody is told twice for it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models import CharField, F, TextField
from django.test import Client
from django.utils import timezone
from redis import Redis

from jobs.models import JobEvent, OutboxRow, ProcessedJob, Purge
from jobs.outbox import enqueue
from jobs.prognosis import Effect
from jobs.registry import kind_named
from jobs.shelves import shelf_named
from jobs.testing import drain, enqueued
from orders.box_office import make_group
from orders.models import Event, Order, TicketType
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_event, new_type
from tests.web import Answer, text
from tickets import buyer, lost_links, notices, services
from tickets.buyer import NewHolder
from tickets.handlers import OrderArgs
from tickets.models import (
    BuyerAct,
    Delivery,
    Email,
    LinkDelivery,
    LostLinkRequest,
    Notice,
    NoticeDelivery,
    Ticket,
    TicketFile,
)
from tickets.services import Actor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]
WORDS = (CharField, TextField)
TIMES = {
    "orders_order": "placed_at", "orders_refund": "requested_at", "orders_event": "starts_at",
    "tickets_ticket": "issued_at", "tickets_ticketfile": "made_at",
    "tickets_delivery": "first_try_at", "tickets_noticedelivery": "first_try_at",
    "tickets_notice": "made_at", "tickets_linkdelivery": "first_try_at",
    "tickets_lostlinkrequest": "asked_at", "tickets_buyeract": "at",
    "jobs_processed": "processed_at", "jobs_outbox": "created_at", "jobs_event": "at",
}  # fmt: skip


@pytest.fixture
def kind(mailbox: MailFolder) -> TicketType:
    return new_type(event=new_event(title="Nachtkonzert"), name="Parkett")


def pass_days(days: int) -> None:
    """All that there is was so many days earlier."""
    with connection.cursor() as cursor:
        for table, column in TIMES.items():
            cursor.execute(f"UPDATE {table} SET {column} = {column} - make_interval(days => %s)",
                           [days])  # fmt: skip
        cursor.execute("UPDATE jobs_processed SET created_at = processed_at")


def purge() -> None:
    for _ in range(2):
        with transaction.atomic():
            enqueue("purge")
        drain()


def foreseen(order_id: int) -> Any:
    known = kind_named("email_tickets").foresee
    assert known is not None
    [found] = known([OrderArgs(order_id)])
    return found


def email_again(order_id: int) -> None:
    with transaction.atomic():
        enqueue("email_tickets", order_id=order_id)
    drain()


def test_words_and_address_go_after_90_days_and_the_story_stays(
    redis: Redis, client: Client, kind: TicketType, mailbox: MailFolder
) -> None:
    [first, second] = [buy(kind, email=f"b{turn}@example.org") for turn in (1, 2)]
    drain()
    pass_days(89)
    purge()
    assert not Delivery.objects.exclude(masked_at=None).exists()
    pass_days(2)
    purge()
    for one in Delivery.objects.all():
        assert (one.text, one.html, one.calendar, one.message_id) == ("", "", "", "")
        assert "@" not in one.recipient + one.idempotency_key
        assert (one.state, one.subject[:12]) == ("sent", "Your tickets")
    email_again(first.id)
    assert len(mailbox.messages()) == 2
    client.force_login(box_office())
    answer: Answer = client.get(f"/admin/orders/order/{second.id}/change/")
    assert "an address that was forgotten" in text(answer)
    assert "forgotten-" not in text(answer)
    assert Purge.objects.get(shelf="email words").rows == 2
    purge()
    assert Purge.objects.get(shelf="email words").rows == 2
    books_are_in_order()


def test_an_email_that_may_still_be_tried_keeps_its_words_and_without_them_it_is_dead(
    kind: TicketType, mailbox: MailFolder
) -> None:
    order = buy(kind)
    drain()
    Delivery.objects.update(state="queued", settled_at=None)
    job = OutboxRow.objects.filter(pk=_dead_email(order.id))
    Delivery.objects.update(outbox_id=job.get().pk)
    pass_days(91)
    purge()
    assert Delivery.objects.get().text
    job.delete()
    purge()
    assert not Delivery.objects.get().text
    assert foreseen(order.id).effect is Effect.IMPOSSIBLE
    email_again(order.id)
    assert "forgotten" in OutboxRow.objects.get().dead_reason
    assert len(mailbox.messages()) == 1


def _dead_email(order_id: int) -> int:
    with transaction.atomic():
        pk = enqueue("email_tickets", order_id=order_id)
        OutboxRow.objects.filter(pk=pk).update(dead_at=timezone.now())
    return pk


def test_after_400_days_emails_and_jobs_go_and_the_books_are_in_order(
    redis: Redis, kind: TicketType, mailbox: MailFolder
) -> None:
    whole, part, stays = (buy(kind, 2) for _ in range(3))
    drain()
    services.refund(whole.id, "ill", Actor("carla"))
    services.refund(part.id, "ill", Actor("carla"), seqs=[1])
    drain()
    with transaction.atomic():
        again = enqueue("resend_tickets", order_id=stays.id, generation=2)
        BuyerAct.objects.create(order_id=stays.id, what="resend", note="", order_version=1,
                                outbox_id=again, request_id="")  # fmt: skip
    drain()
    books_are_in_order()
    pass_days(500)
    books_are_in_order()
    ProcessedJob.objects.all().delete()
    with pytest.raises(AssertionError, match="every ticket has the processed row"):
        books_are_in_order()
    Purge.objects.create(shelf="processed", until=timezone.now() - timedelta(days=400))
    purge()
    assert not Delivery.objects.exists()
    assert (Order.objects.count(), Ticket.objects.count()) == (3, 6)
    books_are_in_order()


def test_of_an_event_to_come_it_stays_known_who_was_told(
    kind: TicketType, mailbox: MailFolder
) -> None:
    order = buy(kind)
    drain()
    pass_days(500)
    Event.objects.update(starts_at=timezone.now() + timedelta(days=3))
    purge()
    assert Delivery.objects.count() == 1
    email_again(order.id)
    assert len(mailbox.messages()) == 1


def test_a_file_made_again_for_an_event_long_past_is_emailed_to_nobody(
    kind: TicketType, mailbox: MailFolder
) -> None:
    order = buy(kind)
    drain()
    pass_days(500)
    purge()
    TicketFile.objects.all().delete()
    services.render_again(order.id, Actor("carla"))
    drain()
    assert TicketFile.objects.exists()
    assert len(mailbox.messages()) == 1


def test_lost_links_are_gone_after_90_days(redis: Redis, kind: TicketType) -> None:
    buy(kind, email="ada@example.org")
    drain()
    lost_links.ask("ada@example.org")
    lost_links.ask("nobody@example.org")
    drain()
    lost_links.ask("late@example.org")
    pass_days(91)
    purge()
    assert not LinkDelivery.objects.exists()
    assert not LostLinkRequest.objects.exists()
    books_are_in_order()


def test_a_link_that_is_still_to_be_answered_is_kept(kind: TicketType) -> None:
    lost_links.ask("late@example.org")
    OutboxRow.objects.update(dead_at=timezone.now())
    pass_days(91)
    purge()
    assert LostLinkRequest.objects.count() == 1


KEPT = {"subject", "state", "provider_id", "bounce", "kind"}
"""Words of an email that name nobody."""


@pytest.mark.parametrize(
    ("name", "model"), [("email words", Delivery), ("notice words", NoticeDelivery)]
)
def test_each_word_of_an_email_is_masked_or_kept_on_purpose(name: str, model: type[Email]) -> None:
    shelf = shelf_named(name)
    assert shelf is not None
    words = {one.attname for one in model._meta.concrete_fields if isinstance(one, WORDS)}
    assert set(re.findall(r"(\w+) = '", shelf.change)) == words - KEPT


def test_who_a_ticket_was_for_before_is_forgotten_and_that_it_changed_is_not(
    client: Client, kind: TicketType, mailbox: MailFolder
) -> None:
    order = buy(kind)
    drain()
    buyer.rename(order.id, NewHolder(1, 1, "Grace: Hopper"))
    drain()
    pass_days(89)
    purge()
    assert BuyerAct.objects.get().note == "ticket 1: Ada Lovelace → Grace: Hopper"
    pass_days(2)
    purge()
    act = BuyerAct.objects.get()
    assert act.note == "ticket 1: another name (the names were forgotten)"
    purge()
    assert BuyerAct.objects.get().masked_at == act.masked_at
    books_are_in_order()


def test_what_errors_quote_is_forgotten_once_the_job_is_not_needed(kind: TicketType) -> None:
    quoted = "IntegrityError: DETAIL: Failing row contains (Ada: Lovelace)"
    dead, discarded = _dead_email(1), _dead_email(2)
    words = {"last_error": quoted, "traceback": quoted, "dead_reason": f"5 failed runs: {quoted}"}
    OutboxRow.objects.update(**words)
    OutboxRow.objects.filter(pk=discarded).update(discarded_at=timezone.now())
    for pk in (dead, discarded, 4711):
        for what in ("failed", "tried later", "buried", "discarded"):
            JobEvent.objects.create(outbox_id=pk, what=what, by="w", note=quoted)
    pass_days(91)
    OutboxRow.objects.filter(pk=discarded).update(discarded_at=F("created_at"))
    purge()
    for pk in (discarded, 4711):
        notes = JobEvent.objects.filter(outbox_id=pk).order_by("pk").values_list("note", flat=True)
        assert list(notes) == ["IntegrityError"] * 3 + [quoted], "a person's own words stay"
    assert set(JobEvent.objects.filter(outbox_id=dead).values_list("note", flat=True)) == {quoted}
    row = OutboxRow.objects.get(pk=discarded)
    assert (row.last_error, row.traceback, row.dead_reason) == ("", "", "5 failed runs")
    assert OutboxRow.objects.filter(pk=dead, **words).exists(), "somebody is to look at it"


def test_what_a_dead_job_may_still_send_keeps_its_words(mailbox: MailFolder) -> None:
    user = User.objects.create_user("carla", "carla@shop.example")
    user.groups.add(Group.objects.get_or_create(name="reports")[0])
    with transaction.atomic():
        notices.tell_sales(timezone.now().date(), [], 1)
    lost_links.ask("ada@example.org")
    OutboxRow.objects.update(dead_at=timezone.now())
    told = {"state": "queued", "text": "words", "first_try_at": timezone.now()}
    by_kind = dict(OutboxRow.objects.values_list("kind", "pk"))
    NoticeDelivery.objects.create(
        notice=Notice.objects.get(), recipient=user.email, outbox_id=by_kind["email_staff"], **told
    )
    LinkDelivery.objects.create(
        asked=LostLinkRequest.objects.get(), recipient="ada@example.org", order_ids=[],
        idempotency_key="x", outbox_id=by_kind["email_links"], **told,
    )  # fmt: skip
    pass_days(91)
    purge()
    for model in (NoticeDelivery, LinkDelivery):
        assert [one.text for one in model._default_manager.all()] == ["words"]
    OutboxRow.objects.update(discarded_at=timezone.now())
    purge()
    assert NoticeDelivery.objects.get().text == ""
    assert not LinkDelivery.objects.exists()


def test_nobody_may_still_need_the_address_of_a_job_that_was_discarded(kind: TicketType) -> None:
    order = buy(kind)
    drain()
    Delivery.objects.update(outbox_id=_dead_email(order.id))
    lost_links.ask("late@example.org")
    OutboxRow.objects.update(dead_at=timezone.now(), discarded_at=timezone.now())
    pass_days(91)
    purge()
    assert not Delivery.objects.filter(masked_at=None).exists()
    assert not LostLinkRequest.objects.exists()
    assert OutboxRow.objects.count() == 2, "that it was discarded is known for longer"


def test_a_notice_is_told_to_nobody_once_it_is_forgotten_who_was(mailbox: MailFolder) -> None:
    make_group()
    user = User.objects.create_user("carla", "carla@shop.example")
    user.groups.add(Group.objects.get(name="reports"))
    with transaction.atomic():
        notices.tell_sales(timezone.now().date(), [], 1)
    drain()
    pass_days(91)
    purge()
    assert NoticeDelivery.objects.get().shown_recipient == "an address that was forgotten"
    notice = Notice.objects.get()
    with transaction.atomic():
        enqueue("email_staff", notice_id=notice.pk, user_id=user.pk)
    drain()
    # Not by the mailbox alone: it knows the key for longer than a provider does.
    assert (NoticeDelivery.objects.count(), len(mailbox.messages())) == (1, 1)
    pass_days(400)
    purge()
    assert not NoticeDelivery.objects.exists()
    assert not Notice.objects.exists()
    assert enqueued("email_staff") == []
