"""A file that was deleted because its event is long past, as buyers and the box office see it."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from jobs import subjects
from jobs.outbox import enqueue
from jobs.prognosis import Effect
from jobs.registry import kind_named
from jobs.testing import drain
from orders import announcements
from orders.announcements import Deed, When
from orders.models import Event, Order
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_event, new_type
from tests.web import Answer, open_order, text
from tickets import services
from tickets.files import newest_file, ticket_storage
from tickets.handlers import OrderArgs, ResendArgs
from tickets.models import Delivery, TicketFile
from tickets.services import Actor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]
KEPT_NO_MORE = "We do not keep the tickets of past events"


@pytest.fixture
def order(mailbox: MailFolder) -> PlacedOrder:
    """Emailed; its event was 100 days ago, and its file is deleted."""
    placed = buy(new_type(event=new_event()))
    then = timezone.now() - timedelta(days=100)
    Event.objects.update(starts_at=then)
    drain()
    TicketFile.objects.update(made_at=then)
    for _ in range(2):
        with transaction.atomic():
            enqueue("purge")
        drain()
    assert not TicketFile.objects.exclude(name="").exists()
    return placed


def test_its_buyer_is_told_that_it_is_not_kept(client: Client, order: PlacedOrder) -> None:
    page = open_order(client, order)
    answer: Answer = client.get(page)
    assert 'data-state="deleted"' in text(answer)
    assert KEPT_NO_MORE in text(answer)
    assert "Send it again" not in text(answer)
    assert "http-equiv" not in text(answer), "there is no news to come"
    status: Answer = client.get(f"{page}status/")
    assert (status.json()["state"], status.json()["pdf"]) == ("deleted", None)
    pdf: Answer = client.get(f"{page}tickets.pdf")
    assert (pdf.status_code, KEPT_NO_MORE in text(pdf)) == (410, True)
    form = {"seen": "1"}
    resent: Answer = client.post(f"{page}resend/", form)
    assert resent.status_code == 409
    assert "we do not keep the tickets of past events" in text(resent)


def test_a_download_that_meets_its_deletion_is_told_the_same(
    client: Client, mailbox: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_order(client, buy(new_type()))
    drain()
    storage = ticket_storage()
    opened = type(storage).open

    def late(*args: object) -> object:
        TicketFile.objects.update(deleted_at=timezone.now())
        storage.delete(TicketFile.objects.get().name)
        return opened(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(type(storage), "open", late)
    answer: Answer = client.get(f"{page}tickets.pdf")
    assert (answer.status_code, KEPT_NO_MORE in text(answer)) == (410, True)


def test_staff_sees_when_and_renders_it_again(client: Client, order: PlacedOrder) -> None:
    client.force_login(box_office())
    change = f"/admin/orders/order/{order.id}/change/"
    answer: Answer = client.get(change)
    assert "The file of the tickets was deleted at" in text(answer)
    assert "render again, then resend the email" in text(answer)
    assert "file deleted" in text(answer)
    assert "Resend the email</button>" not in text(answer)
    refused: Answer = client.post(
        f"/admin/orders/order/{order.id}/resend/", {"seen": "1"}, follow=True
    )
    assert "Render it again first, then resend the email." in text(refused)
    client.post(f"/admin/orders/order/{order.id}/render/")
    drain()
    assert newest_file(Order.objects.get()) is not None
    assert "Resend the email</button>" in text(client.get(change))


def test_replays_foresee_that_there_is_no_file(order: PlacedOrder) -> None:
    kind = kind_named("render_tickets")
    assert kind.foresee is not None
    [found] = kind.foresee([OrderArgs(order.id)])
    assert found.effect is Effect.SAFE, "it makes one"
    kind = kind_named("resend_tickets")
    assert kind.foresee is not None
    [found] = kind.foresee([ResendArgs(order.id, 2)])
    assert "render it again first" in found.text
    [about] = subjects.describe([f"order:{order.id}"]).values()
    assert "file ready" not in about.state


def test_an_event_that_takes_place_after_all_has_its_tickets_made_anew(
    order: PlacedOrder, mailbox: MailFolder
) -> None:
    event = Event.objects.get()
    start = timezone.now() + timedelta(days=30)
    later = When(
        starts_local=start.replace(tzinfo=None), starts_fold=None, starts_at=start,
        doors_minutes=30,
    )  # fmt: skip
    assert announcements.move(event.pk, later, Deed(seen=0, by="carla"))
    drain()
    assert newest_file(Order.objects.get()) is not None
    assert sorted(Delivery.objects.values_list("kind", "state")) == [
        ("moved", "sent"), ("tickets", "sent"),
    ]  # fmt: skip
    assert services.resend(order.id, 1, Actor("carla"))
    drain()
    assert len(mailbox.messages()) == 3
