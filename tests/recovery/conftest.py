"""Every recovery test runs on Valkey and on the system's Redis, and ends with books in order."""

import contextlib
import os
import shutil
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings
from django.db import connection, transaction

from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue
from stagedoor.embedded import RedisServer, ServerFailed
from tests import servers
from tests.books import books_are_in_order
from tests.drill.handlers import TABLE
from tests.processes import PATIENCE, SHIPPED, Product, duration, wait_for


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test runs on one of the two servers, half of them on each; `make chaos` runs both."""
    if SHIPPED or shutil.which("redis-server") is None:
        return
    spared = [item for item in items if _is_spared(item)]
    if spared:
        config.hook.pytest_deselected(items=spared)
        items[:] = [item for item in items if item not in set(spared)]


def _is_spared(item: pytest.Item) -> bool:
    # By the name alone: the same half in every run.
    callspec = getattr(item, "callspec", None)
    server = callspec.params.get("stream_server") if callspec else None
    if server is None or not item.nodeid.startswith("tests/recovery/"):
        return False
    name = item.nodeid.replace(server, "")
    return bool(server == ("valkey", "redis")[zlib.crc32(name.encode()) % 2])


@pytest.fixture(params=["valkey", "redis"], autouse=True)
def stream_server(
    request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServer]:
    """The server that carries the stream; the test may kill it and start it again."""
    if request.param == "redis":
        folder = Path(servers.REDIS.folder).parent
        try:
            monkeypatch.setattr(servers, "REDIS", servers.debian_redis(folder))
        except ServerFailed as failure:
            if "REQUIRE_REDIS" in os.environ:
                raise
            pytest.skip(str(failure))
        settings.REDIS_URL = servers.REDIS.url(0)
    yield servers.REDIS
    if not servers.REDIS.answers():
        servers.REDIS.start()


@pytest.fixture(autouse=True)
def _effects(transactional_db: None, stream_server: RedisServer) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute("TRUNCATE drill_effect")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE drill_effect")


class Drill:
    """Puts jobs of the drill kinds on their way and looks at what became of them."""

    def __init__(self, product: Product, redis: Any, gate: Path) -> None:
        self.product = product
        self.redis = redis
        self._gate = gate

    def use(self, url: str) -> None:
        """Look at another server from now on."""
        self.redis = redis_client.Redis.from_url(url, protocol=2)

    def open_gate(self) -> None:
        """Every job has waited long enough, also those that run now."""
        self._gate.touch()

    def mend(self) -> None:
        """The provider that `drill_call` and `drill_once` need is up."""
        Path(f"{self._gate}-up").touch()

    def wait_until_begun(self) -> None:
        """Wait until a job waits at the gate."""
        wait_for(Path(f"{self._gate}-begun").exists, "a job at the gate")

    def put(self, count: int = 1, kind: str = "drill_row", ms: int = 0) -> list[int]:
        """The outbox ids of new jobs, committed together."""
        with transaction.atomic():
            return [enqueue(kind, number=number, ms=ms) for number in range(count)]

    def pending(self) -> int:
        """Entries that a worker was given and that are not acknowledged."""
        try:
            return int(self.redis.xpending("jobs", "workers")["pending"])
        except redis_client.ResponseError:
            return 0

    def effects(self) -> list[int]:
        """The outbox id of every effect, sorted; one that happened twice stands there twice."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT outbox_id FROM drill_effect ORDER BY outbox_id")
            return [outbox_id for (outbox_id,) in cursor.fetchall()]

    def dead(self) -> dict[int, str]:
        """Outbox ids of dead jobs, with the reason."""
        return dict(OutboxRow.objects.dead().values_list("id", "dead_reason"))

    def wait_until_dead(self, outbox_ids: list[int], seconds: float = PATIENCE) -> None:
        """Wait until just these are dead, each with its letter."""
        wait_for(lambda: sorted(self.dead()) == sorted(outbox_ids), "the deaths", seconds)
        wait_for(lambda: self.letters() == sorted(map(str, outbox_ids)), "their letters", seconds)

    def letters(self) -> list[str]:
        """Of what there is a letter: outbox ids, or ids of refused entries; sorted."""
        found = [fields for _, fields in self.redis.xrange("jobs:dead")]
        return sorted((one[b"row"] or one[b"entry_id"]).decode() for one in found)

    def wait_until_published(self, count: int) -> None:
        """Wait until the stream has had so many entries."""
        wait_for(lambda: self.published() >= count, f"{count} publications")

    def published(self) -> int:
        """How many entries the stream has had."""
        try:
            return int(self.redis.xinfo_stream("jobs")["entries-added"])
        except redis_client.ResponseError:
            return 0

    def wait_until_running(self, count: int) -> None:
        """Wait until so many entries are with workers."""
        wait_for(lambda: self.pending() >= count, f"{count} pending entries")

    def all_done_once(self, outbox_ids: list[int]) -> None:
        """Wait for the end of all jobs; then each of these has had its effects once."""
        self.nothing_left()
        assert self.effects() == sorted(outbox_ids)
        books_are_in_order()

    def nothing_left(self) -> None:
        """Wait until no job is live and no entry is pending."""
        wait_for(lambda: not OutboxRow.objects.live().exists(), "no live row")
        wait_for(lambda: self.pending() == 0, "nothing pending")

    def starts(self, outbox_id: int) -> int:
        """How many starts without an outcome the job has."""
        return OutboxRow.objects.get(pk=outbox_id).starts

    def attempts(self) -> set[int]:
        """The attempts that were counted on processed jobs."""
        return set(ProcessedJob.objects.values_list("attempts", flat=True))

    @property
    def takeover(self) -> float:
        """Seconds within which another worker has what a dead one left (design P6)."""
        return duration("LEASE") + duration("RECLAIM") + 5


@pytest.fixture
def unwatched(
    stream_server: RedisServer, product: Product, redis: redis_client.Redis,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> Drill:  # fmt: skip
    """Jobs of the drill kinds, on the server at hand, of which nobody may be in charge for long."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("DRILL_GATE", str(gate))
    return Drill(product, redis, gate)


@pytest.fixture
def drill(unwatched: Drill) -> Iterator[Drill]:
    """The same with a relay at work, and no job left alone."""
    unwatched.product.relay()
    with watched(unwatched):
        yield unwatched


@contextlib.contextmanager
def watched(drill: Drill) -> Iterator[None]:
    """No entry is pending without a slot for longer than a take-over takes, all through a test."""
    over = threading.Event()
    longest = [0.0]

    def watch() -> None:
        with redis_client.Redis.from_url(settings.REDIS_URL, protocol=2) as client:
            while not over.wait(0.2):
                with contextlib.suppress(redis_client.RedisError):
                    found: Any = client.xpending_range("jobs", "workers", "-", "+", 200)
                    idle = (entry["time_since_delivered"] / 1000 for entry in found)
                    longest[0] = max(longest[0], *idle, 0.0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert longest[0] < drill.takeover
