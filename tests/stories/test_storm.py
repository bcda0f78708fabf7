"""A night of faults at random, in 40 s: all is killed, stopped, cut, and every order is served.

The seed is fixed, so that a run can be had again; STORM_SEED and STORM_SECONDS choose others, as
`make chaos` does.
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings
from django.db import DatabaseError, connection

from jobs.models import OutboxRow
from orders.models import Order, TicketType
from orders.services import PlacedOrder, place_order
from tests import servers
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import new_type, wish
from tests.processes import Process, Product, duration, wait_for
from tickets.models import Delivery, Ticket

pytestmark = pytest.mark.django_db(transaction=True)
SEED = int(os.environ.get("STORM_SEED", "20261129"))
SECONDS = float(os.environ.get("STORM_SECONDS", "40"))
CALM = (0.3, 1.5)
"""Seconds between two faults."""


class Storm:
    """Two relays and three workers, and what may happen to them and their servers."""

    def __init__(self, product: Product) -> None:
        self.chance = random.Random(SEED)
        self.counts: Counter[str] = Counter()
        self._starts: dict[str, Callable[[], Process]] = {
            **{f"relay-{n}": product.relay for n in range(2)},
            **{f"worker-{n}": lambda n=n: product.worker(f"worker-{n}") for n in range(3)},  # type: ignore[misc]
        }
        self._processes = {name: start() for name, start in self._starts.items()}
        self._stopped: dict[str, float] = {}

    def tend(self) -> None:
        """What ended is started again, as a service manager would; what slept long enough wakes."""
        for name, process in self._processes.items():
            if process.popen.poll() is not None:
                self._processes[name] = self._starts[name]()
                self._stopped.pop(name, None)
                self.counts["restarts"] += 1
            elif self._stopped.get(name, float("inf")) < time.monotonic():
                process.signal(signal.SIGCONT)
                del self._stopped[name]

    def strike(self) -> None:
        """One fault, by chance."""
        fault = self.chance.choice(
            [
                self.kill, self.kill, self.kill, self.terminate, self.stop, self.stop,
                self.kill_redis, self.kill_postgres, self.flush, self.lose_stream,
                self.cut_redis, self.cut_postgres, self.trim,
            ]
        )  # fmt: skip
        self.counts[fault.__name__] += 1
        with contextlib.suppress(redis_client.RedisError, DatabaseError, ProcessLookupError):
            fault()

    def _victim(self) -> str:
        return self.chance.choice(list(self._processes))

    def kill(self) -> None:
        self._processes[self._victim()].kill()

    def terminate(self) -> None:
        self._processes[self._victim()].signal(signal.SIGTERM)

    def stop(self) -> None:
        name = self._victim()
        self._processes[name].signal(signal.SIGSTOP)
        self._stopped[name] = time.monotonic() + duration("LEASE") * self.chance.uniform(0.5, 2)

    def kill_redis(self) -> None:
        servers.REDIS.kill()
        servers.REDIS.start()

    def kill_postgres(self) -> None:
        connection.close()
        servers.POSTGRES.kill()
        servers.POSTGRES.start()

    def flush(self) -> None:
        self._redis("FLUSHALL")

    def lose_stream(self) -> None:
        self._redis("DEL", "jobs")

    def cut_redis(self) -> None:
        self._redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def trim(self) -> None:
        self._redis("XTRIM", "jobs", "MAXLEN", "0")

    @staticmethod
    def _redis(*words: str) -> None:
        with redis_client.Redis.from_url(settings.REDIS_URL, protocol=2) as client:
            client.execute_command(*words)

    @staticmethod
    def cut_postgres() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )

    def calm_down(self) -> None:
        """Nothing sleeps any more, and all run."""
        for name in list(self._stopped):
            with contextlib.suppress(ProcessLookupError):
                self._processes[name].signal(signal.SIGCONT)
        self._stopped.clear()
        self.tend()


def place(kind: TicketType, number: int) -> PlacedOrder:
    """Place an order as a buyer does who presses again until there is an answer."""
    wanted = wish(kind, number)

    def placed() -> PlacedOrder | None:
        try:
            return place_order(wanted)
        except DatabaseError:
            connection.close()
            return None

    return wait_for(placed, "an answer to the buyer")  # type: ignore[return-value]


def raise_the_dead() -> int:
    """What the storm has killed three times is replayed, as staff would."""
    for dead in OutboxRow.objects.dead():
        assert (dead.dead_reason, dead.attempts) == ("worker died 3 times", 0)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_outbox SET dead_at = NULL, starts = 0, attempts = 0, relayed_at = NULL,"
            " entry_id = NULL, available_at = now() WHERE dead_at IS NOT NULL"
        )
        return int(cursor.rowcount)


def nothing_is_live() -> bool:
    with contextlib.suppress(DatabaseError):
        return not OutboxRow.objects.live().exists()
    connection.close()
    return False


def test_a_night_of_faults_serves_every_order_once(
    product: Product, redis: Any, mailbox: MailFolder
) -> None:
    storm = Storm(product)
    kind = new_type(capacity=100_000)
    quantities: list[int] = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        quantities.append(storm.chance.randint(1, 3))
        place(kind, quantities[-1])
        storm.strike()
        storm.tend()
        calm = time.monotonic() + storm.chance.uniform(*CALM)
        wait_for(lambda c=calm: time.monotonic() > c, "the next fault")  # type: ignore[misc]
    storm.calm_down()

    def all_done() -> bool:
        storm.tend()
        return nothing_is_live()

    wait_for(all_done, "no live row", seconds=180 + SECONDS)
    storm.counts["raised"] = raise_the_dead()
    assert storm.counts["raised"] <= SECONDS / 20
    wait_for(all_done, "no live row", seconds=180)
    print(f"\nstorm {SEED}: {len(quantities)} orders, {dict(storm.counts)}")
    assert Order.objects.count() == len(quantities)
    assert Ticket.objects.filter(status="valid").count() == sum(quantities)
    assert Delivery.objects.filter(state="sent").count() == len(quantities)
    assert len(mailbox.messages()) == len(quantities)
    assert not OutboxRow.objects.exists()
    books_are_in_order()
