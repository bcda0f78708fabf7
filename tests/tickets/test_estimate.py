"""What an order's page says of the wait: the arithmetic of the queue, in a buyer's words."""

import json
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from jobs import holds, prediction, processes
from jobs.models import OutboxRow
from jobs.testing import drain
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.jobs.looks import done
from tests.people import buy, new_type
from tests.web import open_order, text
from tickets.estimate import sentence

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""), (0, "in a few seconds."), (15, "in a few seconds."), (16, "within a minute."),
        (60, "within a minute."), (61, "in about 2 minutes."), (5400, "in about 90 minutes."),
        (5401, ""),
    ],
)  # fmt: skip
def test_a_wait_is_told_in_words_or_not_at_all(seconds: float | None, words: str) -> None:
    assert sentence("placed", seconds) == (words and f"Your tickets will be ready {words}")


@pytest.fixture
def placed() -> PlacedOrder:
    """The last of 61 orders, before workers of 8 slots that took 20 s for each render lately."""
    kind = new_type()
    for _ in range(60):
        buy(kind)
    OutboxRow.objects.update(due_at=F("due_at") - timedelta(minutes=1))
    done("render_tickets", seconds=20)
    processes.say_alive("worker", "worker-1", "8 of 8 slots busy", 8, 8)
    return buy(kind)


@pytest.fixture
def page(client: Client, placed: PlacedOrder) -> str:
    return open_order(client, placed)


def estimate(client: Client, page: str) -> str:
    """What the script is told; without it the page says the same."""
    told = str(json.loads(client.get(f"{page}status/").content)["estimate"])
    shown = text(client.get(page)).split("data-estimate", 1)[1].split("</p>")[0]
    assert shown == (f">{told}" if told else " hidden>")
    return told


def test_the_page_says_what_the_arithmetic_says(
    client: Client, page: str, placed: PlacedOrder
) -> None:
    seconds = prediction.seconds_left(f"order:{placed.id}", "render_tickets")
    assert seconds == pytest.approx(60 * 20 / 8 + 20, rel=0.01)
    assert estimate(client, page) == "Your tickets will be ready in about 3 minutes."


def test_two_more_workers_shorten_the_wait(client: Client, page: str) -> None:
    for name in ("two", "three"):
        processes.say_alive("worker", name, "8 of 8 slots busy", 8, 8)
    assert estimate(client, page) == "Your tickets will be ready in about 2 minutes."


def test_without_a_worker_nothing_is_promised(client: Client, page: str) -> None:
    processes.say_gone("worker", "worker-1")
    assert estimate(client, page) == ""


def test_of_a_job_that_failed_or_is_held_nothing_is_promised(client: Client, page: str) -> None:
    holds.pause("render_tickets", 600, "moves house", "operator")
    assert estimate(client, page) == ""
    holds.resume("render_tickets")
    assert estimate(client, page) != ""
    OutboxRow.objects.update(available_at=timezone.now() + timedelta(minutes=5))
    assert estimate(client, page) == ""


def test_when_the_tickets_are_ready_the_email_is_told_of(
    client: Client, page: str, mailbox: MailFolder
) -> None:
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    assert estimate(client, page).startswith("The email goes out ")
    drain()
    assert estimate(client, page) == ""
