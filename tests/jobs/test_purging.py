"""What its time is over for is forgotten, in batches, so that nothing is done again for it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client, override_settings
from django.utils import timezone

from jobs import audit, correction, foresight, purging, replay, shelves
from jobs.foresight import Asked
from jobs.models import (
    JobEvent,
    OutboxRow,
    Process,
    ProcessedJob,
    Purge,
    RefusedEntry,
    ReplayBatch,
    ScheduledRun,
)
from jobs.outbox import enqueue, put
from jobs.prognosis import Effect
from jobs.replay import Deed, Instead
from jobs.shelves import Shelf
from jobs.testing import drain, enqueued
from tests.conftest import Arm
from tests.web import Answer, text

pytestmark = pytest.mark.django_db(transaction=True)
OLD, YOUNG = timedelta(days=401), timedelta(days=399)


@pytest.fixture(autouse=True)
def later_ids() -> None:
    """New jobs have greater ids than the old ones of these tests."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('jobs_outbox', 'id'), 1000000)")


def small(**jobs: Any) -> Any:
    """These settings of `JOBS`, and batches of ten."""
    return override_settings(JOBS={**settings.JOBS, "PURGE_BATCH": 10, **jobs})


def ago(age: timedelta) -> datetime:
    return timezone.now() - age


def processed(outbox_id: int, age: timedelta, created: timedelta | None = None) -> ProcessedJob:
    born = ago(created or age)
    return ProcessedJob.objects.create(
        outbox_id=outbox_id, kind="drill", args={}, subject="", request_id="", trace="",
        created_at=born, due_at=born, processed_at=ago(age), attempts=0, worker="w",
        duration_ms=1, result="done",
    )  # fmt: skip


def purge() -> None:
    with transaction.atomic():
        enqueue("purge")
    drain()


def left(table: Any) -> list[Any]:
    return list(table.objects.order_by("pk").values_list("pk", flat=True))


def shelf(name: str) -> Shelf:
    found = shelves.shelf_named(name)
    assert found is not None
    return found


def test_what_is_past_its_time_goes_and_nothing_else() -> None:
    """Also where an old row stands behind a young one: a dead job was replayed a year later."""
    with small():
        for number in range(1, 26):
            processed(number, OLD)
        processed(26, YOUNG, created=OLD)
        processed(27, OLD)
        for number in range(28, 60):
            processed(number, YOUNG)
        purge()
    assert [pk for pk in left(ProcessedJob) if pk < 100] == [26, *range(28, 60)]
    noted = Purge.objects.get(shelf="processed")
    assert noted.rows == 26
    assert abs(noted.until - ago(timedelta(days=400))) < timedelta(minutes=5)


def test_a_batch_of_which_nothing_may_go_keeps_none_behind_it() -> None:
    with small():
        for number in range(1, 11):
            processed(number, YOUNG, created=OLD)
        processed(11, OLD)
        purge()
    assert [pk for pk in left(ProcessedJob) if pk < 100] == [*range(1, 11)]


def test_each_shelf_keeps_what_is_young_or_still_asked_about() -> None:
    batch, _ = (
        ReplayBatch.objects.create(by="carla", number=1, last_due_at=ago(OLD)) for _ in range(2)
    )
    ReplayBatch.objects.update(at=ago(OLD))
    dead, discarded, lately = (_dead(OLD) for _ in range(3))
    OutboxRow.objects.filter(pk=discarded).update(discarded_at=ago(OLD))
    OutboxRow.objects.filter(pk=lately).update(discarded_at=ago(YOUNG))
    told = [
        JobEvent.objects.create(outbox_id=pk, at=ago(age), what="failed", by="w", batch=of)
        for pk, age, of in ((dead, OLD, None), (4711, OLD, None), (4711, YOUNG, batch))
    ]
    refused = [
        _refused(f"{number}-1", settled) for number, settled in enumerate((OLD, YOUNG, None))
    ]
    slots = [
        ScheduledRun.objects.create(
            name="x", due_at=ago(age), last_due_at=ago(age), result="on time", seconds_late=0,
            decided_at=ago(age), outbox_id=job, by="s",
        ).pk
        for age, job in ((OLD, 4711), (timedelta(days=402), dead), (YOUNG, None))
    ]  # fmt: skip
    _, seen = (
        Process.objects.create(
            role="worker", name=name, host="h", build="b", status="", seen_at=ago(age)
        ).pk
        for name, age in (("gone", timedelta(days=8)), ("seen", timedelta(days=6)))
    )
    with small():
        purge()
        purge()
    assert left(OutboxRow) == [dead, lately]
    assert left(JobEvent) == [told[0].pk, told[2].pk]
    assert left(ReplayBatch) == [batch.pk]
    assert left(RefusedEntry) == refused[1:]
    assert left(ScheduledRun) == slots[1:]
    assert left(Process) == [seen]


def test_a_due_slot_goes_after_its_job_and_no_look_between_finds_the_books_wrong() -> None:
    """One job was done at once, one a year later, one is dead and discarded."""
    jobs = []
    for number, (born, done) in enumerate(((OLD, OLD), (OLD, YOUNG)), start=1):
        processed(number, done, created=born)
        jobs.append(number)
    with transaction.atomic():
        jobs.append(_dead(OLD))
    due = ago(OLD)
    OutboxRow.objects.update(discarded_at=due, scheduled_for=due)
    ProcessedJob.objects.update(scheduled_for=due)
    for number, job in enumerate(jobs):
        ScheduledRun.objects.create(
            name=f"x{number}", due_at=due, last_due_at=due,
            result="on time", seconds_late=0, decided_at=due, outbox_id=job, by="s",
        )  # fmt: skip
    for name in ("due slots", "processed", "discarded", "due slots"):
        with transaction.atomic():
            enqueue("purge_shelf", shelf=name, cursor=0)
        drain()
        assert _wrong() == []
    assert list(ScheduledRun.objects.values_list("outbox_id", flat=True)) == [2]


def _wrong() -> list[str]:
    with connection.cursor() as cursor:
        for rule in audit.rules.registered():
            if "schedule" in rule.name or "slot" in rule.name:
                cursor.execute(rule.sql)
                if cursor.fetchall():
                    return [rule.name]
    return []


def _dead(age: timedelta) -> int:
    with transaction.atomic():
        pk = put("drill_row", {"number": 1, "ms": 0})
    OutboxRow.objects.filter(pk=pk).update(created_at=ago(age), dead_at=ago(age))
    return pk


def _refused(entry: str, settled: timedelta | None) -> int:
    made = RefusedEntry.objects.create(
        entry_id=entry, raw=[], reason="x", settled_at=ago(settled) if settled else None
    )
    RefusedEntry.objects.filter(pk=made.pk).update(refused_at=ago(OLD))
    return made.pk


def test_a_run_stops_when_its_seconds_are_over_and_the_next_goes_on_from_there() -> None:
    with small(PURGE_SECONDS=0.0):
        for number in range(1, 26):
            processed(number, OLD)
        with transaction.atomic():
            enqueue("purge_shelf", shelf="processed", cursor=0)
        with pytest.raises(RuntimeError):
            drain(rounds=1)
        assert len([pk for pk in left(ProcessedJob) if pk < 100]) == 15
        assert enqueued("purge_shelf") == [{"shelf": "processed", "cursor": 10}]
        drain()
    assert not [pk for pk in left(ProcessedJob) if pk < 100]


def test_a_worker_that_dies_between_two_batches_has_lost_nothing(at_failpoint: Arm) -> None:
    deaths = iter(range(2))

    def act(place: str) -> None:
        if place == "purging.committed" and next(deaths, None) is not None:
            raise KeyboardInterrupt

    at_failpoint(act)
    with small():
        for number in range(1, 36):
            processed(number, OLD)
        with transaction.atomic():
            enqueue("purge_shelf", shelf="processed", cursor=0)
        for kept in (25, 15, 0):
            OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
            drain()
            assert len([pk for pk in left(ProcessedJob) if pk < 100]) == kept
    assert Purge.objects.get(shelf="processed").rows == 35


def test_two_runs_at_once_take_each_row_once() -> None:
    for number in range(1, 26):
        processed(number, OLD)
    with small():
        until = purging.until_of(shelf("processed"), timezone.now())
        batches = [purging.take(shelf("processed"), 0, until) for _ in range(2)]
    assert [batch.rows for batch in batches] == [10, 10]


def test_a_batch_waits_for_no_row_that_somebody_works_with() -> None:
    """Its transaction has a limit of its own for that, and leaves the session's as it was."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()
        purging.take(shelf("processed"), 0, timezone.now())
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == before
    assert purging.LOCK_WAIT == "200ms"


def test_the_word_of_how_far_it_is_never_goes_back() -> None:
    """The days may be set to more later: what is gone is gone."""
    now = timezone.now()
    with small():
        purging.sweep(shelf("processed"), 0, now)
    with small(RETENTION_DAYS=800.0):
        purging.sweep(shelf("processed"), 0, now)
    assert Purge.objects.get(shelf="processed").until == now - timedelta(days=400)


def test_an_unknown_shelf_is_dead_at_once() -> None:
    with transaction.atomic():
        enqueue("purge_shelf", shelf="attic", cursor=0)
    drain()
    assert "there is no shelf attic" in OutboxRow.objects.get().dead_reason


def test_a_job_of_which_it_is_not_known_what_it_has_done_is_not_replayed() -> None:
    """Neither alone nor with others, nor with other arguments; it can be discarded."""
    old, young = _dead(OLD), _dead(YOUNG)
    rows = [Asked(row.pk, row.kind, row.args, row.created_at) for row in OutboxRow.objects.all()]
    found = foresight.foresee(rows)
    assert found[old].effect is Effect.IMPOSSIBLE
    assert "not known any more what it has done" in found[old].text
    assert found[young].effect is Effect.SAFE
    now, deed = timezone.now(), Deed(by="carla")
    assert replay.replay([old, young], now, deed, together=True).keys == [young]
    job = correction.parsed("drill_row", {"number": "2", "ms": "0"})
    assert correction.correct(old, now, job, deed).keys == []
    assert OutboxRow.objects.get(pk=old).args == {"number": 1, "ms": 0}
    assert replay.instead(old, now)[0] is Instead.TOO_OLD
    assert replay.discard([old], now, deed, "old").keys == [old]


def test_the_page_of_such_a_job_offers_to_discard_it_alone(client: Client) -> None:
    client.force_login(_boss())
    old = _dead(OLD)
    answer: Answer = client.get(f"/admin/jobs/deadjob/{old}/change/")
    assert "not known any more what it has done" in text(answer)
    assert "Discard" in text(answer)
    assert "replay/" not in text(answer)


def _boss() -> User:
    return User.objects.create_superuser("boss", password="x")


def test_staff_sees_how_far_it_is(client: Client) -> None:
    client.force_login(_boss())
    with small():
        purge()
    answer: Answer = client.get("/admin/jobs/purge/")
    assert "processed" in text(answer)
    assert "Add purge" not in text(answer)
