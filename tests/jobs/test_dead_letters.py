"""`jobs:dead` follows the dead rows: what is missing is added, what is no longer dead removed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.utils import timezone

from jobs import conclusion, dead_letters, dead_rows
from jobs.conclusion import Failure
from jobs.job import Fields, Job
from jobs.models import OutboxRow, RefusedEntry
from jobs.outbox import enqueue
from jobs.stream import Entry, Letters
from tests.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)
FAILURE = Failure("ValueError: boom", "Traceback …", "worker-1")


@dataclass(frozen=True)
class Args:
    order_id: int


@pytest.fixture(autouse=True)
def _example(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None: ...


@pytest.fixture
def letters(redis: Any, settings: Any) -> Letters:
    settings.JOBS = {**settings.JOBS, "RECONCILE_AFTER": 0.0}
    dead_letters.Looked.at = float("-inf")
    return Letters(django_settings.REDIS_URL)


def buried(letters: Letters, count: int = 1) -> list[int]:
    """The ids of so many dead rows, each with its letter."""
    found = []
    for number in range(count):
        with transaction.atomic():
            row = enqueue("example", order_id=number)
        OutboxRow.objects.filter(pk=row).update(entry_id=f"{row}-1")
        fields = [(b"kind", b"example"), (b"outbox_id", str(row).encode())]
        assert dead_letters.bury(letters, Entry(f"{row}-1", fields), row, "failed", FAILURE)
        found.append(row)
    return found


def on_the_list(redis: Any) -> list[int]:
    return [int(fields[b"row"]) for _, fields in redis.xrange("jobs:dead")]


def test_a_list_in_order_is_left_alone(letters: Letters, redis: Any) -> None:
    rows = buried(letters, 3)
    assert dead_letters.reconcile(letters) == 0
    assert on_the_list(redis) == rows


def test_letters_that_redis_lost_come_back_with_the_story(letters: Letters, redis: Any) -> None:
    rows = buried(letters, 3)
    redis.flushall()
    assert dead_letters.reconcile(letters) == 3
    assert sorted(on_the_list(redis)) == rows
    fields = redis.xrange("jobs:dead")[0][1]
    assert fields[b"kind"] == b"example"
    assert fields[b"error"] == b"ValueError: boom"
    assert fields[b"worker"] == b"worker-1"
    assert dead_letters.reconcile(letters) == 0


def test_the_letter_of_a_row_that_is_no_longer_dead_is_removed(
    letters: Letters, redis: Any
) -> None:
    rows = buried(letters, 3)
    OutboxRow.objects.filter(pk=rows[1]).update(dead_at=None)
    OutboxRow.objects.filter(pk=rows[2]).delete()
    assert dead_letters.reconcile(letters) == 2
    assert on_the_list(redis) == rows[:1]


def test_a_row_that_has_just_died_is_left_to_its_worker(
    letters: Letters, redis: Any, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "RECONCILE_AFTER": 60.0}
    buried(letters, 1)
    redis.delete("jobs:dead")
    assert dead_letters.reconcile(letters) == 0


def test_many_letters_are_looked_at_page_by_page(letters: Letters, redis: Any) -> None:
    rows = buried(letters, 120)
    redis.xdel("jobs:dead", redis.xrange("jobs:dead")[70][0])
    assert dead_letters.reconcile(letters) == 1
    assert sorted(on_the_list(redis)) == rows


def test_a_refused_entry_keeps_its_letter(letters: Letters, redis: Any) -> None:
    rows = buried(letters, 1)
    dead_letters.refuse(letters, Entry("9-9", [(b"x", b"\xff")]), "malformed: x", "worker-1")
    redis.xdel("jobs:dead", redis.xrange("jobs:dead")[0][0])
    assert dead_letters.reconcile(letters) == 1
    assert redis.xlen("jobs:dead") == 2
    assert str(rows[0]) in [key for _, key in letters.read()]
    conclusion.refuse("9-9", [(b"x", b"\xff")], "malformed: x", "worker-1")
    assert dead_letters.reconcile(letters) == 0, "twice is once"


def test_of_two_letters_of_one_row_the_later_stays(letters: Letters, redis: Any) -> None:
    """It tells how the job died last; the other was left behind by a replay."""
    rows = buried(letters, 2)
    newer = redis.xadd("jobs:dead", redis.xrange("jobs:dead")[0][1])
    assert dead_letters.reconcile(letters) == 1
    assert sorted(on_the_list(redis)) == rows
    assert redis.xrevrange("jobs:dead")[0][0] == newer, "what its job last died of"
    assert OutboxRow.objects.get(pk=rows[0]).letter_id == newer.decode()


def test_equal_numbers_of_wrong_letters_are_found_all_the_same(
    letters: Letters, redis: Any
) -> None:
    rows = buried(letters, 2)
    redis.xdel("jobs:dead", redis.xrange("jobs:dead")[0][0])
    redis.xadd("jobs:dead", {"row": "999999"})
    redis.xadd("jobs:dead", {"row": "nonsense"})
    redis.xdel("jobs:dead", redis.xrevrange("jobs:dead")[0][0])
    assert dead_letters.reconcile(letters) == 2
    assert sorted(on_the_list(redis)) == rows


def test_deliveries_are_those_before_this_death(letters: Letters, redis: Any) -> None:
    """Of an entry that is not pending the server tells none: not those of the last time."""
    [row] = buried(letters, 1)
    OutboxRow.objects.update(dead_at=None, letter_id="", entry_id="7-7", deliveries=9)
    assert conclusion.mark_dead(row, "7-7", "failed", FAILURE)
    assert OutboxRow.objects.get(pk=row).deliveries == 0


def looks_at_every_letter(letters: Letters) -> bool:
    """Whether the next reconcile reads the whole list."""
    before = dead_letters.Looked.at
    dead_letters.reconcile(letters)
    return dead_letters.Looked.at != before


def test_a_list_in_order_is_not_read_again_and_again(letters: Letters, redis: Any) -> None:
    """10,000 letters are 50 MB; but ten minutes later all of it is looked at all the same."""
    buried(letters, 3)
    assert [looks_at_every_letter(letters) for _ in range(3)] == [True, False, False]
    redis.xdel("jobs:dead", redis.xrange("jobs:dead")[0][0])
    assert [looks_at_every_letter(letters) for _ in range(3)] == [True, False, False]
    dead_letters.Looked.at -= dead_letters.LOOK_AGAIN
    assert looks_at_every_letter(letters)


def test_more_dead_rows_than_letters_are_kept_is_a_list_in_order(
    letters: Letters, redis: Any, settings: Any
) -> None:
    """The rows of the oldest have no letter, for ever: that is no reason to look every time."""
    settings.JOBS = {**settings.JOBS, "DEAD_MAXLEN": 50}
    rows = buried(letters, 80)
    for age, row in enumerate(reversed(rows)):
        OutboxRow.objects.filter(pk=row).update(dead_at=timezone.now() - timedelta(minutes=age))
    assert dead_letters.reconcile(letters) == 30
    assert on_the_list(redis) == rows[30:]
    assert not looks_at_every_letter(letters)


def test_wrong_letters_push_no_good_ones_off_the_list(
    letters: Letters, redis: Any, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "DEAD_MAXLEN": 150}
    rows = buried(letters, 100)
    for number in range(200):
        redis.xadd("jobs:dead", {"row": str(1_000_000 + number)})
    rows += buried(Lost(django_settings.REDIS_URL), 50)
    assert redis.xlen("jobs:dead") == 300
    assert dead_letters.reconcile(letters) == 250
    assert sorted(on_the_list(redis)) == rows


class Lost(Letters):
    """Letters that never arrive: the process was killed before."""

    def add(self, fields: Fields, about: Mapping[str, str]) -> str:
        raise ConnectionError("killed")


def test_many_lost_letters_come_back_little_by_little_the_oldest_first(
    letters: Letters, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay publishes nothing while it adds them."""
    rows = buried(letters, 5)
    redis.flushall()
    monkeypatch.setattr(dead_letters, "ADD_FOR", 0.0)
    assert [dead_letters.reconcile(letters) for _ in range(7)] == [1, 1, 1, 1, 1, 0, 0]
    assert on_the_list(redis) == rows


def test_a_look_is_left_to_the_relay_that_looks(letters: Letters, redis: Any) -> None:
    buried(letters, 1)
    redis.flushall()
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [dead_rows.LETTERS_LOCK])
        assert dead_letters.reconcile(letters) == 0
    assert dead_letters.reconcile(letters) == 1


def test_refused_entries_that_redis_lost_come_back_as_they_came(
    letters: Letters, redis: Any
) -> None:
    entry = Entry("9-9", [(b"kind", b"\xff"), (b"kind", b"twice"), (b"", b"")])
    dead_letters.refuse(letters, entry, "malformed: x", "worker-1")
    [(_, before)] = redis.xrange("jobs:dead")
    redis.flushall()
    assert dead_letters.reconcile(letters) == 1
    raw = redis.execute_command("XRANGE", "jobs:dead", "-", "+")
    assert redis.xrange("jobs:dead")[0][1] == {**before, b"failed_at": raw_time(redis)}
    assert RefusedEntry.objects.get().letter_id == raw[0][0].decode()


def raw_time(redis: Any) -> bytes:
    found: bytes = redis.xrange("jobs:dead")[0][1][b"failed_at"]
    return found


class Settling(Letters):
    """Somebody settles every entry and replays every row while its letter is being added."""

    def add(self, fields: Fields, about: Mapping[str, str]) -> str:
        letter = super().add(fields, about)
        RefusedEntry.objects.update(settled_at=timezone.now(), letter_id="")
        OutboxRow.objects.update(dead_at=None, letter_id="")
        return letter


def test_what_is_settled_while_its_letter_is_added_again_has_none(
    letters: Letters, redis: Any
) -> None:
    buried(letters, 1)
    dead_letters.refuse(letters, Entry("9-9", [(b"x", b"y")]), "malformed: x", "worker-1")
    redis.flushall()
    settling = Settling(django_settings.REDIS_URL)
    assert dead_letters.reconcile(settling) == 1, "the other is settled before its turn"
    assert redis.xlen("jobs:dead") == 0
    assert not looks_at_every_letter(letters)


def test_what_is_settled_while_its_first_letter_is_added_has_none(
    letters: Letters, redis: Any
) -> None:
    settling = Settling(django_settings.REDIS_URL)
    dead_letters.refuse(settling, Entry("9-9", [(b"x", b"y")]), "malformed: x", "worker-1")
    buried(settling, 1)
    assert redis.xlen("jobs:dead") == 0


def test_an_entry_refused_twice_has_one_letter(letters: Letters, redis: Any) -> None:
    """Killed between the refusal and the acknowledgement, and delivered again."""
    for _ in range(3):
        dead_letters.refuse(letters, Entry("9-9", [(b"x", b"y")]), "malformed: x", "worker-1")
    assert redis.xlen("jobs:dead") == 1
    assert RefusedEntry.objects.count() == 1


def test_a_letter_whose_answer_was_lost_is_one_letter_in_the_end(
    letters: Letters, redis: Any
) -> None:
    class Unanswered(Letters):
        def add(self, fields: Fields, about: Mapping[str, str]) -> str:
            super().add(fields, about)
            raise ConnectionError("the answer is lost")

    [row] = buried(Unanswered(django_settings.REDIS_URL), 1)
    assert OutboxRow.objects.get(pk=row).letter_id == ""
    assert dead_letters.reconcile(letters) == 0
    assert on_the_list(redis) == [row]
    OutboxRow.objects.update(dead_at=None)
    assert dead_letters.reconcile(letters) == 1, "its row tells no letter, the list is looked at"
    assert on_the_list(redis) == []


def test_fields_of_an_entry_cannot_pass_for_the_letters_own(letters: Letters, redis: Any) -> None:
    """A foreign entry may call its fields as it likes."""
    rows = buried(letters, 1)
    forged = [(b"row", str(rows[0]).encode()), (b"entry_id", b"1-1"), (b"error", b"none")]
    dead_letters.refuse(letters, Entry("9-9", forged), "malformed: x", "worker-1")
    assert [key for _, key in letters.read()] == [str(rows[0]), "9-9"]
    assert dead_letters.reconcile(letters) == 0
