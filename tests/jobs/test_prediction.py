"""When what waits will be done: the sum of what is due over who works, whoever asks."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F

from jobs import holds, prediction, processes
from jobs.capacity import Cost, Fleet, Step
from jobs.job import Job
from jobs.models import KindHold, OutboxRow, Process
from jobs.night import Load, forecast
from jobs.outlook import Outlook, Queued
from jobs.prediction import OVERHEAD, Lately, outlook
from tests.conftest import Register

from .looks import done, put, shift


@dataclass(frozen=True)
class Args:
    number: int


NOW = datetime(2026, 11, 27, 20, 0, tzinfo=UTC)
pytestmark = pytest.mark.django_db(transaction=True)


def seen(*queued: Queued, slots: int = 8, **more: Any) -> Outlook:
    costs = {"render": Cost(4.0), "email": Cost(1.0)}
    return Outlook(at=NOW, queued=queued, costs=costs, fleet=Fleet(slots), **more)


def renders(number: int, seconds_ago: float, **more: Any) -> Queued:
    return Queued(NOW - timedelta(seconds=seconds_ago), "render", number, **more)


# The sum


def test_what_waits_is_done_when_all_slots_have_done_their_part() -> None:
    assert seen(renders(100, 30)).drained_at() == NOW + timedelta(seconds=100 * 4 / 8)
    assert seen().drained_at() == NOW


def test_what_a_job_enqueues_is_counted_in() -> None:
    assert seen(renders(8, 9), then={"render": "email"}).drain_seconds() == 4 + 1
    assert seen(renders(8, 9), then={"render": "render"}).drain_seconds() == 4


def test_it_agrees_with_the_forecast_of_the_same_night() -> None:
    chain = [Step("render", Cost(4.0)), Step("email", Cost(1.0))]
    *_, last = forecast(chain, Load(per_second=400, seconds=1), Fleet(8))
    drained = seen(renders(400, 0), then={"render": "email"}).drain_seconds()
    assert last.at == pytest.approx(drained, rel=0.05)


def test_a_job_waits_for_those_that_came_due_before_it() -> None:
    line = seen(renders(10, 60), renders(6, 20), renders(99, 5), renders(50, 70, bulk=True))
    assert line.seconds_until_done("render", NOW - timedelta(seconds=10)) == 16 * 4 / 8 + 4
    assert line.seconds_until_done("email", NOW - timedelta(seconds=90)) == 1


def test_a_job_waits_for_the_calls_of_its_own_service_and_passes_others() -> None:
    costs = {"render": Cost(4.0), "email": Cost(1.0, service="mail")}
    emails = Queued(NOW - timedelta(seconds=60), "email", 24)
    line = Outlook(at=NOW, queued=[emails], costs=costs, fleet=Fleet.of([8]))
    assert line.seconds_until_done("email", NOW) == 24 / 3 + 1
    assert line.seconds_until_done("render", NOW) == 24 / 8 + 4
    assert line.drain_seconds() == 24 / 3


def test_where_nobody_works_nothing_is_promised() -> None:
    line = seen(renders(1, 5), slots=0)
    assert line.drained_at() is None
    assert line.seconds_until_done("render", NOW) == math.inf


def test_what_is_held_is_not_done_before_its_hold_is_over() -> None:
    tomorrow = NOW + timedelta(days=1)
    assert seen(renders(8, 1), held={"email": tomorrow}).drained_at() == tomorrow
    assert seen(renders(8, 1), held={"email": NOW}).drained_at() == NOW + timedelta(seconds=4)


# The look


@pytest.mark.usefixtures("_eight_slots")
def test_a_kind_that_calls_a_service_is_known_to(kind: Register) -> None:
    @kind("calls", outside="mail")
    def calls(job: Job[Args]) -> None:
        raise NotImplementedError

    done("calls", seconds=2.0)
    now = outlook()
    assert now.costs["calls"] == Cost(2 + OVERHEAD, service="mail")
    assert now.fleet.calls == 3


@pytest.fixture
def _eight_slots() -> None:
    processes.say_alive("worker", "worker-1", "3 of 8 slots busy", 8, 3)


@pytest.mark.usefixtures("_eight_slots")
def test_it_counts_what_is_due_and_what_it_costs() -> None:
    done("drill_row", seconds=2.0, count=3)
    first, *others = put(5)
    for row in others:
        shift("due_at", row, -60)
    now = outlook()
    assert sorted((one.kind, one.number) for one in now.queued) == [
        ("drill_row", 1), ("drill_row", 4)
    ]  # fmt: skip
    assert now.drain_seconds() == pytest.approx(5 * (2 + OVERHEAD) / 8)
    due = OutboxRow.objects.get(pk=first).due_at
    assert now.seconds_until_done("drill_row", due) == pytest.approx((4 / 8 + 1) * (2 + OVERHEAD))


@pytest.mark.usefixtures("_eight_slots")
def test_it_leaves_out_what_is_dead_later_or_held() -> None:
    dead, retried, scheduled, _ = put(4)
    OutboxRow.objects.filter(pk=dead).update(dead_at=F("due_at"))
    shift("available_at", retried, 36_000)
    shift("due_at", scheduled, 60)
    put(2, kind="drill_call")
    until = holds.pause("drill_call", 3600, "moves house", "operator")
    now = outlook()
    assert [(one.kind, one.number) for one in now.queued] == [("drill_row", 1)]
    assert now.drained_at() == now.held["drill_call"] == until


@pytest.mark.usefixtures("_eight_slots")
def test_a_breaker_that_tries_one_job_at_a_time_holds_the_others() -> None:
    holds.trip("drill_row", "the provider is away")
    put(3)
    KindHold.objects.update(until=F("until") - timedelta(hours=1))
    assert outlook().depth == 0


def test_only_slots_of_workers_that_live_and_read_are_counted() -> None:
    processes.say_alive("worker", "one", "", 8, 8)
    processes.say_alive("worker", "paused", "", 0, 3)
    processes.say_alive("relay", "relay", "relaying")
    processes.say_alive("worker", "killed", "", 16, 1)
    gone = timedelta(seconds=3 * settings.JOBS["HEARTBEAT"] + 1)
    Process.objects.filter(name="killed").update(seen_at=F("seen_at") - gone)
    assert outlook().fleet == Fleet.of([8])


# Many who ask


@pytest.fixture
def kept_for_an_hour() -> Iterator[Lately]:
    before = settings.JOBS["OUTLOOK"]
    settings.JOBS["OUTLOOK"] = 3600.0
    yield Lately()
    settings.JOBS["OUTLOOK"] = before


def test_one_look_serves_all_who_ask_within_its_time(kept_for_an_hour: Lately) -> None:
    first = kept_for_an_hour.outlook()
    put(3)
    assert kept_for_an_hour.outlook() is first
    assert first is not None
    assert first.depth == 0


def test_every_job_is_seen_where_looks_are_not_kept() -> None:
    put(3)
    first = prediction.lately()
    assert first is not None
    put(2)
    second = prediction.lately()
    assert second is not None
    assert (first.depth, second.depth) == (3, 5)
