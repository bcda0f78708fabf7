"""Held kinds with real processes: what is broken waits, all else flows, nothing is lost."""

import signal
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum

from jobs import holds
from jobs.models import KindHold, OutboxRow, ProcessedJob
from tests.cuts import Cut
from tests.processes import duration, wait_for
from tests.recovery.conftest import Drill

HOUR = 3600.0


@pytest.fixture(autouse=True)
def _short_holds(settings: Any) -> None:
    """What this process holds is held as shortly as what the workers hold."""
    bounds = {"HOLD_MIN": duration("HOLD_MIN"), "HOLD_MAX": duration("HOLD_MAX")}
    settings.JOBS = {**settings.JOBS, **bounds}


def held_by() -> dict[str, str]:
    return dict(KindHold.objects.values_list("kind", "by"))


def test_a_provider_that_is_away_holds_its_kind_and_nobody_else(drill: Drill) -> None:
    for name in ("one", "two"):
        drill.product.plain_worker(name)
    calls = drill.put(60, kind="drill_call")
    wait_for(held_by, "the breaker")
    assert held_by() == {"drill_call": KindHold.BREAKER}
    others = drill.put(100)
    wait_for(lambda: drill.effects() == others, "the other kind")
    wait_for(lambda: KindHold.objects.filter(level__gte=2).exists(), "two failed probes")
    tried = OutboxRow.objects.aggregate(n=Sum("attempts"))["n"]
    assert tried < 60 + 40, "one try of each, and of most no second one"
    drill.mend()
    drill.all_done_once([*calls, *others])
    assert held_by() == {}
    assert drill.dead() == {}
    assert max(ProcessedJob.objects.values_list("attempts", flat=True)) < 10


def test_a_worker_killed_in_the_middle_of_a_probe_blocks_its_kind_for_a_take_over(
    drill: Drill,
) -> None:
    holds.trip("drill_call", "the provider is away")
    jobs = drill.put(4, kind="drill_call", ms=60_000)
    first = drill.product.plain_worker("one")
    first.wait_until_it_runs("drill_call")
    first.signal(signal.SIGKILL)
    first.ended()
    second = drill.product.plain_worker("two")
    second.wait_until_it_runs("drill_call")
    assert drill.published() == 1, "one probe at a time, whoever runs it"
    drill.mend()
    drill.open_gate()
    drill.all_done_once(jobs)
    assert held_by() == {}


@pytest.mark.parametrize(
    "place",
    ["runner.committed/drill_call", "runner.failure_counted/drill_call", "acknowledger.before"],
)
def test_a_probe_whose_worker_dies_after_its_outcome_is_followed_by_another(
    place: str, drill: Drill, tmp_path: Path
) -> None:
    """The hold is neither lifted nor doubled by it: the next probe decides."""
    holds.trip("drill_call", "the provider is away")
    jobs = drill.put(4, kind="drill_call")
    if place == "runner.committed/drill_call":
        drill.mend()
    cut = Cut(place, tmp_path / "mark")
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    assert held_by() == {"drill_call": KindHold.BREAKER}
    drill.mend()
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)
    assert held_by() == {}


def test_a_paused_kind_finishes_what_runs_and_starts_nothing(drill: Drill) -> None:
    running = drill.put(4, ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row", 4)
    holds.pause("drill_row", HOUR, "looking", "ada")
    waiting = drill.put(10)
    drill.mend()
    [other] = drill.put(kind="drill_call")
    wait_for(lambda: drill.effects() == [other], "the other kind, published after them")
    drill.open_gate()
    wait_for(lambda: drill.effects() == sorted([*running, other]), "what ran")
    wait_for(lambda: drill.pending() == 0, "nothing pending")
    assert drill.published() == 5
    holds.resume("drill_row")
    drill.all_done_once([*running, *waiting, other])
    assert drill.attempts() == {0}


def test_what_lay_on_the_stream_when_its_kind_was_paused_goes_back_to_the_outbox(
    drill: Drill,
) -> None:
    first = drill.put(2, ms=60_000)
    worker = drill.product.plain_worker("one", "--slots", "2")
    worker.wait_until_it_runs("drill_row", 2)
    waiting = drill.put(30)
    drill.wait_until_published(32)
    holds.pause("drill_row", HOUR, "looking", "ada")
    drill.open_gate()
    unpublished = OutboxRow.objects.filter(relayed_at__isnull=True, entry_id__isnull=True)
    wait_for(lambda: unpublished.count() == 30, "all of them back")
    wait_for(lambda: drill.pending() == 0, "nothing pending")
    assert drill.effects() == first
    holds.resume("drill_row")
    drill.all_done_once([*first, *waiting])
    assert drill.attempts() == {0}
    assert drill.published() == 62


def test_a_worker_killed_between_putting_back_and_acknowledging(
    drill: Drill, tmp_path: Path
) -> None:
    """The entry comes again, and is no longer the row's: it is acknowledged, nothing else."""
    jobs = drill.put(4)
    drill.wait_until_published(4)
    holds.pause("drill_row", HOUR, "looking", "ada")
    cut = Cut("acknowledger.before", tmp_path / "mark")
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    assert drill.pending() == 4
    drill.product.plain_worker("one")
    wait_for(lambda: drill.pending() == 0, "all acknowledged")
    holds.resume("drill_row")
    drill.all_done_once(jobs)
    assert drill.published() == 8


def test_a_pause_ends_by_itself_at_its_time(drill: Drill) -> None:
    holds.pause("drill_row", 1.0, "a moment", "ada")
    jobs = drill.put(5)
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)
    wait_for(lambda: held_by() == {}, "the hold to be forgotten")


def test_redis_lost_while_a_kind_is_held_publishes_nothing_of_it(drill: Drill) -> None:
    holds.pause("drill_row", HOUR, "looking", "ada")
    jobs = drill.put(10)
    drill.redis.flushall()
    drill.mend()
    drill.product.plain_worker("one")
    [other] = drill.put(kind="drill_call")
    wait_for(lambda: drill.effects() == [other], "the other kind")
    assert drill.published() == 1
    holds.resume("drill_row")
    drill.all_done_once([*jobs, other])


def test_the_server_of_the_hold_is_restarted_and_it_is_still_there(drill: Drill) -> None:
    """A hold is a row: no process that restarts forgets it, and none needs to be told."""
    holds.pause("drill_row", HOUR, "looking", "ada")
    jobs = drill.put(3)
    drill.product.started[0].kill()
    drill.product.relay()
    worker = drill.product.plain_worker("one")
    worker.wait_until_said("is ready")
    drill.mend()
    [other] = drill.put(kind="drill_call")
    wait_for(lambda: drill.effects() == [other], "the other kind")
    assert drill.published() == 1
    holds.resume("drill_row")
    drill.all_done_once([*jobs, other])
