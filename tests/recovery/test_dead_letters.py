"""Death and replay with real processes, cut everywhere: no dead job is lost or doubled."""

import signal
from pathlib import Path

import pytest
from django.utils import timezone

from jobs import dead_letters, replay
from jobs.models import JobEvent, OutboxRow, ProcessedJob, RefusedEntry, ReplayBatch, What
from jobs.replay import Deed, Instead, Progress
from tests import servers
from tests.cuts import Cut
from tests.processes import SHIPPED, Process, duration, wait_for
from tests.recovery.conftest import Drill

MANY = 5_000 if SHIPPED else 500
REPLAY = """
import os, signal
from django.utils import timezone
from jobs import dead_letters, replay
end = lambda number, batch: os.kill(os.getpid(), signal.SIGKILL)
deed = replay.Deed("ada", end) if "KILLED" in os.environ else replay.Deed("ada")
taken = replay.replay({ids}, timezone.now(), deed, together=True)
dead_letters.take_away(taken.letters)
print(len(taken.keys), "replayed")
"""
GARBAGE: list[list[bytes]] = [
    [b"x", b"y"],
    [b"", b""],
    [b"kind", b"\xff\xfe", b"outbox_id", b"1"],
    [b"kind", b"drill_row", b"outbox_id", b"999999", b"number", b"seven"],
    [b"kind", b"drill_row", b"outbox_id", b"nonsense"],
    [b"kind", b"drill_row", b"kind", b"drill_kill", b"outbox_id", b"999999"],
    [b"kind", b"drill_of_tomorrow", b"outbox_id", b"999999"],
    [b"kind", b"drill_row", b"number", b"1", b"ms", b"0", b"outbox_id", b"999999",
     b"request_id", b"", b"trace", b""],
    [b"row", b"1", b"entry_id", b"1-1", b"big", b"z" * 500_000],
]  # fmt: skip
"""Entries of somebody else, every one of another kind."""


def replayer(drill: Drill, ids: list[int], **environment: str) -> Process:
    """A process that replays these and takes their letters away, as the admin does."""
    return drill.product.command("shell", "-c", REPLAY.format(ids=ids), **environment)


def replayed(ids: list[int]) -> list[int]:
    """The same here and now; those that were, sorted."""
    taken = replay.replay(ids, timezone.now(), Deed("ada"))
    dead_letters.take_away(taken.letters)
    return sorted(taken.keys)


def whats(job: int) -> list[str]:
    """What happened to the job, in order; starts of suspects left out."""
    events = JobEvent.objects.filter(outbox_id=job).exclude(what=What.STARTED_AGAIN)
    return list(events.order_by("id").values_list("what", flat=True))


# Death


@pytest.mark.parametrize(
    "place",
    [
        "runner.failure_counted/drill_once", "dead_letters.marked", "dead_letters.posted",
        "acknowledger.before", "acknowledger.after",
    ],
)  # fmt: skip
def test_a_job_dies_once_whatever_is_cut_and_its_replay_is_done(
    place: str, drill: Drill, tmp_path: Path
) -> None:
    cut = Cut(place, tmp_path / "mark")
    [job] = drill.put(kind="drill_once")
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    assert list(drill.dead()) == [job]
    drill.product.plain_worker("one")
    drill.nothing_left()
    drill.wait_until_dead([job])
    assert whats(job) == [What.FAILED, What.BURIED]
    assert OutboxRow.objects.get(pk=job).attempts == 1
    drill.mend()
    assert replayed([job]) == [job]
    drill.all_done_once([job])
    wait_for(lambda: drill.letters() == [], "no letter")


@pytest.mark.parametrize("place", ["runner.failure_counted/drill_fail", "acknowledger.before"])
def test_a_failure_is_counted_once_though_its_worker_dies_before_it_acknowledges(
    place: str, drill: Drill, tmp_path: Path
) -> None:
    cut = Cut(place, tmp_path / "mark")
    [job] = drill.put(kind="drill_fail")
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    assert whats(job) == [What.FAILED]
    drill.product.plain_worker("one")
    drill.nothing_left()
    assert whats(job) == [What.FAILED, What.FAILED, What.BURIED]
    assert drill.dead() == {job: "failed 2 times"}


def test_a_job_that_dies_while_redis_is_away_gets_its_letter_later(drill: Drill) -> None:
    [job] = drill.put(kind="drill_once", ms=60_000)
    drill.product.plain_worker("one").wait_until_it_runs("drill_once")
    servers.REDIS.kill()
    drill.open_gate()
    wait_for(lambda: drill.dead() == {job: "failed 1 times"}, "its death")
    servers.REDIS.start()
    drill.wait_until_dead([job])
    drill.nothing_left()
    assert whats(job) == [What.FAILED, What.BURIED]


def test_garbage_of_every_kind_is_kept_and_blocks_nobody(drill: Drill) -> None:
    jobs = drill.put(5)
    drill.wait_until_published(5)
    ids = [drill.redis.execute_command("XADD", "jobs", "*", *fields).decode() for fields in GARBAGE]
    jobs += drill.put(5)
    worker = drill.product.plain_worker("one")
    drill.all_done_once(jobs)
    wait_for(lambda: drill.letters() == sorted(ids), "a letter of each")
    kept = {entry.entry_id: entry for entry in RefusedEntry.objects.all()}
    for entry_id, fields in zip(ids, GARBAGE, strict=True):
        assert [bytes(part) for part in kept[entry_id].raw] == [part[:4096] for part in fields]
        assert kept[entry_id].reason.startswith(("malformed: ", "UnknownJob: "))
    assert worker.popen.poll() is None
    assert drill.dead() == {}


# A list that is lost


def test_letters_come_back_after_a_flush_rows_and_refused_entries_alike(drill: Drill) -> None:
    jobs = drill.put(5, kind="drill_once")
    entry = drill.redis.xadd("jobs", {"x": b"\xff"}).decode()
    drill.product.plain_worker("one")
    everything = sorted([*map(str, jobs), entry])
    wait_for(lambda: drill.letters() == everything, "a letter of each")
    before = stories(drill)
    drill.redis.flushall()
    flowing = drill.put(20)
    wait_for(lambda: drill.effects() == flowing, "what is not dead")
    wait_for(lambda: drill.letters() == everything, "every letter")
    assert stories(drill) == before
    drill.mend()
    assert replayed(jobs) == jobs
    drill.all_done_once([*jobs, *flowing])
    wait_for(lambda: drill.letters() == [entry], "the entry's letter alone")


def stories(drill: Drill) -> dict[bytes, tuple[bytes, bytes, bytes, bytes]]:
    """What each letter tells, by its row: of an entry it has no more, and its bytes."""
    found: dict[bytes, tuple[bytes, bytes, bytes, bytes]] = {}
    for _, letter in drill.redis.xrange("jobs:dead"):
        story = (letter[b"error"], letter[b"attempts"], letter[b"worker"], letter.get(b"x", b""))
        found[letter[b"row"]] = story
    return found


def test_what_was_trimmed_from_the_list_is_replayed_all_the_same(drill: Drill) -> None:
    jobs = drill.put(6, kind="drill_once")
    drill.product.plain_worker("one")
    drill.wait_until_dead(jobs)
    drill.mend()
    drill.redis.xtrim("jobs:dead", maxlen=2, approximate=False)
    assert replayed(jobs) == jobs
    drill.all_done_once(jobs)
    wait_for(lambda: drill.letters() == [], "no letter")


# Replay


def test_a_replay_killed_between_its_commit_and_the_letters_is_done_once(
    drill: Drill, tmp_path: Path
) -> None:
    """Many at once; and again by somebody who saw nothing of it."""
    jobs = drill.put(MANY, kind="drill_once")
    drill.product.plain_worker("one")
    drill.wait_until_dead(jobs)
    drill.mend()
    cut = Cut("replay.committed", tmp_path / "mark")
    cut.was_hit_by(replayer(drill, jobs, **cut.environment()))
    batch = ReplayBatch.objects.get()
    assert (batch.by, batch.number) == ("ada", MANY)
    second = replayer(drill, jobs)
    assert second.ended() == 0
    assert second.said("0 replayed")
    patience = MANY / duration("REPLAYS_PER_SECOND") + 120
    wait_for(lambda: not OutboxRow.objects.exists(), "all done", patience)
    drill.all_done_once(jobs)
    assert replay.progress(batch.pk) == Progress(done=MANY, dead=0, discarded=0, open=0)
    wait_for(lambda: drill.letters() == [], "no letter")
    assert drill.published() == 2 * MANY


def test_a_replay_killed_before_its_commit_has_done_nothing(drill: Drill) -> None:
    jobs = drill.put(20, kind="drill_once")
    drill.product.plain_worker("one")
    drill.wait_until_dead(jobs)
    drill.mend()
    assert replayer(drill, jobs, KILLED="1").ended() == -signal.SIGKILL
    wait_for(lambda: replayed(jobs[:1]) == jobs[:1], "the locks of the dead process to go")
    drill.all_done_once(jobs[:1])
    drill.wait_until_dead(jobs[1:])
    assert not ReplayBatch.objects.exists()
    assert [whats(job) for job in jobs[1:]] == [[What.FAILED, What.BURIED]] * 19
    assert replayed(jobs) == jobs[1:]
    drill.all_done_once(jobs)


def test_two_processes_that_replay_at_once_replay_once(drill: Drill) -> None:
    jobs = drill.put(50, kind="drill_once")
    drill.product.plain_worker("one")
    drill.wait_until_dead(jobs)
    drill.mend()
    people = [replayer(drill, jobs) for _ in range(3)]
    assert [person.ended() for person in people] == [0, 0, 0]
    drill.all_done_once(jobs)
    assert JobEvent.objects.filter(what=What.REPLAYED).count() == 50
    assert drill.published() == 100


def test_a_replay_while_a_sleeping_worker_still_holds_the_entry(drill: Drill) -> None:
    """Its job was taken over, died and was replayed meanwhile: it comes too late."""
    [job] = drill.put(kind="drill_once", ms=60_000)
    sleeper = drill.product.plain_worker("sleeper")
    sleeper.wait_until_it_runs("drill_once")
    sleeper.signal(signal.SIGSTOP)
    drill.product.plain_worker("taker").wait_until_it_runs("drill_once")
    drill.open_gate()
    drill.wait_until_dead([job])
    drill.mend()
    seen = timezone.now()
    assert replayed([job]) == [job]
    wait_for(lambda: ProcessedJob.objects.filter(pk=job).exists(), "the replay's end")
    sleeper.signal(signal.SIGCONT)
    wait_for(lambda: sleeper.said("duplicate") or sleeper.said("taken over"), "the late end")
    drill.all_done_once([job])
    assert replayed([job]) == []
    done = ProcessedJob.objects.get(pk=job)
    assert (done.worker, replay.instead(job, seen)) == (
        "taker", (Instead.DONE, done.processed_at),
    )  # fmt: skip
    assert drill.letters() == []


def test_a_sleeper_that_wakes_and_wins_makes_the_replayed_job_done_once(drill: Drill) -> None:
    [job] = drill.put(kind="drill_once", ms=60_000)
    sleeper = drill.product.plain_worker("sleeper")
    sleeper.wait_until_it_runs("drill_once")
    sleeper.signal(signal.SIGSTOP)
    taker = drill.product.plain_worker("taker")
    taker.wait_until_it_runs("drill_once")
    drill.open_gate()
    drill.wait_until_dead([job])
    drill.mend()
    assert taker.stop() == 0
    assert replayed([job]) == [job]
    drill.wait_until_published(2)
    sleeper.signal(signal.SIGCONT)
    drill.all_done_once([job])
    assert ProcessedJob.objects.get(pk=job).worker == "sleeper"
    wait_for(lambda: drill.letters() == [], "no letter")


def test_a_job_that_dies_again_is_there_again_with_one_letter(drill: Drill) -> None:
    [job] = drill.put(kind="drill_once")
    drill.product.plain_worker("one")
    for _ in range(3):
        drill.wait_until_dead([job])
        assert replayed([job]) == [job]
        wait_for(lambda: drill.dead() == {job: "failed 1 times"}, "its next death")
    drill.wait_until_dead([job])
    assert whats(job) == [What.FAILED, What.BURIED, *[What.REPLAYED, What.FAILED, What.BURIED] * 3]
    drill.mend()
    assert replayed([job]) == [job]
    drill.all_done_once([job])


def test_a_killer_that_was_replayed_may_kill_three_times_and_no_more(drill: Drill) -> None:
    [killer] = drill.put(kind="drill_kill")
    OutboxRow.objects.update(starts=2)
    worker = drill.product.plain_worker("one")
    drill.wait_until_dead([killer])
    assert replayed([killer]) == [killer]
    codes = [worker.ended()]
    while killer not in drill.dead():
        worker = drill.product.plain_worker("one")
        wait_for(lambda w=worker: w.popen.poll() is not None or drill.dead(), "an end")  # type: ignore[misc]
        if worker.popen.poll() is not None:
            codes.append(worker.ended())
    assert codes == [-signal.SIGKILL] * 3
    assert drill.dead() == {killer: "worker died 3 times"}
