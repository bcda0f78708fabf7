"""Held kinds: left in the outbox, put back by workers, let go by probes or by a person."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from jobs import holds, metrics, outbox, publishing, relay, rows
from jobs.breaker import Breaker
from jobs.gauges import Looker
from jobs.gauges.collector import families
from jobs.job import Job
from jobs.models import JobEvent, KindHold, OutboxRow, ProcessedJob, What
from jobs.policy import GiveUp, Policy, TryLater
from jobs.registry import Kind, kind_named
from jobs.runner import Outcome
from jobs.slot import Slot
from jobs.stream import Entry, Letters, RelayStream
from tests.conftest import Arm, Register
from tests.line import Line
from tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Args:
    number: int


class Provider:
    """What the handlers of these tests call: it fails with `error`, if there is one."""

    error: BaseException | None = None

    def call(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def provider(kind: Register) -> Provider:
    """The kinds `mail` (held after 3 failures in a row), `idle` and `other`."""
    made = Provider()

    @kind("mail", policy=Policy(attempts=50, base=0, cap=0, hold_after=3, deadline=100))
    def mail(job: Job[Args]) -> None:
        made.call()
        with job.effects():
            pass

    @kind("idle", policy=Policy(hold_after=3))
    def idle(job: Job[Args]) -> None:
        with job.effects():
            job.nothing_to_do()

    @kind("other")
    def other(job: Job[Args]) -> None:
        with job.effects():
            pass

    return made


@pytest.fixture
def line(redis: Any, provider: Provider) -> Line:
    return Line(redis)


NUMBERS = itertools.count(1)


def slot(name: str = "mail", *, hold_after: int = 3, probe: bool = False, job_id: int = 0) -> Slot:
    """A slot of a job of that kind, another one each time, with an error to tell."""
    kind: Kind[Args] = Kind(
        name=name, args_type=Args, policy=Policy(hold_after=hold_after), handle=lambda _: None
    )
    number = job_id or next(NUMBERS)
    job = Job(kind=name, args=Args(1), outbox_id=number, request_id="", trace="")
    return Slot(Entry("1-1", []), job, kind, probe=probe, error="Away: no answer")


def seconds_left(kind: str = "mail") -> float:
    """How long the kind is held from now on, by the database's clock; negative: over."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM until - statement_timestamp())::float8"
            " FROM jobs_kind_hold WHERE kind = %s",
            [kind],
        )
        return float(cursor.fetchone()[0])


def lasts(seconds: float, kind: str = "mail") -> bool:
    return seconds - 5 < seconds_left(kind) <= seconds


def make_over(kind: str = "mail") -> None:
    """The time of its hold has passed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_kind_hold SET until = statement_timestamp() - interval '1 ms'"
            " WHERE kind = %s",
            [kind],
        )


def held() -> dict[str, str]:
    """Kind and holder of every hold there is, over or not."""
    return dict(KindHold.objects.values_list("kind", "by"))


def fail(breaker: Breaker, times: int = 1, **about: Any) -> None:
    for _ in range(times):
        breaker.failed(slot(**about))


# The breaker


def test_a_kind_that_fails_so_often_in_a_row_is_held() -> None:
    breaker = Breaker()
    fail(breaker, 2)
    assert held() == {}
    fail(breaker)
    hold = KindHold.objects.get()
    assert (hold.kind, hold.by, hold.reason, hold.level) == (
        "mail", KindHold.BREAKER, "Away: no answer", 0,
    )  # fmt: skip
    assert lasts(30)


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker()
    fail(breaker, 2)
    breaker.succeeded(slot())
    fail(breaker, 2)
    assert held() == {}


def test_one_job_alone_never_holds_its_kind() -> None:
    """However often it fails: it may be its own fault."""
    breaker = Breaker()
    fail(breaker, 50, job_id=7)
    fail(breaker, job_id=8)
    assert held() == {}
    fail(breaker, job_id=9)
    assert held() == {"mail": KindHold.BREAKER}


def test_kinds_are_counted_apart() -> None:
    breaker = Breaker()
    fail(breaker, 2)
    fail(breaker, 2, name="other")
    breaker.succeeded(slot(name="other"))
    fail(breaker)
    assert held() == {"mail": KindHold.BREAKER}


def test_workers_count_apart_and_each_finds_out() -> None:
    one, two = Breaker(), Breaker()
    fail(one, 2)
    fail(two, 2)
    assert held() == {}


def test_a_kind_that_is_never_held_says_so_by_zero() -> None:
    fail(Breaker(), 50, hold_after=0)
    fail(Breaker(), 50, hold_after=0, probe=True)
    assert held() == {}


def test_each_failed_probe_doubles_the_hold_up_to_ten_minutes() -> None:
    breaker = Breaker()
    fail(breaker, 3)
    since = KindHold.objects.get().since
    for seconds in (60, 120, 240, 480, 600, 600):
        make_over()
        fail(breaker, probe=True)
        assert lasts(seconds)
    assert KindHold.objects.get().since == since
    KindHold.objects.update(level=2_000_000_000)
    make_over()
    fail(breaker, probe=True)
    assert lasts(600), "a number that long holds make does not overflow"


def test_the_bounds_are_settings(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "HOLD_MIN": 7.0, "HOLD_MAX": 10.0}
    breaker = Breaker()
    fail(breaker, 3)
    assert lasts(7)
    make_over()
    fail(breaker, probe=True)
    assert lasts(10)


def test_a_hold_in_force_is_not_prolonged_by_what_was_running() -> None:
    """Eight slots of three workers fail within the same second: that is one time."""
    breakers = [Breaker() for _ in range(3)]
    fail(breakers[0], 3)
    before = KindHold.objects.get()
    for breaker in breakers:
        fail(breaker, 8)
    fail(breakers[0], probe=True)
    after = KindHold.objects.get()
    assert (after.until, after.level, after.since) == (before.until, 0, before.since)


def test_a_released_kind_starts_over() -> None:
    breaker = Breaker()
    fail(breaker, 3)
    make_over()
    fail(breaker, probe=True)
    make_over()
    breaker.succeeded(slot(probe=True))
    assert held() == {}
    fail(breaker, 2)
    assert held() == {}
    fail(breaker)
    assert lasts(30)


def in_threads(work: Callable[[], object], number: int) -> None:
    """Run it in so many threads at once, each with a database connection of its own."""
    together = threading.Barrier(number, timeout=30)

    def one() -> None:
        try:
            together.wait()
            work()
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_slots_that_fail_at_once_are_counted_exactly_and_hold_once() -> None:
    breaker = Breaker()
    before = metrics.BREAKER_TRIPS.labels("mail")._value.get()
    in_threads(lambda: fail(breaker, hold_after=9), 8)
    assert held() == {}
    fail(breaker, hold_after=9)
    in_threads(lambda: fail(breaker, 5, hold_after=4), 8)
    assert KindHold.objects.get().level == 0
    assert metrics.BREAKER_TRIPS.labels("mail")._value.get() == before + 1


@pytest.fixture
def nobody_changes_holds() -> Iterator[None]:
    """Another session has the table of holds locked against changes."""
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("LOCK TABLE jobs_kind_hold IN SHARE MODE")
        yield


def test_a_hold_that_cannot_be_changed_undoes_no_outcome(
    line: Line, provider: Provider, nobody_changes_holds: None, caplog: Any
) -> None:
    jobs = line.put("mail", 3)
    provider.error = ValueError("boom")
    assert line.go() == [Outcome.RETRY] * 3
    assert "the breaker could not change a hold" in caplog.text
    provider.error = None
    fail(line.runner._breaker)
    assert line.go() == [Outcome.PROCESSED] * 3
    assert sorted(ProcessedJob.objects.values_list("outbox_id", flat=True)) == jobs
    assert line.pending() == 0


# What counts


def run_until_idle(line: Line, rounds: int = 30) -> list[Outcome]:
    found: list[Outcome] = []
    for _ in range(rounds):
        found += line.go()
    return found


def test_what_is_wrong_with_one_job_holds_nobody(line: Line, provider: Provider) -> None:
    provider.error = GiveUp("no such order")
    line.put("mail", 20)
    assert run_until_idle(line, 2) == [Outcome.BURIED] * 20
    assert held() == {}


def test_failures_of_different_jobs_make_one_row(line: Line, provider: Provider) -> None:
    provider.error = ConnectionRefusedError("away")
    line.put("mail", 3)
    assert line.go() == [Outcome.RETRY] * 3
    assert held() == {"mail": KindHold.BREAKER}
    assert KindHold.objects.get().reason == "ConnectionRefusedError: away"
    assert line.go() == []


def test_a_wait_counts_no_attempt_and_holds_its_kind_all_the_same(
    line: Line, provider: Provider
) -> None:
    provider.error = TryLater(0, "rate limit")
    line.put("mail", 3)
    assert line.go() == [Outcome.LATER] * 3
    assert set(OutboxRow.objects.values_list("attempts", flat=True)) == {0}
    assert set(JobEvent.objects.values_list("what", "note")) == {
        (What.LATER, "TryLater: rate limit")
    }
    assert held() == {"mail": KindHold.BREAKER}


def test_a_wait_for_something_of_its_own_holds_nobody(line: Line, provider: Provider) -> None:
    provider.error = TryLater(0, "the same key is in progress", of_provider=False)
    line.put("mail", 5)
    assert line.go() == [Outcome.LATER] * 5
    assert held() == {}


def test_a_wait_that_lasted_too_long_is_dead_and_still_counts_no_attempt(
    line: Line, provider: Provider
) -> None:
    [job] = line.put("mail")
    provider.error = ValueError("boom")
    line.go()
    OutboxRow.objects.update(due_at=timezone.now() - timedelta(seconds=101))
    provider.error = TryLater(0, "rate limit")
    assert line.go() == [Outcome.BURIED]
    row = OutboxRow.objects.get(pk=job)
    assert (row.attempts, row.dead_reason) == (1, "still not possible 100 s after it was due")
    assert list(JobEvent.objects.order_by("id").values_list("what", flat=True)) == [
        What.FAILED, What.LATER, What.BURIED,
    ]  # fmt: skip
    [(_, letter)] = line.redis.xrange("jobs:dead")
    assert letter[b"attempts"] == b"1"


def test_a_failure_that_was_concluded_elsewhere_is_not_counted(
    line: Line, provider: Provider
) -> None:
    provider.error = ValueError("boom")
    line.put("mail", 5)
    line.publish()
    slots = line.sort(line.read()).runnable
    OutboxRow.objects.update(relayed_at=None, entry_id=None)
    assert [line.runner.run(one) for one in slots] == [Outcome.CONCLUDED] * 5
    assert held() == {}


# Persons


def test_a_person_takes_the_place_of_the_breaker_and_no_success_undoes_it() -> None:
    breaker = Breaker()
    fail(breaker, 3)
    holds.pause("mail", 3600, "the provider moves", "ada")
    breaker.succeeded(slot(probe=True))
    fail(breaker, 50)
    fail(breaker, probe=True)
    hold = KindHold.objects.get()
    assert (hold.by, hold.reason, hold.level) == ("ada", "the provider moves", 0)
    assert lasts(3600)


def test_a_pause_tells_until_when_and_the_last_word_counts() -> None:
    holds.pause("mail", 3600, "long", "ada")
    until = holds.pause("mail", 60, "short", "bob")
    hold = KindHold.objects.get()
    assert (hold.until, hold.by, hold.reason) == (until, "bob", "short")
    assert lasts(60)


def test_a_resumed_kind_is_free_whoever_held_it() -> None:
    fail(Breaker(), 3)
    holds.pause("other", 60, "x", "ada")
    assert [holds.resume("mail"), holds.resume("other")] == [True, True]
    assert holds.resume("mail") is False
    assert holds.in_force() == []


def test_which_holds_are_in_force_and_which_let_a_probe_by() -> None:
    fail(Breaker(), 3, name="broken")
    fail(Breaker(), 3, name="mending")
    make_over("mending")
    holds.pause("paused", 60, "x", "ada")
    holds.pause("over", 60, "x", "ada")
    make_over("over")
    found = holds.in_force()
    assert [(hold.kind, hold.probing) for hold in found] == [
        ("broken", False), ("mending", True), ("paused", False),
    ]  # fmt: skip
    assert holds.probing(found) == ["mending"]


def test_a_hold_that_is_over_is_forgotten_but_for_the_breakers_with_jobs_to_try(
    line: Line,
) -> None:
    [job] = line.put("mail")
    fail(Breaker(), 3)
    make_over()
    holds.pause("over", 60, "x", "ada")
    make_over("over")
    holds.pause("paused", 60, "x", "ada")
    holds.forget_over()
    assert held() == {"mail": KindHold.BREAKER, "paused": "ada"}
    OutboxRow.objects.filter(pk=job).update(dead_at=timezone.now())
    holds.forget_over()
    assert held() == {"paused": "ada"}
    fail(Breaker(), 3)
    holds.forget_over()
    assert held() == {"mail": KindHold.BREAKER, "paused": "ada"}, "it is in force"


def test_the_breaker_after_a_pause_that_is_over_starts_with_the_least(line: Line) -> None:
    holds.pause("mail", 60, "x", "ada")
    KindHold.objects.update(level=7)
    make_over()
    fail(Breaker(), 3)
    hold = KindHold.objects.get()
    assert (hold.by, hold.level, hold.reason) == (KindHold.BREAKER, 0, "Away: no answer")
    assert lasts(30)
    assert hold.since > timezone.now() - timedelta(seconds=30)


# The relay


def test_held_rows_stay_and_others_pass_a_thousand_of_them(line: Line) -> None:
    line.put("mail", 1000)
    others = line.put("other", 3)
    holds.pause("mail", 60, "x", "ada")
    assert line.publish() == 3
    assert line.published() == others
    assert OutboxRow.objects.filter(kind="mail", relayed_at__isnull=True).count() == 1000
    holds.resume("mail")
    assert [line.publish() for _ in range(3)] == [500, 500, 0]


def test_one_probe_at_a_time_is_published_once_a_breakers_hold_is_over(line: Line) -> None:
    jobs = line.put("mail", 5)
    fail(Breaker(), 3)
    assert line.publish() == 0
    make_over()
    assert [line.publish() for _ in range(3)] == [1, 0, 0]
    assert line.published() == jobs[:1]
    OutboxRow.objects.filter(pk=jobs[0]).delete()
    assert [line.publish() for _ in range(2)] == [1, 0]
    assert line.published() == jobs[:2]


def test_a_pause_that_is_over_lets_everything_by_at_once(line: Line) -> None:
    line.put("mail", 5)
    holds.pause("mail", 60, "x", "ada")
    make_over()
    assert line.publish() == 5


def test_two_relays_at_once_publish_one_probe(line: Line, at_failpoint: Arm) -> None:
    """The second looks while the first has added the probe and not committed."""
    jobs = line.put("mail", 5)
    fail(Breaker(), 3)
    make_over()
    line.publish()  # the first epoch; the first probe is its row
    OutboxRow.objects.filter(pk=jobs[0]).delete()
    added, go_on = threading.Event(), threading.Event()

    def stop(place: str) -> None:
        if place.startswith("relay.appended") and not added.is_set():
            added.set()
            assert go_on.wait(3)

    def first() -> None:
        line.publish()
        connection.close()

    at_failpoint(stop)
    thread = threading.Thread(target=first)
    thread.start()
    assert added.wait(10)
    other = RelayStream(django_settings.REDIS_URL)
    other.epoch()
    beside = publishing.step(other, 500)
    go_on.set()
    thread.join()
    assert beside == 0
    assert publishing.step(other, 500) == 0
    assert line.published() == jobs[:2]


def test_relays_that_race_for_probes_publish_one(line: Line) -> None:
    line.put("mail", 40)
    fail(Breaker(), 3)
    make_over()
    line.publish()
    for done in range(1, 11):
        OutboxRow.objects.filter(relayed_at__isnull=False).delete()
        in_threads(lambda: relay_once(RelayStream(django_settings.REDIS_URL)), 3)
        wait_for(lambda n=done: len(line.published()) > n or not relay_once(line.relay), "a probe")  # type: ignore[misc]
        assert len(line.published()) == done + 1


def relay_once(stream: RelayStream) -> int:
    stream.epoch()
    return publishing.step(stream, 500)


def test_a_relay_at_its_mark_publishes_no_probe(line: Line) -> None:
    line.put("mail", 5)
    fail(Breaker(), 3)
    make_over()
    assert publishing.step(line.relay, 0) == 0


def test_a_probe_that_no_entry_can_carry_is_dead_and_the_next_one_goes(line: Line) -> None:
    jobs = line.put("mail", 2)
    OutboxRow.objects.filter(pk=jobs[0]).update(args=[1])
    fail(Breaker(), 3)
    make_over()
    assert [line.publish(), line.publish()] == [1, 1]
    assert line.published() == jobs[1:]


def test_a_relay_before_held_rows_alone_waits_and_does_not_spin(
    line: Line, settings: Any, django_assert_max_num_queries: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "RELAY_POLL": 0.2}
    line.put("mail", 10)
    holds.pause("mail", 60, "x", "ada")
    assert outbox.seconds_until_due(["mail"]) is None
    runs = relay.Relay(line.relay, Letters(django_settings.REDIS_URL), "test")
    runs._turn()
    began = time.monotonic()
    with django_assert_max_num_queries(40):
        for _ in range(4):
            runs._turn()
    runs._close_listener()
    assert time.monotonic() - began > 4 * 0.2 * 0.9
    assert line.published() == []


def test_a_probe_that_is_out_does_not_make_the_relay_spin(line: Line, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "RELAY_POLL": 0.2}
    line.put("mail", 10)
    fail(Breaker(), 3)
    make_over()
    runs = relay.Relay(line.relay, Letters(django_settings.REDIS_URL), "test")
    runs._turn()
    began = time.monotonic()
    for _ in range(4):
        runs._turn()
    runs._close_listener()
    assert time.monotonic() - began > 4 * 0.2 * 0.9
    assert len(line.published()) == 1


def test_what_is_held_is_shown(line: Line, looker: Looker) -> None:
    holds.pause("other", 60, "x", "ada")
    fail(Breaker(), 3)
    make_over()
    assert shown(looker) == {("other", "person"): 1.0, ("mail", "breaker"): 0.5}
    holds.resume("other")
    assert shown(looker) == {("mail", "breaker"): 0.5}


def shown(looker: Looker) -> dict[tuple[str, str], float]:
    [held] = [one for one in families(looker.look()) if one.name == "stagedoor_kind_held"]
    return {(one.labels["kind"], one.labels["by"]): one.value for one in held.samples}


# The worker


def test_the_success_of_a_probe_lets_everything_flow(line: Line, provider: Provider) -> None:
    provider.error = ConnectionRefusedError("away")
    line.put("mail", 6)
    assert line.go() == [Outcome.RETRY] * 6
    assert line.go() == [], "held: nothing is published"
    make_over()
    provider.error = None
    line.publish()
    [probe] = line.sort(line.read()).runnable
    assert probe.probe
    assert line.runner.run(probe) is Outcome.PROCESSED
    assert held() == {}
    assert line.go() == [Outcome.PROCESSED] * 5


def test_the_failure_of_a_probe_doubles_the_hold(line: Line, provider: Provider) -> None:
    provider.error = ConnectionRefusedError("away")
    line.put("mail", 3)
    line.go()
    for seconds in (60, 120):
        make_over()
        assert line.go() == [Outcome.RETRY]
        assert lasts(seconds)
        assert line.go() == []
    assert sum(OutboxRow.objects.values_list("attempts", flat=True)) == 5


def test_probes_take_turns_among_the_jobs(line: Line, provider: Provider) -> None:
    """One job does not pay for all: what has just failed comes last."""
    provider.error = ConnectionRefusedError("away")
    line.put("mail", 3)
    line.go()
    for _ in range(6):
        make_over()
        line.go()
    assert list(OutboxRow.objects.values_list("attempts", flat=True)) == [3, 3, 3]


def test_a_probe_that_gives_up_ends_no_hold_and_the_next_one_goes(
    line: Line, provider: Provider
) -> None:
    line.put("mail", 2)
    fail(Breaker(), 3)
    make_over()
    provider.error = GiveUp("no such order")
    assert line.go() == [Outcome.BURIED]
    assert held() == {"mail": KindHold.BREAKER}
    assert seconds_left() < 0
    provider.error = None
    assert line.go() == [Outcome.PROCESSED]
    assert held() == {}


def test_a_probe_that_found_nothing_to_do_tells_nothing_of_the_provider(line: Line) -> None:
    line.put("idle", 2)
    fail(Breaker(), 3, name="idle")
    make_over("idle")
    assert line.go() == [Outcome.PROCESSED]
    assert held() == {"idle": KindHold.BREAKER}
    assert line.go() == [Outcome.PROCESSED], "the next one is tried"


def test_a_probe_is_a_job_that_has_not_failed_yet_where_there_is_one(line: Line) -> None:
    """Jobs that fail for their own reasons would else be tried before all others."""
    jobs = line.put("mail", 3)
    OutboxRow.objects.filter(pk__in=jobs[:2]).update(last_error="ValueError: boom")
    fail(Breaker(), 3)
    make_over()
    line.publish()
    assert line.published() == jobs[2:]


def test_a_redelivered_probe_is_a_probe(line: Line) -> None:
    line.put("mail")
    fail(Breaker(), 3)
    make_over()
    line.publish()
    entries = line.read()
    [again] = line.sort(entries, redelivered=True).runnable
    assert (again.probe, again.suspect) == (True, True)


def put_back_row(line: Line, **columns: Any) -> OutboxRow:
    """The row of an entry that a worker read after its kind was held."""
    [job] = line.put("mail")
    line.publish()
    OutboxRow.objects.update(**columns)
    entries = line.read()
    holds.pause("mail", 60, "x", "ada")
    found = line.sort(entries)
    assert (found.runnable, found.concluded) == ([], [entries[0].id])
    assert line.pending() == 0
    return OutboxRow.objects.get(pk=job)


def test_a_worker_puts_back_what_is_held_as_it_was(line: Line) -> None:
    unknown_since = timezone.now()
    row = put_back_row(
        line, attempts=2, starts=1, unknown_since=unknown_since, last_error="ValueError: boom"
    )
    assert (row.relayed_at, row.entry_id, row.dead_at) == (None, None, None)
    assert (row.attempts, row.starts, row.unknown_since, row.last_error) == (
        2, 1, unknown_since, "ValueError: boom",
    )  # fmt: skip
    assert not JobEvent.objects.exists()


def test_what_was_put_back_is_available_within_seconds_of_a_resume(line: Line) -> None:
    """Not at once: an older relay, which knows no holds, would publish it in a loop."""
    row = put_back_row(line)
    assert timedelta() < row.available_at - timezone.now() <= timedelta(seconds=5)
    holds.resume("mail")
    assert line.publish() == 0
    make_due()
    assert line.go() == [Outcome.PROCESSED]


def make_due() -> None:
    """What is to be tried later can be tried now."""
    OutboxRow.objects.update(available_at=Now())


def test_a_put_back_row_waits_no_longer_than_the_shortest_hold(line: Line, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "HOLD_MIN": 0.0}
    row = put_back_row(line)
    assert row.available_at <= timezone.now()


def test_a_suspect_that_was_put_back_is_still_one(line: Line) -> None:
    """A pause must not launder what may have killed two workers."""
    put_back_row(line, starts=rows.STARTS_LIMIT)
    holds.resume("mail")
    make_due()
    [again] = line.sort(line.read() if line.publish() else []).runnable
    assert (again.suspect, again.starts) == (True, rows.STARTS_LIMIT)
    assert line.runner.run(again) is Outcome.BURIED


def test_an_older_entry_of_a_held_kind_changes_nothing(line: Line) -> None:
    [job] = line.put("mail")
    line.publish()
    entries = line.read()
    OutboxRow.objects.update(entry_id="9-9")
    holds.pause("mail", 60, "x", "ada")
    assert line.sort(entries).concluded == [entries[0].id]
    assert OutboxRow.objects.get(pk=job).entry_id == "9-9"


def test_a_held_kind_that_this_build_does_not_know_waits_for_the_hold_alone(line: Line) -> None:
    [job] = line.put("mail")
    OutboxRow.objects.update(kind="of_tomorrow")
    line.publish()
    holds.pause("of_tomorrow", 60, "x", "ada")
    line.take()
    row = OutboxRow.objects.get(pk=job)
    assert (row.entry_id, row.unknown_since, row.dead_at) == (None, None, None)


def test_a_dead_or_malformed_job_of_a_held_kind_is_no_job_that_waits(line: Line) -> None:
    dead, malformed = line.put("mail", 2)
    line.publish()
    OutboxRow.objects.filter(pk=dead).update(dead_at=timezone.now(), dead_reason="x")
    holds.pause("mail", 60, "x", "ada")
    entries = line.read()
    line.sort([entries[0], Entry(entries[1].id, [*entries[1].fields, (b"more", b"1")])])
    assert OutboxRow.objects.get(pk=dead).dead_reason == "x"
    assert OutboxRow.objects.get(pk=malformed).dead_reason.startswith("malformed: 'more'")


@pytest.mark.parametrize(
    ("hold", "state"),
    [
        ("none", (False, False)), ("another's", (False, False)), ("person's", (True, False)),
        ("person's, over", (False, False)), ("breaker's", (True, False)),
        ("breaker's, over", (False, True)),
    ],
)  # fmt: skip
def test_what_a_worker_learns_of_a_hold(hold: str, state: tuple[bool, bool], line: Line) -> None:
    [job] = line.put("mail")
    if hold.startswith("person's"):
        holds.pause("mail", 60, "x", "ada")
    elif hold.startswith("breaker's"):
        fail(Breaker(), 3)
    elif hold == "another's":
        holds.pause("other", 60, "x", "ada")
    if hold.endswith("over"):
        make_over()
    found = rows.row_states([job])[job]
    assert (found.held, found.probe) == state


def test_a_job_that_runs_when_its_kind_is_paused_is_finished(line: Line) -> None:
    line.put("mail")
    line.publish()
    [running] = line.sort(line.read()).runnable
    holds.pause("mail", 60, "x", "ada")
    assert line.runner.run(running) is Outcome.PROCESSED
    assert held() == {"mail": "ada"}


def test_a_job_that_fails_while_its_kind_is_paused_waits_for_both(
    line: Line, provider: Provider
) -> None:
    line.put("mail")
    line.publish()
    [running] = line.sort(line.read()).runnable
    holds.pause("mail", 60, "x", "ada")
    provider.error = ValueError("boom")
    assert line.runner.run(running) is Outcome.RETRY
    assert line.go() == []
    assert kind_named("mail").policy.hold_after == 3
    holds.resume("mail")
    assert line.go() == [Outcome.RETRY]


def test_the_hold_goes_by_the_clock_of_the_database_inside_long_transactions_too() -> None:
    """now() stands still in a transaction: a relay's step that waited would not see the end."""
    holds.pause("mail", 0.3, "x", "ada")
    with transaction.atomic():
        assert [hold.kind for hold in holds.in_force()] == ["mail"]
        wait_for(lambda: not holds.in_force(), "its end", seconds=5)
