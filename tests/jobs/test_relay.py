"""One step of the relay against a real stream."""

import contextlib
import time
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import psycopg
import pytest
import redis as redis_client
from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import holds, publishing, relay, tally
from jobs.correlation import correlated
from jobs.job import Job
from jobs.models import OutboxRow, QueueEpoch
from jobs.outbox import enqueue
from jobs.stream import Letters, RelayStream, StreamAway, StreamRefused
from jobs.tally import State
from stagedoor.embedded.server import free_port
from tests import servers
from tests.conftest import Arm, Register
from tests.processes import Product, wait_for

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
    assert publishing.step(stream, 500) == 1
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
    assert [publishing.step(stream, 3) for _ in range(4)] == [3, 3, 1, 0]
    assert [int(fields[b"outbox_id"]) for fields in entries(redis)] == rows


def test_a_redis_that_is_away_leaves_the_rows_due(stream: RelayStream) -> None:
    put(2)
    servers.REDIS.kill()
    try:
        with pytest.raises(StreamAway):
            publishing.step(stream, 500)
    finally:
        servers.REDIS.start()
    assert OutboxRow.objects.filter(relayed_at__isnull=True, entry_id__isnull=True).count() == 2
    stream.ensure_group()
    assert publishing.step(stream, 500) == 2


def test_a_crash_between_append_and_mark_publishes_twice_rather_than_never(
    redis: redis_client.Redis, stream: RelayStream, at_failpoint: Arm
) -> None:
    put()

    def crash(place: str) -> None:
        if place.startswith("relay.appended"):
            raise KeyboardInterrupt

    at_failpoint(crash)
    with pytest.raises(KeyboardInterrupt):
        publishing.step(stream, 500)
    at_failpoint(None)
    assert publishing.step(stream, 500) == 1
    assert len(entries(redis)) == 2


def test_the_stream_is_cut_near_its_limit(
    redis: redis_client.Redis, stream: RelayStream, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "MAXLEN": 100}
    put(1000)
    publishing.step(stream, 1000)
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
    runs = relay.Relay(stream, Letters(settings.REDIS_URL), "test")
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
    runs = relay.Relay(stream, Letters(settings.REDIS_URL), "test")
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


def published(redis: redis_client.Redis) -> list[int]:
    """The outbox ids on the stream, in order."""
    return [int(fields[b"outbox_id"]) for fields in entries(redis)]


@pytest.mark.parametrize("loss", ["FLUSHALL", "DEL jobs:epoch", "SET jobs:epoch another"])
def test_a_server_that_does_not_know_the_epoch_gets_everything_again(
    loss: str, redis: Any, stream: RelayStream
) -> None:
    rows = put(5)
    publishing.step(stream, 500)
    redis.execute_command(*loss.split())
    stream.rebuilt_at = float("-inf")
    assert publishing.step(stream, 500) == 5
    assert published(redis)[-5:] == rows
    assert OutboxRow.objects.filter(relayed_at__isnull=False).count() == 5
    assert redis.get("jobs:epoch").decode() == QueueEpoch.objects.get().value


def test_a_memory_lost_between_two_steps_is_noticed_though_nothing_is_due(
    redis: Any, stream: RelayStream
) -> None:
    rows = put(3)
    publishing.step(stream, 500)
    assert publishing.step(stream, 500) == 0
    redis.flushall()
    stream.rebuilt_at = float("-inf")
    assert publishing.step(stream, 500) == 3
    assert published(redis) == rows


def test_a_memory_lost_in_mid_step_marks_nothing_that_is_not_there(
    redis: Any, stream: RelayStream, at_failpoint: Arm
) -> None:
    put(1)
    publishing.step(stream, 500)
    rows = put(3)
    lost: list[str] = []

    def lose(place: str) -> None:
        if place.startswith("relay.appended") and not lost:
            lost.append(place)
            redis.flushall()
            stream.seen_epoch = ""
            stream.rebuilt_at = float("-inf")

    at_failpoint(lose)
    publishing.step(stream, 500)
    at_failpoint(None)
    while publishing.step(stream, 500):
        pass
    assert set(rows) <= set(published(redis))
    assert not OutboxRow.objects.filter(relayed_at__isnull=True).exists()


def test_two_relays_rebuild_once(redis: Any, stream: RelayStream) -> None:
    put(3)
    publishing.step(stream, 500)
    redis.flushall()
    assert publishing.rebuild(stream) == 3
    assert publishing.rebuild(RelayStream(settings.REDIS_URL)) == 0
    assert publishing.rebuild(stream, by_hand=True) == 0, "nothing is relayed at present"


def test_a_rebuild_by_hand_publishes_all_again(redis: Any, stream: RelayStream) -> None:
    rows = put(3)
    publishing.step(stream, 500)
    assert publishing.rebuild(stream, by_hand=True) == 3
    assert publishing.step(stream, 500) == 3
    assert published(redis) == rows * 2


def test_dead_rows_are_not_published_again(redis: Any, stream: RelayStream) -> None:
    put(2)
    publishing.step(stream, 500)
    OutboxRow.objects.update(dead_at=Now())
    redis.flushall()
    stream.rebuilt_at = float("-inf")
    assert publishing.step(stream, 500) == 0
    assert published(redis) == []


def lose_entries(redis: Any, how: str) -> None:
    """Of five entries, read by nobody or by a worker, two go astray."""
    ids = [entry_id for entry_id, _ in redis.xrange("jobs")]
    if how == "trimmed unread":
        redis.xtrim("jobs", minid=ids[2], approximate=False)
    else:
        redis.xreadgroup("workers", "worker-1", {"jobs": ">"}, count=3)
        if how == "trimmed and not pending":
            redis.xack("jobs", "workers", *ids[:2])
            redis.xtrim("jobs", minid=ids[2], approximate=False)
        else:
            redis.xack("jobs", "workers", *ids[:2])


@pytest.mark.parametrize(
    "how", ["trimmed unread", "trimmed and not pending", "acknowledged and not done"]
)
def test_what_the_stream_lost_is_made_due_again_and_nothing_else(
    how: str, redis: Any, stream: RelayStream, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "RECONCILE_AFTER": 0.0}
    rows = put(5)
    publishing.step(stream, 500)
    assert publishing.reconcile(stream) == 0
    lose_entries(redis, how)
    assert publishing.reconcile(stream) == 2
    assert publishing.reconcile(stream) == 0
    due = OutboxRow.objects.filter(relayed_at__isnull=True, entry_id__isnull=True)
    assert set(due.values_list("id", flat=True)) == set(rows[:2])


def test_a_fresh_publication_is_left_alone(redis: Any, stream: RelayStream) -> None:
    put(1)
    publishing.step(stream, 500)
    redis.xtrim("jobs", maxlen=0, approximate=False)
    assert publishing.reconcile(stream) == 0


def test_a_lost_group_or_stream_loses_every_entry(
    redis: Any, stream: RelayStream, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "RECONCILE_AFTER": 0.0}
    put(2)
    publishing.step(stream, 500)
    redis.delete("jobs")
    assert publishing.reconcile(stream) == 2


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ([1, 2], "args are a list"),
        ({"order_id": None}, "order_id is a NoneType"),
        ({"order_id": True}, "order_id is a bool"),
        ({"order_id": 1, "kind": "other"}, "kind belongs to the envelope"),
        ({"order_id": 10**3000}, "characters, more than 1024"),
        ({"order_id": 1, "note": "x" * 2000}, "more than 1024"),
    ],
)
def test_a_row_that_no_entry_can_carry_is_dead_and_its_batch_goes_on(
    args: Any, reason: str, redis: Any, stream: RelayStream
) -> None:
    rows = put(3)
    OutboxRow.objects.filter(pk=rows[1]).update(args=args)
    assert publishing.step(stream, 500, by="relay-7") == 3
    assert published(redis) == [rows[0], rows[2]]
    dead = OutboxRow.objects.get(pk=rows[1])
    assert dead.dead_at is not None
    assert dead.dead_reason.startswith("cannot be published: ")
    assert reason in dead.dead_reason
    assert dead.dead_by == "relay-7"


def test_a_row_committed_late_with_a_lower_id_is_not_skipped(
    redis: Any, stream: RelayStream
) -> None:
    with psycopg.connect(**connection.get_connection_params()) as slow:
        slow.execute(
            "INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, last_error,"
            " dead_reason, traceback, dead_by) VALUES ('example', '{\"order_id\": 1}', '',"
            " 'tickets', '', '', '', '', '', '')"
        )
        [later] = put(1)
        assert publishing.step(stream, 500) == 1
        slow.commit()
    assert publishing.step(stream, 500) == 1
    assert published(redis)[0] == later
    assert published(redis)[1] < later


def test_above_the_mark_a_relay_holds_and_says_so(
    stream: RelayStream, settings: Any, caplog: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "MARK": 5}
    put(9)
    pressure = relay.Pressure()
    assert pressure.room() == 5
    pressure.add(publishing.step(stream, pressure.room()))
    assert pressure.room() == 0
    assert "holds: 5 rows are relayed and not done" in caplog.text
    OutboxRow.objects.filter(relayed_at__isnull=False).delete()
    assert relay.Pressure().room() == 5
    assert tally.count().number(State.RELAYED) == 0


def test_a_memory_lost_while_the_relay_holds_is_noticed(
    redis: Any, stream: RelayStream, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "MARK": 5}
    rows = put(9)
    runs = relay.Relay(stream, Letters(settings.REDIS_URL), "test")
    runs._turn()
    assert len(published(redis)) == 5
    stream.rebuilt_at = float("-inf")
    redis.flushall()
    runs._turn()
    runs._turn()
    assert published(redis) == rows[:5]
    runs._close_listener()


def test_two_servers_taking_turns_are_an_outage_and_no_hot_loop(
    redis: Any, stream: RelayStream
) -> None:
    put(1)
    publishing.step(stream, 500)
    redis.delete("jobs:epoch")
    with pytest.raises(StreamAway, match="a moment after"):
        publishing.step(stream, 500)
    stream.rebuilt_at = float("-inf")
    assert publishing.step(stream, 500) == 1


def test_a_relay_that_may_not_look_refuses_to_guess(redis: Any, stream: RelayStream) -> None:
    put(1)
    publishing.step(stream, 500)
    redis.acl_setuser("default", enabled=True, commands=["-xpending"])
    try:
        with pytest.raises(StreamRefused):
            stream.lost_among([redis.xrange("jobs")[0][0].decode()])
    finally:
        redis.acl_setuser("default", enabled=True, commands=["+xpending"])


def test_a_relay_serves_its_series_and_says_which_kinds_it_keeps_back(
    product: Product, redis: redis_client.Redis
) -> None:
    holds.pause("render_tickets", 60, "a test", "ann@desk")
    port = free_port()
    product.command("relay", "--metrics-port", str(port))

    def held() -> bool:
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return b'stagedoor_kind_held{by="person",kind="render_tickets"} 1.0' in answer.read()
        return False

    wait_for(held, "the hold among the series")
    second = product.command("relay", "--metrics-port", str(port))
    assert second.ended() == 2
    assert f"--metrics-port {port}" in second.log()
