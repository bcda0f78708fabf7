"""Payloads that are no jobs: each ends on the list with field and reason, and blocks nobody."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone

from jobs.conclusion import RAW_LIMIT
from jobs.job import Fields, Job
from jobs.models import OutboxRow, ProcessedJob, RefusedEntry
from jobs.runner import Outcome
from jobs.stream import Entry
from tests.conftest import Register
from tests.line import Line

pytestmark = pytest.mark.django_db(transaction=True)
type Change = Callable[[dict[bytes, bytes]], Fields]


@dataclass(frozen=True)
class Args:
    number: int
    note: str


@pytest.fixture
def line(redis: Any, kind: Register) -> Line:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass

    return Line(redis)


def without(name: bytes) -> Change:
    return lambda fields: [pair for pair in fields.items() if pair[0] != name]


def with_(name: bytes, value: bytes) -> Change:
    return lambda fields: list({**fields, name: value}.items())


def twice(name: bytes) -> Change:
    return lambda fields: [*fields.items(), (name, fields[name])]


CHANGES: list[tuple[Change, str]] = [
    (without(b"kind"), "kind: is missing"),
    (with_(b"kind", b"\xff\xfe"), "kind: is not UTF-8"),
    (with_(b"kind", b"exam\0ple"), "kind: contains a NUL"),
    (with_(b"kind", b"k" * 2000), "kind: has 2000 bytes, more than 1024"),
    (twice(b"kind"), "'kind': stands there more than once"),
    (without(b"outbox_id"), "outbox_id: is missing"),
    (with_(b"outbox_id", b""), "outbox_id: is not a whole number: ''"),
    (with_(b"outbox_id", b"0"), "outbox_id: is out of range: '0'"),
    (with_(b"outbox_id", b"-7"), "outbox_id: is out of range: '-7'"),
    (with_(b"outbox_id", b"9" * 19), "outbox_id: is out of range"),
    (with_(b"outbox_id", b"9" * 1000), "outbox_id: is out of range"),
    (with_(b"outbox_id", b"\xff"), "outbox_id: is not UTF-8"),
    (twice(b"outbox_id"), "'outbox_id': stands there more than once"),
    (without(b"request_id"), "request_id: is missing"),
    (with_(b"request_id", b"\xc3"), "request_id: is not UTF-8"),
    (without(b"trace"), "trace: is missing"),
    (with_(b"trace", b"t" * 1025), "trace: has 1025 bytes, more than 1024"),
    (without(b"number"), "number: is missing"),
    (with_(b"number", b"seven"), "number: is not a whole number: 'seven'"),
    (with_(b"number", b" 7"), "number: is not a whole number: ' 7'"),
    (with_(b"number", b"1_0"), "number: is not a whole number: '1_0'"),
    (with_(b"number", "٧".encode()), "number: is not a whole number: '٧'"),
    (with_(b"number", str(2**63).encode()), "number: is out of range"),
    (with_(b"number", b"7\0"), "number: contains a NUL"),
    (twice(b"number"), "'number': stands there more than once"),
    (without(b"note"), "note: is missing"),
    (with_(b"note", b"\xed\xa0\x80"), "note: is not UTF-8"),
    (with_(b"note", b"x" * 1_000_000), "note: has 1000000 bytes, more than 1024"),
    (with_(b"more", b"1"), "'more': is not a field of this kind"),
    (with_(b"\xff", b"1"), "'\\ufffd': is not a field of this kind"),
    (with_(b"", b""), "'': is not a field of this kind"),
    (lambda _: [(b"", b"")], "kind: is missing"),
    (lambda _: [(b"\0", b"\xff")], "kind: is missing"),
]
IDS = [f"{number}: {reason[:40]}" for number, (_, reason) in enumerate(CHANGES)]


@pytest.mark.parametrize(("change", "reason"), CHANGES, ids=IDS)
def test_the_row_of_a_malformed_entry_is_dead_at_once_with_field_and_reason(
    change: Change, reason: str, line: Line
) -> None:
    job = line.put_with("example", number=7, note="x")
    line.publish()
    [entry] = line.read()
    fields = change(dict(entry.fields))
    found = line.sort([Entry(entry.id, fields)])
    assert (found.runnable, found.concluded) == ([], [entry.id])
    row = OutboxRow.objects.get()
    assert (row.pk, row.attempts, row.entry_id) == (job, 0, None)
    assert row.dead_at is not None
    assert row.dead_reason.startswith(f"malformed: {reason}")
    assert row.last_error.startswith("MalformedJob: ")
    assert not RefusedEntry.objects.exists()
    [(_, letter)] = line.redis.xrange("jobs:dead")
    assert reason.encode() in letter[b"error"]
    assert (letter[b"row"], letter[b"entry_id"]) == (str(job).encode(), entry.id.encode())
    assert {(name, letter[name]) for name, _ in fields} >= set(dict(fields).items())
    assert line.pending() == 0


@pytest.mark.parametrize(("change", "reason"), CHANGES, ids=IDS)
def test_a_malformed_entry_without_a_row_is_kept_with_its_raw_bytes_and_reason(
    change: Change, reason: str, line: Line
) -> None:
    fields = change(
        {
            b"kind": b"example", b"number": b"7", b"note": b"x", b"outbox_id": b"999999",
            b"request_id": b"", b"trace": b"",
        }
    )  # fmt: skip
    for _ in range(2):
        assert line.sort([Entry("5-5", fields)]).concluded == ["5-5"]
    entry = RefusedEntry.objects.get()
    assert (entry.entry_id, entry.worker) == ("5-5", "worker-1")
    assert entry.reason.startswith(f"malformed: {reason}")
    flat = [part[:RAW_LIMIT] for pair in fields for part in pair]
    assert [bytes(part) for part in entry.raw] == flat
    [(_, letter)] = line.redis.xrange("jobs:dead")
    assert (letter[b"row"], letter[b"entry_id"]) == (b"", b"5-5")


def test_good_jobs_around_malformed_ones_are_done(line: Line) -> None:
    jobs = [line.put_with("example", number=number, note="x") for number in range(3)]
    line.publish()
    for change, _ in CHANGES:
        fields = change({b"kind": b"example", b"outbox_id": b"999999", b"note": b"", b"trace": b"",
                         b"number": b"7", b"request_id": b""})  # fmt: skip
        line.redis.execute_command("XADD", "jobs", "*", *[x for pair in fields for x in pair])
    jobs += [line.put_with("example", number=number, note="x") for number in range(3)]
    line.publish()
    assert line.take() == [Outcome.PROCESSED] * 6
    assert sorted(ProcessedJob.objects.values_list("outbox_id", flat=True)) == jobs
    assert line.pending() == 0
    assert RefusedEntry.objects.count() >= len(CHANGES) - 3


def test_an_entry_of_absurd_size_is_kept_in_part(line: Line) -> None:
    fields = [(b"field-%d" % number, b"y" * 5000) for number in range(RAW_LIMIT + 10)]
    line.sort([Entry("5-5", fields)])
    raw = RefusedEntry.objects.get().raw
    assert len(raw) == 2 * RAW_LIMIT
    assert max(len(part) for part in raw) == RAW_LIMIT


def test_a_foreign_entry_that_names_a_job_at_work_harms_nobody(line: Line) -> None:
    """It has the number of a row, and is not that row's publication."""
    job = line.put_with("example", number=7, note="x")
    line.publish()
    line.sort([Entry("5-5", [(b"kind", b"example"), (b"outbox_id", str(job).encode())])])
    assert RefusedEntry.objects.get().reason == "malformed: number: is missing"
    assert OutboxRow.objects.get().dead_at is None
    assert line.take() == [Outcome.PROCESSED]
    line.sort([Entry("5-6", [(b"kind", b"example"), (b"outbox_id", str(job).encode())])])
    assert RefusedEntry.objects.count() == 2
    assert ProcessedJob.objects.count() == 1


def test_a_malformed_entry_that_comes_again_is_acknowledged_and_told_once(line: Line) -> None:
    """Killed between the dead row and the acknowledgement."""
    line.put_with("example", number=7, note="x")
    line.publish()
    [entry] = line.read()
    broken = Entry(entry.id, [*entry.fields, (b"more", b"1")])
    for _ in range(3):
        assert line.sort([broken], redelivered=True).concluded == [entry.id]
    assert line.redis.xlen("jobs:dead") == 1
    assert not RefusedEntry.objects.exists()


def test_an_unknown_kind_without_a_row_to_wait_in_is_refused_at_once(line: Line) -> None:
    for entry_id, number in (("5-5", b"999999"), ("5-6", b"nonsense")):
        line.sort([Entry(entry_id, [(b"kind", b"of_tomorrow"), (b"outbox_id", number)])])
    reasons = dict(RefusedEntry.objects.values_list("entry_id", "reason"))
    assert reasons["5-5"] == "UnknownJob: no outbox row 999999"
    assert reasons["5-6"].startswith("malformed: outbox_id: ")
    assert set(RefusedEntry.objects.values_list("kind", flat=True)) == {"of_tomorrow"}


def test_an_unknown_kind_waits_for_its_build_for_an_hour_and_no_longer(
    line: Line, settings: Any
) -> None:
    job = line.put_with("example", number=7, note="x")
    OutboxRow.objects.update(kind="of_tomorrow", attempts=2)
    line.go()
    row = OutboxRow.objects.get(pk=job)
    assert row.unknown_since is not None
    assert 25 < (row.available_at - timezone.now()).total_seconds() <= 30
    assert (row.attempts, row.dead_at) == (2, None)
    OutboxRow.objects.update(available_at=timezone.now())
    settings.JOBS = {**settings.JOBS, "UNKNOWN_LIMIT": 0.0}
    line.go()
    row.refresh_from_db()
    assert row.dead_reason == "no build knows the kind of_tomorrow for 0 s"
    assert (row.attempts, line.pending()) == (2, 0)
