"""What was there before a migration is told as it was."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone

from jobs.models import ProcessedJob
from jobs.testing import drain
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets.models import Delivery, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)


def migrate(to: str) -> None:
    call_command("migrate", "tickets", to, verbosity=0)


@pytest.fixture
def old(mailbox: MailFolder) -> Iterator[PlacedOrder]:
    """An order of yesterday, in the tables as they were then."""
    order = buy(new_type())
    drain()
    ProcessedJob.objects.update(processed_at=timezone.now() - timedelta(days=1))
    migrate("0001")
    yield order
    call_command("migrate", verbosity=0)


def test_a_file_was_made_when_its_job_was_done(old: PlacedOrder) -> None:
    migrate("0003")
    job = ProcessedJob.objects.get(kind="render_tickets")
    assert TicketFile.objects.values_list("made_at", flat=True).get() == job.processed_at


def test_a_file_without_its_job_was_made_by_now(old: PlacedOrder) -> None:
    ProcessedJob.objects.all().delete()
    migrate("0003")
    assert timezone.now() - TicketFile.objects.values_list("made_at", flat=True).get() < timedelta(
        minutes=5
    )


@pytest.mark.parametrize(
    ("window", "state", "expected"),
    [
        (0, "queued", ("uncertain", 1)),
        (0, "uncertain", ("uncertain", 1)),
        (0, "sent", ("sent", 0)),
        (24 * 3600, "queued", ("queued", 1)),
        (24 * 3600, "sent", ("sent", 0)),
    ],
)
def test_an_email_that_was_begun_without_a_key_may_have_been_taken(
    old: PlacedOrder, window: int, state: str, expected: tuple[str, int]
) -> None:
    Delivery.objects.update(state=state)
    with override_settings(MAIL_KEY_WINDOW=window):
        call_command("migrate", verbosity=0)
    found = Delivery.objects.get()
    assert (found.state, found.tries) == expected
    assert found.called_at == (found.first_try_at if found.tries else None)
