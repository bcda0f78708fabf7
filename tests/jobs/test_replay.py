"""Replay and discard: fenced by what the person saw, once, in one transaction, and told."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from jobs import dead_letters, replay
from jobs.conclusion import Failure
from jobs.correlation import correlated
from jobs.job import Job
from jobs.models import JobEvent, OutboxRow, ProcessedJob, RefusedEntry, ReplayBatch, What
from jobs.outbox import CHANNEL
from jobs.policy import Policy
from jobs.prognosis import Effect, Prognosis
from jobs.replay import Deed, Instead, Progress, Taken
from jobs.runner import Outcome
from jobs.stream import Entry
from tests.conftest import Arm, Register
from tests.line import Line

pytestmark = pytest.mark.django_db(transaction=True)
ADA = Deed("ada")
SAFE = Prognosis(Effect.SAFE, "not done yet, safe")
MAY_REPEAT = Prognosis(Effect.MAY_REPEAT, "may send twice")


@dataclass(frozen=True)
class Args:
    number: int


class World:
    """Whether the kind `example` fails, and whose consent it was told of, look by look.

    Its odd numbers may happen twice.
    """

    def __init__(self) -> None:
        self.broken = True
        self.told: list[list[int]] = []


@pytest.fixture
def world(kind: Register) -> World:
    made = World()

    @kind(
        "example",
        policy=Policy(attempts=1, hold_after=0),
        foresee=lambda args: [MAY_REPEAT if one.number % 2 else SAFE for one in args],
        consent=lambda args: made.told.append([one.number for one in args]),
    )
    def example(job: Job[Args]) -> None:
        if made.broken:
            raise ValueError("boom")
        with job.effects():
            pass

    return made


@pytest.fixture
def line(redis: Any, world: World) -> Line:
    return Line(redis)


def die(line: Line, count: int = 1) -> list[int]:
    """So many dead jobs, each with its letter, in the order of their deaths."""
    jobs = line.put("example", count)
    assert line.go() == [Outcome.BURIED] * count
    return jobs


def row_of(job: int) -> OutboxRow:
    return OutboxRow.objects.get(pk=job)


def letters(line: Line) -> list[int]:
    return [int(fields[b"row"]) for _, fields in line.redis.xrange("jobs:dead")]


def replayed(jobs: list[int], seen: datetime | None = None, **more: Any) -> Taken:
    """Replay as the admin does: the letters are taken away after the commit."""
    taken = replay.replay(jobs, seen or timezone.now(), ADA, **more)
    dead_letters.take_away(taken.letters)
    return taken


def whats(job: int) -> list[str]:
    return list(
        JobEvent.objects.filter(outbox_id=job).order_by("id").values_list("what", flat=True)
    )


def test_a_replayed_job_starts_from_the_beginning(line: Line, world: World) -> None:
    [job] = die(line)
    OutboxRow.objects.update(
        attempts=7, starts=2, unknown_since=timezone.now(), relayed_at=timezone.now(),
        entry_id="9-9", due_at=timezone.now() - timedelta(days=3),
        available_at=timezone.now() + timedelta(days=3),
    )  # fmt: skip
    before = timezone.now()
    assert replayed([job]).keys == [job]
    row = row_of(job)
    assert (row.attempts, row.starts, row.unknown_since) == (0, 0, None)
    assert (row.relayed_at, row.entry_id, row.dead_at, row.letter_id) == (None, None, None, "")
    assert before <= row.due_at <= timezone.now()
    assert row.available_at == row.due_at
    assert row.kind == "example"
    world.broken = False
    assert line.go() == [Outcome.PROCESSED]
    assert ProcessedJob.objects.get().attempts == 0


def test_its_letter_is_gone_and_reconcile_has_nothing_to_do(line: Line) -> None:
    jobs = die(line, 3)
    assert letters(line) == jobs
    replayed(jobs[:2])
    assert letters(line) == jobs[2:]
    dead_letters.Looked.at = float("-inf")
    assert dead_letters.reconcile(line.letters) == 0


def test_the_story_tells_who_and_under_which_request(line: Line) -> None:
    [job] = die(line)
    with correlated("7f3a9c2e", ""):
        replay.replay([job], timezone.now(), ADA)
    event = JobEvent.objects.get(what=What.REPLAYED)
    assert (event.outbox_id, event.by, event.request_id, event.batch_id) == (
        job, "ada", "7f3a9c2e", None,
    )  # fmt: skip
    assert whats(job) == [What.FAILED, What.BURIED, What.REPLAYED]


def test_the_relay_is_woken_once(line: Line) -> None:
    jobs = die(line, 3)
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        replayed(jobs)
        assert len(list(listener.notifies(timeout=2, stop_after=1))) == 1
        replayed(jobs)
        assert not list(listener.notifies(timeout=0))


def test_what_the_person_does_is_noted_once(line: Line) -> None:
    jobs = die(line, 2)
    noted: list[tuple[int, int | None]] = []
    deed = Deed("ada", lambda *said: noted.append(said))
    replay.replay(jobs, timezone.now(), deed)
    replay.replay(jobs, timezone.now(), deed)
    assert noted == [(2, None)]


def replay_as_batch(job: int, deed: Deed) -> Taken:
    return replay.replay([job], timezone.now(), deed, together=True)


def discard(job: int, deed: Deed) -> Taken:
    return replay.discard([job], timezone.now(), deed, "x")


@pytest.mark.parametrize("act", [replay_as_batch, discard])
def test_what_cannot_be_noted_is_not_done(act: Callable[[int, Deed], Taken], line: Line) -> None:
    def refuse(number: int, batch: int | None) -> None:
        raise DatabaseError("the staff log cannot be written")

    [job] = die(line)
    with pytest.raises(DatabaseError):
        act(job, Deed("ada", refuse))
    assert OutboxRow.objects.dead().filter(pk=job).exists()
    assert not ReplayBatch.objects.exists()
    assert whats(job) == [What.FAILED, What.BURIED]
    assert letters(line) == [job]


@pytest.mark.parametrize("act", [replay_as_batch, discard])
def test_neither_goes_into_a_transaction_of_others(
    act: Callable[[int, Deed], Taken], line: Line
) -> None:
    """The letter would be taken away, and the rest rolled back."""
    [job] = die(line)
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        act(job, ADA)


# Twice, by two, and meanwhile


def test_twice_is_the_same_as_once(line: Line, world: World) -> None:
    [job] = die(line)
    seen = timezone.now()
    assert replayed([job], seen).keys == [job]
    assert replayed([job], seen) == Taken()
    assert replay.instead(job, seen) == (Instead.LIVE, row_of(job).due_at)
    world.broken = False
    assert line.go() == [Outcome.PROCESSED]
    assert replayed([job], seen) == Taken()
    assert replay.instead(job, seen) == (Instead.DONE, ProcessedJob.objects.get().processed_at)
    assert line.go() == []


def test_a_job_that_died_again_is_not_replayed_by_a_page_from_before(line: Line) -> None:
    [job] = die(line)
    seen = timezone.now()
    replayed([job], seen)
    assert line.go() == [Outcome.BURIED]
    assert replayed([job], seen) == Taken()
    assert replay.instead(job, seen) == (Instead.AGAIN, row_of(job).dead_at)
    assert whats(job) == [What.FAILED, What.BURIED, What.REPLAYED, What.FAILED, What.BURIED]
    assert letters(line) == [job]
    assert replayed([job]).keys == [job]


@pytest.mark.parametrize(("after", "found"), [(0, 1), (1, 1), (-1, 0)])
def test_the_fence_is_as_fine_as_the_database(after: int, found: int, line: Line) -> None:
    [job] = die(line)
    dead_at = datetime(2026, 11, 29, 20, 0, 0, 123457, tzinfo=UTC)
    OutboxRow.objects.update(dead_at=dead_at)
    assert len(replayed([job], dead_at + timedelta(microseconds=after)).keys) == found


def at_once(*acts: Callable[[], Taken]) -> list[Taken]:
    """What each came to, all begun at the same moment, each with a connection of its own."""
    together = threading.Barrier(len(acts), timeout=30)
    found: list[Taken] = []

    def one(act: Callable[[], Taken]) -> None:
        try:
            together.wait()
            found.append(act())
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_people_at_once_replay_once(line: Line) -> None:
    jobs = die(line, 50)
    seen = timezone.now()
    found = at_once(*[lambda: replay.replay(jobs, seen, ADA)] * 4)
    assert sorted(key for taken in found for key in taken.keys) == jobs
    assert JobEvent.objects.filter(what=What.REPLAYED).count() == 50
    assert line.publish() >= 1


def test_one_who_replays_and_one_who_discards_at_once_do_one_of_the_two(line: Line) -> None:
    jobs = die(line, 50)
    seen = timezone.now()
    found = at_once(
        lambda: replay.replay(jobs, seen, ADA), lambda: replay.discard(jobs, seen, ADA, "x")
    )
    assert sorted(key for taken in found for key in taken.keys) == jobs
    for job in jobs:
        row = row_of(job)
        assert (row.dead_at is None) == (row.discarded_at is None)


def test_a_row_that_a_worker_is_finishing_is_left_to_it(line: Line, world: World) -> None:
    """A slow run wins though the job is dead: it has the row locked inside effects()."""
    busy, free = die(line, 2)
    seen = timezone.now()
    with psycopg.connect(**connection.get_connection_params()) as worker:
        worker.execute("SELECT FROM jobs_outbox WHERE id = %s FOR UPDATE", [busy])
        assert replayed([busy, free], seen).keys == [free]
        assert replay.instead(busy, seen)[0] is Instead.BUSY
    assert replayed([busy], seen).keys == [busy]


def test_a_job_done_by_a_slow_run_is_refused_with_the_time(line: Line, world: World) -> None:
    line.put("example")
    line.publish()
    [slot, slow] = [line.sort(entries).runnable[0] for entries in [line.read()] * 2]
    assert line.runner.run(slot) is Outcome.BURIED
    seen = timezone.now()
    world.broken = False
    assert line.runner.run(slow) is Outcome.PROCESSED
    assert replayed([slot.outbox_id], seen) == Taken()
    done = ProcessedJob.objects.get()
    assert replay.instead(slot.outbox_id, seen) == (Instead.DONE, done.processed_at)
    dead_letters.Looked.at = float("-inf")
    assert dead_letters.reconcile(line.letters) == 1, "the letter of what is done is taken away"
    assert letters(line) == []


def test_a_late_failure_of_the_old_delivery_does_not_touch_the_replayed_job(
    line: Line, world: World
) -> None:
    line.put("example")
    line.publish()
    [slot, late] = [line.sort(entries).runnable[0] for entries in [line.read()] * 2]
    assert line.runner.run(slot) is Outcome.BURIED
    replayed([slot.outbox_id])
    assert line.publish() == 1
    assert line.runner.run(late) is Outcome.CONCLUDED
    assert row_of(slot.outbox_id).attempts == 0
    world.broken = False
    assert line.take() == [Outcome.PROCESSED]


def test_a_late_success_of_the_old_delivery_makes_the_replayed_job_done_once(
    line: Line, world: World
) -> None:
    line.put("example")
    line.publish()
    [slot, late] = [line.sort(entries).runnable[0] for entries in [line.read()] * 2]
    assert line.runner.run(slot) is Outcome.BURIED
    replayed([slot.outbox_id])
    world.broken = False
    assert line.publish() == 1
    [again] = line.sort(line.read()).runnable
    assert line.runner.run(late) is Outcome.PROCESSED
    assert line.runner.run(again) is Outcome.ALREADY_PROCESSED
    assert ProcessedJob.objects.count() == 1


def test_nobody_and_nothing(line: Line) -> None:
    assert replayed([]) == Taken()
    assert replayed([999_999]) == Taken()
    assert replay.instead(999_999, timezone.now()) == (Instead.GONE, None)
    live = line.put("example")
    assert replayed(live) == Taken()
    assert not JobEvent.objects.exists()


def test_a_letter_that_was_trimmed_is_not_missed(line: Line, world: World) -> None:
    jobs = die(line, 3)
    line.redis.xtrim("jobs:dead", maxlen=1, approximate=False)
    assert replayed(jobs).keys == jobs
    assert letters(line) == []
    world.broken = False
    OutboxRow.objects.update(available_at=timezone.now())
    assert line.go() == [Outcome.PROCESSED] * 3


def test_a_redis_that_is_away_undoes_no_replay(line: Line, settings: Any) -> None:
    [job] = die(line)
    taken = replay.replay([job], timezone.now(), ADA)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    dead_letters.take_away(taken.letters)
    assert row_of(job).dead_at is None
    dead_letters.Looked.at = float("-inf")
    assert dead_letters.reconcile(line.letters) == 1
    assert letters(line) == []


def test_the_newer_letter_stays_where_the_older_one_was_not_taken_away(
    line: Line, world: World, at_failpoint: Arm
) -> None:
    """Killed between the commit and the letter, and the job dies again, otherwise."""
    [job] = die(line)

    def end(place: str) -> None:
        if place == "replay.committed":
            raise KeyboardInterrupt

    at_failpoint(end)
    with pytest.raises(KeyboardInterrupt):
        replayed([job])
    at_failpoint(None)
    assert line.go() == [Outcome.BURIED]
    assert letters(line) == [job, job]
    newer = line.redis.xrevrange("jobs:dead")[0][0]
    dead_letters.Looked.at = float("-inf")
    assert dead_letters.reconcile(line.letters) == 1
    assert [letter for letter, _ in line.redis.xrange("jobs:dead")] == [newer]
    assert row_of(job).letter_id == newer.decode()
    replayed([job])
    assert letters(line) == []


# Many


def test_a_batch_goes_out_one_after_the_other_the_longest_dead_first(
    line: Line, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "REPLAYS_PER_SECOND": 4.0}
    jobs = die(line, 6)
    OutboxRow.objects.filter(pk=jobs[5]).update(dead_at=timezone.now() - timedelta(days=1))
    with correlated("7f3a9c2e", ""):
        taken = replayed(jobs, together=True)
    order = [jobs[5], *jobs[:5]]
    assert taken.keys == order
    rows = {row.pk: row for row in OutboxRow.objects.all()}
    first = rows[order[0]].due_at
    assert [(rows[job].due_at - first).total_seconds() for job in order] == [
        0, 0.25, 0.5, 0.75, 1, 1.25,
    ]  # fmt: skip
    assert all(row.available_at == row.due_at for row in rows.values())
    batch = ReplayBatch.objects.get()
    assert (batch.pk, batch.by, batch.request_id, batch.number) == (
        taken.batch, "ada", "7f3a9c2e", 6,
    )  # fmt: skip
    assert abs(batch.last_due_at - rows[order[-1]].due_at) < timedelta(seconds=0.2)
    assert set(JobEvent.objects.filter(batch=batch).values_list("outbox_id", flat=True)) == {*jobs}
    assert line.publish() == 1, "one now, the others after it"


def test_how_far_a_batch_is(line: Line, world: World) -> None:
    jobs = die(line, 6)
    taken = replayed(jobs, together=True)
    assert taken.batch is not None
    assert replay.progress(taken.batch) == Progress(done=0, dead=0, discarded=0, open=6)
    world.broken = False
    OutboxRow.objects.filter(pk__in=jobs[:3]).update(available_at=timezone.now())
    assert line.go() == [Outcome.PROCESSED] * 3
    world.broken = True
    OutboxRow.objects.update(available_at=timezone.now())
    assert line.go() == [Outcome.BURIED] * 3
    replay.discard(jobs[3:4], timezone.now(), ADA, "x")
    replayed(jobs[4:5])
    assert replay.progress(taken.batch) == Progress(done=3, dead=1, discarded=1, open=1)
    assert replay.progress(999) == Progress(0, 0, 0, 0)


def test_no_batch_is_left_where_nothing_was_dead(line: Line) -> None:
    assert replayed([1, 2], together=True) == Taken()
    assert not ReplayBatch.objects.exists()


def test_five_thousand_are_one_transaction_of_a_second_or_two(
    line: Line, django_assert_max_num_queries: Any
) -> None:
    """Their tracebacks, 80 MB, are left where they are."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, last_error,
                dead_reason, traceback, dead_by, dead_at, letter_id)
            SELECT 'example', jsonb_build_object('number', n), '', 'tickets', '', '', 'E: boom',
                'failed 5 times', repeat(md5(n::text), 500), 'w', now() - n * interval '1 s',
                n || '-1'
            FROM generate_series(1, 5000) AS n
            """
        )
    jobs = list(OutboxRow.objects.values_list("pk", flat=True))
    with django_assert_max_num_queries(12):
        taken = replay.replay(jobs, timezone.now(), ADA, together=True)
    assert (len(taken.keys), len(taken.letters)) == (5000, 5000)
    assert taken.keys[0] == max(jobs), "the longest dead"
    assert taken.batch is not None
    assert replay.progress(taken.batch).open == 5000
    times = OutboxRow.objects.order_by("available_at").values_list("available_at", flat=True)
    assert len(set(times)) == 5000
    assert timedelta(seconds=249) < max(times) - min(times) < timedelta(seconds=251)


# Consent


def test_consent_is_told_of_only_where_the_person_was_asked_and_it_may_repeat(
    line: Line, world: World
) -> None:
    jobs = die(line, 8)
    replayed(jobs[:4])
    assert world.told == []
    replayed(jobs[4:], twice_is_fine=True)
    assert world.told == [[5, 7]], "once for all of a kind"


def test_consent_falls_with_its_replay(line: Line, kind: Register) -> None:
    @kind(
        "refusing",
        policy=Policy(attempts=1, hold_after=0),
        foresee=lambda args: [MAY_REPEAT for _ in args],
        consent=lambda args: 1 / 0,
    )
    def refusing(job: Job[Args]) -> None: ...

    [job] = line.put("refusing")
    assert line.go() == [Outcome.BURIED]
    with pytest.raises(ZeroDivisionError):
        replayed([job], twice_is_fine=True)
    assert OutboxRow.objects.dead().filter(pk=job).exists()
    assert JobEvent.objects.filter(what=What.REPLAYED).count() == 0


@pytest.mark.parametrize(
    "change", [{"kind": "of_tomorrow"}, {"args": {"number": "seven"}}, {"args": [1]}], ids=str
)
def test_one_that_cannot_run_does_not_keep_the_others_from_their_consent(
    change: dict[str, Any], line: Line, world: World
) -> None:
    jobs = die(line, 4)
    OutboxRow.objects.filter(pk=jobs[1]).update(**change)
    assert replayed(jobs, twice_is_fine=True).keys == jobs
    assert world.told == [[3]]


# Discard


def refused_entry(line: Line, entry_id: str = "9-9") -> RefusedEntry:
    dead_letters.refuse(line.letters, Entry(entry_id, [(b"x", b"\xff")]), "malformed: x", "w-1")
    return RefusedEntry.objects.get(entry_id=entry_id)


def test_a_discarded_job_stays_dead_and_known_and_is_on_no_list(line: Line, world: World) -> None:
    jobs = die(line, 2)
    seen = timezone.now()
    with correlated("7f3a9c2e", ""):
        taken = replay.discard(jobs[:1], seen, ADA, "the event is over")
    dead_letters.take_away(taken.letters)
    assert taken.keys == jobs[:1]
    assert letters(line) == jobs[1:]
    row = row_of(jobs[0])
    assert row.dead_at is not None
    event = JobEvent.objects.get(what=What.DISCARDED)
    assert (event.outbox_id, event.by, event.note, event.request_id) == (
        jobs[0], "ada", "the event is over", "7f3a9c2e",
    )  # fmt: skip
    assert replayed(jobs[:1]) == Taken()
    assert replay.discard(jobs[:1], timezone.now(), ADA, "again") == Taken()
    assert replay.instead(jobs[0], seen) == (Instead.DISCARDED, row.discarded_at)
    dead_letters.Looked.at = float("-inf")
    assert dead_letters.reconcile(line.letters) == 0


def test_a_late_delivery_of_a_discarded_job_is_not_run(line: Line, world: World) -> None:
    [job] = die(line)
    replay.discard([job], timezone.now(), ADA, "x")
    [(entry_id, fields)] = line.redis.xrange("jobs")
    world.broken = False
    found = line.sort([Entry(entry_id.decode(), list(fields.items()))], redelivered=True)
    assert found.runnable == []
    assert not RefusedEntry.objects.exists()


def test_refused_entries_are_discarded_under_minus_their_ids_together_with_rows(
    line: Line,
) -> None:
    [job] = die(line)
    one, two = refused_entry(line), refused_entry(line, "9-10")
    noted: list[tuple[int, int | None]] = []
    seen = timezone.now()
    deed = Deed("ada", lambda *said: noted.append(said))
    taken = replay.discard([job, -one.pk], seen, deed, "x")
    assert taken.keys == [job, -one.pk]
    assert len(taken.letters) == 2
    assert noted == [(2, None)]
    dead_letters.take_away(taken.letters)
    assert [fields[b"entry_id"] for _, fields in line.redis.xrange("jobs:dead")] == [b"9-10"]
    one.refresh_from_db()
    two.refresh_from_db()
    assert one.settled_at is not None
    assert (one.settled_by, one.settled_reason) == ("ada", "x")
    assert (bytes(one.raw[1]), one.letter_id) == (b"\xff", "")
    assert two.settled_at is None
    assert replay.discard([-one.pk], timezone.now(), deed, "x") == Taken()
    assert replay.discard([-two.pk], seen - timedelta(hours=1), deed, "x") == Taken()
    assert len(noted) == 1


def test_an_entry_that_comes_again_after_it_was_settled_stays_settled(line: Line) -> None:
    """Killed between the refusal and the acknowledgement; discarded; delivered again."""
    one = refused_entry(line)
    dead_letters.take_away(replay.discard([-one.pk], timezone.now(), ADA, "x").letters)
    refused_entry(line)
    assert line.redis.xlen("jobs:dead") == 0
    one.refresh_from_db()
    assert one.settled_at is not None


def test_a_row_that_died_of_no_worker_is_dead_like_the_others(line: Line) -> None:
    """The relay buries what no entry can carry: no entry, no letter at first."""
    [job] = line.put("example")
    OutboxRow.objects.update(args=[1])
    line.publish()
    assert replayed([job]).letters == []
    line.publish()
    assert whats(job) == [What.BURIED, What.REPLAYED, What.BURIED]
    dead_letters.take_away(replay.discard([job], timezone.now(), ADA, "x").letters)
    assert OutboxRow.objects.dead().count() == 0


def test_a_job_that_was_replayed_and_dies_again_tells_the_later_death(
    line: Line, world: World
) -> None:
    [job] = die(line)
    OutboxRow.objects.update(deliveries=9)
    replayed([job])
    line.runner._worker = "worker-2"
    assert line.go() == [Outcome.BURIED]
    row = row_of(job)
    assert (row.attempts, row.dead_by, row.deliveries) == (1, "worker-2", 1)
    [(letter_id, letter)] = line.redis.xrange("jobs:dead")
    assert (letter[b"worker"], letter[b"attempts"]) == (b"worker-2", b"1")
    assert row.letter_id == letter_id.decode()


def test_a_burial_whose_job_was_replayed_meanwhile_leaves_no_letter(
    line: Line, at_failpoint: Arm
) -> None:
    """Between the dead row and its letter somebody replays: the letter would be of no dead job."""
    [job] = line.put("example")

    def act(place: str) -> None:
        if place == "dead_letters.marked":
            assert replayed([job]).keys == [job]

    at_failpoint(act)
    line.go()
    at_failpoint(None)
    assert letters(line) == []
    assert row_of(job).letter_id == ""


def test_a_failure_says_which_job_the_letter_is_of(line: Line) -> None:
    failure = Failure("E: x", "", "w")
    [job] = line.put("example")
    line.publish()
    [entry] = line.read()
    assert dead_letters.bury(line.letters, entry, job, "why", failure)
    assert not dead_letters.bury(line.letters, entry, job, "why", failure)
    assert letters(line) == [job]
    assert whats(job) == [What.BURIED]
