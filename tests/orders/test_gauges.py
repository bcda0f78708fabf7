"""The doors beside the predicted end of the queue: what an alert compares."""

from datetime import timedelta
from typing import Any

import pytest
import redis as redis_client
from django.utils import timezone

from jobs import processes
from jobs.gauges import Looker
from jobs.gauges.collector import families
from orders.models import EventStatus
from tests.jobs.looks import put
from tests.people import new_event

pytestmark = pytest.mark.django_db(transaction=True)
DOORS = "stagedoor_doors_open_timestamp_seconds"
DRAINED = "stagedoor_drain_predicted_timestamp_seconds"


@pytest.fixture(autouse=True)
def _clean(redis: redis_client.Redis) -> None:
    """A stream without entries."""


def told(looker: Looker, name: str) -> list[float]:
    [family] = [one for one in families(looker.look()) if one.name == name]
    return [sample.value for sample in family.samples]


def starts_in(hours: float, **changes: Any) -> Any:
    local = timezone.now().replace(tzinfo=None, microsecond=0) + timedelta(hours=hours)
    closes = timezone.now() - timedelta(seconds=1)
    times = {"sale_opens_at": closes - timedelta(days=1), "sale_closes_at": closes}
    return new_event(tz="UTC", starts_local=local, **times, **changes)


def test_the_next_doors_are_those_of_an_event_that_takes_place(looker: Looker) -> None:
    assert told(looker, DOORS) == []
    starts_in(2, status=EventStatus.DRAFT)
    starts_in(3, status=EventStatus.CANCELLED)
    starts_in(0.5, doors_minutes=60)
    starts_in(9, doors_minutes=60)
    next_one = starts_in(5, doors_minutes=90, status=EventStatus.CLOSED)
    assert told(looker, DOORS) == [(next_one.starts_at - timedelta(minutes=90)).timestamp()]


def test_the_queue_ends_never_without_a_worker_and_soon_with_one(looker: Looker) -> None:
    put(20)
    assert told(looker, DRAINED) == [float("inf")]
    processes.say_alive("worker", "worker-1", "x", 8, 0)
    [drained] = told(looker, DRAINED)
    assert 0 < drained - timezone.now().timestamp() < 60
