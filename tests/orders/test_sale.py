"""A sale opens and closes by the clock alone: nothing has to run for it, and nothing is missed."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import OutboxRow, Process, ScheduledRun
from orders.models import Event, Order
from tests.people import new_type
from tests.web import filled, text

pytestmark = pytest.mark.django_db(transaction=True)
OPENS = datetime(2031, 3, 30, 0, 59, 59, tzinfo=UTC)
CLOSES = datetime(2031, 10, 26, 1, 30, tzinfo=UTC)
A_MOMENT = timedelta(microseconds=1)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Move the clock of the web part there, forward or back."""
    return lambda moment: monkeypatch.setattr(timezone, "now", lambda: moment)


def test_a_sale_opens_and_closes_by_the_clock_alone(
    client: Client, at: Callable[[datetime], None]
) -> None:
    kind = new_type(
        event__sale_opens_at=OPENS,
        event__sale_closes_at=CLOSES,
        event__starts_local=datetime(2031, 11, 1, 20, 0),  # noqa: DTZ001 (a clock on the wall)
    )
    stored = Event.objects.values().get()

    def shown() -> list[str]:
        """What list and page say, and how the order form is answered."""
        pages = [text(client.get(path)) for path in ("/", f"/events/{kind.event.slug}/")]
        said = [words for words in WORDS if any(words in page for page in pages)]
        return [*said, f"{client.post('/orders/', form).status_code}"]

    at(OPENS)
    form = filled(client, kind)
    at(OPENS - A_MOMENT)
    assert shown() == [">On sale from ", "The sale opens on 30 March 2031 at 01:59", "409"]
    assert not Order.objects.exists()
    at(OPENS)
    assert shown() == [">On sale<", 'action="/orders/"', "303"]
    at(CLOSES - A_MOMENT)
    form = filled(client, kind)
    assert shown() == [">On sale<", 'action="/orders/"', "303"]
    form = filled(client, kind)
    at(CLOSES)
    assert shown() == [">Sale closed<", "The sale for this event has closed", "409"]
    assert Order.objects.count() == 2
    # Nobody was at work, nothing was waiting to be done, and nothing has changed the event.
    assert not Process.objects.exists()
    assert not ScheduledRun.objects.exists()
    assert set(OutboxRow.objects.values_list("kind", flat=True)) == {"render_tickets"}
    assert Event.objects.values().get() == stored


WORDS = [
    ">On sale from ", ">On sale<", ">Sale closed<",
    "The sale opens on 30 March 2031 at 01:59", 'action="/orders/"',
    "The sale for this event has closed",
]  # fmt: skip
