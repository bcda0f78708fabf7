"""One step of the relay against a real stream."""

import time
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis as redis_client
from django.conf import settings
from django.db import connection, transaction

from jobs import relay
from jobs.correlation import correlated
from jobs.job import Job
from jobs.models import OutboxRow
from jobs.outbox import enqueue
from jobs.stream import RelayStream, StreamAway
from tests import servers
from tests.conftest import Arm, Register
from tests.processes import Product

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Args:
    order_id: int


@pytest.fixture(autouse=True)
def _example(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass


@pytest.fixture
def stream(redis: redis_client.Redis) -> RelayStream:
    made = RelayStream(settings.REDIS_URL)
    made.ensure_group()
    return made


def put(count: int = 1) -> list[int]:
    with transaction.atomic():
        return [enqueue("example", order_id=number) for number in range(count)]


def entries(redis: redis_client.Redis) -> list[Any]:
    return [fields for _, fields in redis.xrange("jobs") or []]


def test_a_row_becomes_an_entry_with_its_arguments_and_ids(
    redis: redis_client.Redis, stream: RelayStream
) -> None:
    with correlated("7f3a9c2e", "abc-def"):
        [row] = put()
    assert relay.step(stream, 500) == 1
    assert entries(redis) == [
        {
            b"kind": b"example",
            b"order_id": b"0",
            b"outbox_id": str(row).encode(),
            b"request_id": b"7f3a9c2e",
            b"trace": b"abc-def",
        }
    ]
    found = OutboxRow.objects.get()
    assert found.relayed_at is not None
    [(entry_id, _)] = redis.xrange("jobs") or []
    assert entry_id == str(found.entry_id).encode()


def test_a_step_takes_one_batch_in_order_and_the_rest_later(
    redis: redis_client.Redis, stream: RelayStream
) -> None:
    rows = put(7)
    assert [relay.step(stream, 3) for _ in range(4)] == [3, 3, 1, 0]
    assert [int(fields[b"outbox_id"]) for fields in entries(redis)] == rows


def test_a_redis_that_is_away_leaves_the_rows_due(stream: RelayStream) -> None:
    put(2)
    servers.REDIS.kill()
    try:
        with pytest.raises(StreamAway):
            relay.step(stream, 500)
    finally:
        servers.REDIS.start()
    assert OutboxRow.objects.filter(relayed_at__isnull=True, entry_id__isnull=True).count() == 2
    stream.ensure_group()
    assert relay.step(stream, 500) == 2


def test_a_crash_between_append_and_mark_publishes_twice_rather_than_never(
    redis: redis_client.Redis, stream: RelayStream, at_failpoint: Arm
) -> None:
    put()

    def crash(place: str) -> None:
        if place.startswith("relay.appended"):
            raise KeyboardInterrupt

    at_failpoint(crash)
    with pytest.raises(KeyboardInterrupt):
        relay.step(stream, 500)
    at_failpoint(None)
    assert relay.step(stream, 500) == 1
    assert len(entries(redis)) == 2


def test_the_stream_is_cut_near_its_limit(
    redis: redis_client.Redis, stream: RelayStream, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "MAXLEN": 100}
    put(1000)
    relay.step(stream, 1000)
    assert 100 <= redis.xlen("jobs") < 300


def test_the_group_of_a_new_stream_starts_at_its_end_and_a_lost_one_at_zero(
    redis: redis_client.Redis,
) -> None:
    stream = RelayStream(settings.REDIS_URL)
    stream.ensure_group()
    stream.append([{"kind": "example"}])
    stream.ensure_group()
    assert redis.xinfo_groups("jobs")[0]["last-delivered-id"] == b"0-0"
    redis.xgroup_destroy("jobs", "workers")
    stream.ensure_group()
    assert redis.xinfo_groups("jobs")[0]["last-delivered-id"] == b"0-0"
    assert redis.xinfo_groups("jobs")[0]["lag"] == 1


def test_the_batch_grows_back_after_an_outage_though_the_backlog_is_long(
    redis: redis_client.Redis, stream: RelayStream, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "RELAY_BATCH": 8}
    runs = relay.Relay(stream, "test")
    put(40)
    for _ in range(5):
        runs._back_off(StreamAway("away"))
    assert runs._batch == 1
    sizes = []
    for _ in range(5):
        before = redis.xlen("jobs")
        runs._turn()
        sizes.append(redis.xlen("jobs") - before)
    runs._close_listener()
    assert sizes == [1, 2, 4, 8, 8]


def test_a_row_locked_by_somebody_else_does_not_make_the_relay_spin(
    redis: redis_client.Redis, stream: RelayStream
) -> None:
    [row] = put()
    runs = relay.Relay(stream, "test")
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT 1 FROM jobs_outbox WHERE id = %s FOR UPDATE", [row])
        began = time.monotonic()
        for _ in range(5):
            runs._turn()
        assert time.monotonic() - began > 4 * 0.1
    runs._turn()
    runs._close_listener()
    assert redis.xlen("jobs") == 1


def test_a_wrong_password_ends_the_relay_loudly(product: Product) -> None:
    wrong = {"DATABASE_URL": "postgres://nobody:wrong@" + servers.POSTGRES.url("x").split("@")[1]}
    process = product.relay(**wrong)
    assert process.ended() == 7
    assert "refused by a server" in process.log()
    assert "wrong" not in process.log().replace("wrong password", "")
