"""The story of jobs: what happened, by whom, and where each is now."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import events
from jobs.job import Job
from jobs.models import JobEvent, KindHold, OutboxRow, ProcessedJob, What
from jobs.outbox import enqueue
from jobs.policy import Policy
from jobs.story import Happening, State, open_jobs, story_of, story_of_job
from jobs.testing import drain
from tests.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)

ABOUT = "thing:1"


@dataclass(frozen=True)
class Args:
    number: int


@pytest.fixture(autouse=True)
def failing(kind: Register) -> Callable[[int], None]:
    """Registers the kind `thing`; its runs fail as often as the fixture is told."""
    left = [0]

    @kind("thing", subject="thing:{number}", policy=Policy(attempts=3, base=0, jitter=0))
    def handle(job: Job[Args]) -> None:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("no luck")
        with job.effects():
            pass

    def arm(times: int) -> None:
        left[0] = times

    return arm


def job(number: int = 1) -> int:
    """A job about `thing:<number>`."""
    with transaction.atomic():
        return enqueue("thing", number=number)


def told(about: str = ABOUT) -> list[str]:
    return [line.what for line in story_of(about)]


def now_at() -> Happening:
    return story_of(ABOUT)[-1]


def test_a_job_that_was_just_enqueued_is_due() -> None:
    pk = job()
    [first, second] = story_of(ABOUT)
    row = OutboxRow.objects.get()
    assert (first.at, first.outbox_id, first.kind, first.what) == (
        row.created_at, pk, "thing", "enqueued",
    )  # fmt: skip
    assert (second.what, second.at) == (State.DUE, row.available_at)


def test_a_job_that_is_published_is_with_the_workers() -> None:
    job()
    at = timezone.now()
    OutboxRow.objects.update(relayed_at=at, entry_id="1-1")
    assert (now_at().what, now_at().at) == (State.WITH_WORKERS, at)


def test_a_job_that_is_done_says_by_whom_and_how_long_it_took() -> None:
    job()
    drain()
    done = ProcessedJob.objects.get()
    assert told() == ["enqueued", "done"]
    assert now_at() == Happening(
        done.processed_at, done.outbox_id, "thing", "done", "test", f"{done.duration_ms} ms"
    )


def test_a_job_that_failed_and_waits_says_until_when_and_why(
    failing: Callable[[int], None],
) -> None:
    job()
    failing(1)
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    until = timezone.now() + timedelta(minutes=5)
    OutboxRow.objects.update(available_at=until)
    assert told() == ["enqueued", "failed", "waiting for retry"]
    assert (now_at().at, now_at().note) == (until, "after 1 failed run: RuntimeError: no luck")


def test_a_job_that_failed_and_was_done_shows_both(failing: Callable[[int], None]) -> None:
    job()
    failing(2)
    drain()
    assert told() == ["enqueued", "failed", "failed", "done"]
    assert now_at().note.startswith("after 2 failed runs, ")


def test_a_dead_job_says_it_once_with_the_reason_and_goes_on_when_it_was_replayed(
    failing: Callable[[int], None],
) -> None:
    pk = job()
    failing(3)
    drain()
    assert told()[-1] == "dead"
    assert told().count("buried") == 0
    assert now_at().note == "after 3 failed runs: failed 3 times"
    assert now_at().by == "test"
    with transaction.atomic():
        OutboxRow.objects.update(dead_at=None, attempts=0, available_at=timezone.now())
        events.note(pk, What.REPLAYED, "boxoffice")
    assert told()[-3:] == ["buried", "replayed", "due"]
    assert story_of(ABOUT)[-2].by == "boxoffice"
    drain()
    assert told()[-3:] == ["buried", "replayed", "done"]


def test_a_discarded_job_says_by_whom_and_why(failing: Callable[[int], None]) -> None:
    pk = job()
    failing(3)
    drain()
    OutboxRow.objects.update(discarded_at=timezone.now())
    assert told()[-2:] == ["buried", "discarded"]
    events.note(pk, What.DISCARDED, "boxoffice", "not needed")
    assert told().count("discarded") == 1
    assert (now_at().by, now_at().note) == ("boxoffice", "not needed")


def test_a_dead_job_without_any_event_is_dead_all_the_same() -> None:
    job()
    OutboxRow.objects.update(dead_at=timezone.now(), dead_reason="from before", dead_by="worker")
    assert told() == ["enqueued", "dead"]
    assert (now_at().note, now_at().by) == ("from before", "worker")


def hold(by: str, seconds: float) -> KindHold:
    until = timezone.now() + timedelta(seconds=seconds)
    return KindHold.objects.create(kind="thing", until=until, reason="provider down", by=by)


def test_a_job_of_a_held_kind_is_held_until_then() -> None:
    job()
    held = hold("boxoffice", 60)
    assert now_at() == Happening(
        held.until, now_at().outbox_id, "thing", "held", "boxoffice", "provider down"
    )


@pytest.mark.parametrize(("by", "what"), [("boxoffice", "due"), (KindHold.BREAKER, "held")])
def test_a_hold_of_a_person_ends_by_the_clock_and_the_breakers_by_a_success(
    by: str, what: str
) -> None:
    job()
    hold(by, -60)
    assert now_at().what == what


def test_a_published_or_dead_job_is_not_held() -> None:
    job()
    hold("boxoffice", 60)
    OutboxRow.objects.update(relayed_at=timezone.now(), entry_id="1-1")
    assert now_at().what == State.WITH_WORKERS
    OutboxRow.objects.update(dead_at=timezone.now(), relayed_at=None)
    assert now_at().what == State.DEAD


def test_a_story_is_of_its_subject_alone_and_of_all_its_jobs() -> None:
    first = job()
    drain()
    second = job()
    job(2)
    assert [line.outbox_id for line in story_of(ABOUT)] == [first, first, second, second]
    assert story_of("thing:3") == []
    assert [line.what for line in story_of_job(first)] == ["enqueued", "done"]
    assert [line.what for line in story_of_job(second)] == ["enqueued", "due"]
    assert story_of_job(0) == []


def test_a_row_that_is_read_in_both_places_is_done() -> None:
    """It moved between the two looks."""
    pk = job()
    row = OutboxRow.objects.get()
    drain()
    row.save(force_insert=True)
    assert [line.what for line in story_of_job(pk)] == ["enqueued", "done"]


def test_the_number_of_looks_does_not_grow_with_the_story(
    failing: Callable[[int], None],
) -> None:
    def looks() -> int:
        with CaptureQueriesContext(connection) as asked:
            story_of(ABOUT)
        return len(asked)

    job()
    few = looks()
    failing(5)
    for _ in range(9):
        job()
        with pytest.raises(RuntimeError):
            drain(rounds=1)
    job()
    assert JobEvent.objects.exists()
    assert looks() == few == 4


def test_open_jobs_are_those_that_are_not_done() -> None:
    done = job()
    drain()
    dead = job()
    OutboxRow.objects.update(dead_at=timezone.now())
    live = job()
    found = open_jobs(ABOUT, "thing")
    assert [(one.outbox_id, one.args, one.dead) for one in found] == [
        (dead, {"number": 1}, True),
        (live, {"number": 1}, False),
    ]
    assert done not in {one.outbox_id for one in found}
    assert open_jobs(ABOUT, "other") == []
