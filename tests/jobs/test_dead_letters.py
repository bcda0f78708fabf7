"""`jobs:dead` follows the dead rows: what is missing is added, what is no longer dead removed."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction

from jobs import conclusion, dead_letters
from jobs.conclusion import Failure
from jobs.job import Job
from jobs.models import OutboxRow
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


def test_a_letter_that_stands_there_twice_is_removed_once(letters: Letters, redis: Any) -> None:
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
