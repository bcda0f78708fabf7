"""A Redis that loses data: its memory, its last writes, what is trimmed. All is done, once."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.core.cache import cache
from django.db import connection

from jobs.models import OutboxRow, RefusedEntry
from stagedoor.embedded import RedisServer
from tests import servers
from tests.cuts import Cut
from tests.processes import SHIPPED, wait_for
from tests.recovery.conftest import Drill

MAXLEN = 100_000 if SHIPPED else 1_000
OVER_THE_MARK = 150_000 if SHIPPED else 1_500
"""Rows for a mark of 80,000, or of 800 (design §7)."""


@pytest.mark.parametrize("loss", ["FLUSHALL", "DEL jobs"])
def test_a_stream_lost_in_the_middle_of_a_backlog(loss: str, drill: Drill) -> None:
    drill.product.plain_worker("one")
    jobs = drill.put(300, ms=2)
    wait_for(lambda: len(drill.effects()) > 50, "some of the jobs")
    drill.redis.execute_command(*loss.split())
    jobs += drill.put(20)
    drill.all_done_once(jobs)
    assert drill.attempts() == {0}


def test_a_killed_redis_without_persistence(drill: Drill) -> None:
    drill.product.plain_worker("one")
    jobs = drill.put(300, ms=2)
    wait_for(lambda: len(drill.effects()) > 50, "some of the jobs")
    servers.REDIS.kill()
    servers.REDIS.start()
    drill.all_done_once(jobs)


@contextlib.contextmanager
def on(server: RedisServer, settings: Any) -> Iterator[None]:
    """The product works on this server instead, which is started and ended here."""
    server.start()
    settings.REDIS_URL = server.url(0)
    try:
        yield
    finally:
        server.kill()


def kind_of(server: RedisServer, folder: Path, *, durable: bool) -> RedisServer:
    """Another server of the same program."""
    return type(server)(folder, durable=durable)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new folder for servers: Redis cannot read what Valkey has written."""
    with tempfile.TemporaryDirectory(dir=Path(servers.POSTGRES.folder).parent) as name:
        Path(name).chmod(0o711)
        yield Path(name)


def stopped(drill: Drill) -> None:
    """The relay that the fixture has started belongs to the first server."""
    for process in drill.product.started:
        process.kill()


def test_a_killed_redis_with_an_append_only_file(drill: Drill, folder: Path, settings: Any) -> None:
    stopped(drill)
    server = kind_of(servers.REDIS, folder / "durable", durable=True)
    with on(server, settings):
        drill.use(server.url(0))
        drill.product.relay()
        drill.product.plain_worker("one")
        jobs = drill.put(200, ms=2)
        wait_for(lambda: len(drill.effects()) > 30, "some of the jobs")
        server.kill()
        server.start()
        drill.all_done_once(jobs)
        stopped(drill)


def test_a_replica_that_is_promoted_and_misses_the_last_writes(
    drill: Drill, folder: Path, settings: Any
) -> None:
    """WAIT 1, then the replica is cut off, then the last entries: it knows the epoch, not them."""
    stopped(drill)
    master = kind_of(servers.REDIS, folder / "master", durable=False)
    replica = kind_of(servers.REDIS, folder / "replica", durable=False)
    replica.start()
    try:
        with on(master, settings):
            drill.use(master.url(0))
            first = drill.product.relay()
            known = drill.put(20)
            drill.wait_until_published(20)
            follow(replica, master)
            wait_for(lambda: drill.redis.execute_command("WAIT", 1, 1000) == 1, "the replica")
            with client(replica) as promoted:
                promoted.execute_command("REPLICAOF", "NO", "ONE")
            missed = drill.put(20)
            drill.wait_until_published(40)
            first.kill()
        settings.REDIS_URL = replica.url(0)
        drill.use(replica.url(0))
        drill.product.relay()
        drill.product.plain_worker("one")
        drill.all_done_once(known + missed)
    finally:
        stopped(drill)
        replica.kill()


def client(server: RedisServer) -> redis_client.Redis:
    return redis_client.Redis.from_url(server.url(0), protocol=2)


def follow(replica: RedisServer, master: RedisServer) -> None:
    """Replicate, and wait until it is in step."""
    with client(replica) as one:
        one.config_set("masterauth", master.password)
        one.execute_command("REPLICAOF", "127.0.0.1", str(master.port))
        wait_for(lambda: one.info("replication").get("master_link_status") == "up", "the link")


def test_trimming_of_unread_and_of_pending_entries(drill: Drill) -> None:
    jobs = drill.put(8, ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row", 8)
    jobs += drill.put(30)
    drill.wait_until_published(38)
    drill.redis.xtrim("jobs", maxlen=0, approximate=False)
    drill.open_gate()
    drill.all_done_once(jobs)


def test_more_rows_than_the_stream_keeps_wait_in_the_outbox(drill: Drill) -> None:
    jobs = drill.put(OVER_THE_MARK)
    mark = 80_000 if SHIPPED else 800
    wait_for(lambda: drill.redis.xlen("jobs") >= mark * 0.99, "a full stream", seconds=300)
    wait_for(lambda: drill.product.started[0].said("holds: "), "the relay's word")
    assert drill.redis.xlen("jobs") <= mark
    drill.product.plain_worker("one")
    wait_for(lambda: not OutboxRow.objects.exists(), "all done", seconds=900)
    drill.all_done_once(jobs)


def test_after_many_jobs_the_stream_stays_near_its_limit_and_sessions_live(drill: Drill) -> None:
    """Two and a half times what the stream keeps; the cache of the same server loses nothing."""
    cache.set("session", "alive", timeout=3600)
    jobs = drill.put(int(MAXLEN * 2.5))
    drill.product.plain_worker("one")
    drill.product.plain_worker("two")
    wait_for(lambda: not OutboxRow.objects.exists(), "all done", seconds=1800)
    drill.all_done_once(jobs)
    assert MAXLEN <= drill.redis.xlen("jobs") < MAXLEN * 1.2
    assert drill.published() == len(jobs)
    assert cache.get("session") == "alive"


def test_a_clock_of_redis_that_was_ahead_and_is_right_again(drill: Drill) -> None:
    """Entry ids are of the server's clock, and never go back: nothing of ours compares the two."""
    ahead = int((time.time() + 3600) * 1000)
    future = drill.redis.xadd("jobs", {"x": "y"}, id=f"{ahead}-0")
    jobs = drill.put(5, ms=60_000)
    dead = drill.product.plain_worker("one")
    dead.wait_until_it_runs("drill_row", 5)
    dead.kill()
    drill.open_gate()
    drill.product.plain_worker("two")
    drill.all_done_once(jobs)
    assert RefusedEntry.objects.get().entry_id == future.decode()
    drill.redis.flushall()
    more = drill.put(5)
    drill.all_done_once(jobs + more)


@pytest.mark.parametrize(
    "place", ["relay.appended/drill_row", "relay.made_due", "relay.wrote_epoch", "relay.found_lost"]
)
def test_a_relay_killed_at_every_failpoint_beside_another(
    place: str, drill: Drill, tmp_path: Path
) -> None:
    cut = Cut(place, tmp_path / "mark")
    stopped(drill)
    jobs = drill.put(10)
    if place != "relay.appended/drill_row":
        first = drill.product.relay()
        # Not only published: a relay that is killed before its commit has lost nothing yet.
        wait_for(lambda: OutboxRow.objects.filter(relayed_at__isnull=False).count() == 10, "marks")
        first.kill()
        if place == "relay.found_lost":
            drill.redis.xtrim("jobs", maxlen=0, approximate=False)
        else:
            drill.redis.flushall()
    cut.was_hit_by(drill.product.relay(**cut.environment()))
    drill.product.relay()
    drill.product.relay()
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)


def test_a_relay_whose_listening_connection_is_ended_goes_on(drill: Drill) -> None:
    drill.product.plain_worker("one")
    jobs = drill.put(3)
    wait_for(lambda: drill.effects() == jobs, "the first jobs")
    for _ in range(3):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        jobs += drill.put(2)
        wait_for(lambda j=jobs: drill.effects() == sorted(j), "the next jobs")  # type: ignore[misc]
    assert drill.product.started[0].popen.poll() is None


def test_a_rebuild_by_hand_at_any_time_does_no_harm(drill: Drill) -> None:
    drill.product.plain_worker("one")
    jobs = drill.put(300, ms=2)
    wait_for(lambda: len(drill.effects()) > 30, "some of the jobs")
    by_hand = [drill.product.command("relay", "--rebuild") for _ in range(2)]
    assert [process.ended() for process in by_hand] == [0, 0]
    assert all(process.said("Everything that is due is on the stream.") for process in by_hand)
    drill.all_done_once(jobs)


def test_two_relays_publish_each_row_once(drill: Drill) -> None:
    second = drill.product.relay()
    second.wait_until_said("starts")
    jobs = [job for _ in range(40) for job in drill.put(5)]
    drill.wait_until_published(200)
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)
    assert drill.published() == 200
    assert second.popen.poll() is None
