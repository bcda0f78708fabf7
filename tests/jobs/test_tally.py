"""The count of what is not done: one scan, which a relay keeps for all where it is large."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F

from jobs import relay, tally
from jobs.models import KeptTally, OutboxRow
from jobs.stream import Letters, RelayStream, StreamAway
from jobs.tally import KEPT, State, Tally

from .looks import CLOSED, put

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _three_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "LARGE", 3)


def numbers(found: Tally) -> dict[str, int]:
    return {rows.kind: rows.number for rows in found.of(State.DUE)}


def test_many_rows_are_counted_by_a_relay_for_all() -> None:
    put(3)
    assert relay.Pressure().room()
    put(2, "drill_call")
    assert numbers(tally.lately()) == {"drill_row": 3}
    assert numbers(tally.count()) == {"drill_row": 3, "drill_call": 2}


def test_few_rows_are_counted_by_whoever_asks() -> None:
    put(2)
    assert relay.Pressure().room()
    OutboxRow.objects.all().delete()
    assert numbers(tally.lately()) == {}


def test_a_relay_that_counts_few_keeps_no_older_count_of_many() -> None:
    put(3)
    assert relay.Pressure().room()
    OutboxRow.objects.all().delete()
    assert relay.Pressure().room()
    assert numbers(tally.lately()) == {}


def test_a_count_of_a_relay_that_counts_no_more_is_not_told() -> None:
    put(3)
    assert relay.Pressure().room()
    OutboxRow.objects.all().delete()
    assert numbers(tally.lately()) == {"drill_row": 3}
    KeptTally.objects.update(at=F("at") - timedelta(seconds=KEPT))
    assert numbers(tally.lately()) == {}


def test_a_count_of_the_future_is_not_told() -> None:
    put(3)
    assert relay.Pressure().room()
    OutboxRow.objects.all().delete()
    KeptTally.objects.update(at=F("at") + timedelta(hours=1))
    assert numbers(tally.lately()) == {}


def test_the_newest_count_is_the_one_that_is_kept() -> None:
    for _ in range(2):
        put(3)
        assert relay.Pressure().room()
    assert numbers(tally.lately()) == {"drill_row": 6}


def test_a_relay_counts_also_while_redis_is_away() -> None:
    put(3)
    made = relay.Relay(RelayStream(CLOSED), Letters(CLOSED))
    with pytest.raises(StreamAway):
        made._turn()
    made._close_listener()
    assert KeptTally.objects.exists()


def test_a_count_sorts_no_rows() -> None:
    put(3)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {tally.COUNT}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "HashAggregate" in plan
    assert "Sort" not in plan
