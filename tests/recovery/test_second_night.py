"""The second on-sale night, shortened: late when it was foreseen, and no later with more workers.

3,000 orders in ten minutes, renders of 4 s, one worker of 8 slots.
"""

import io
import json
import time
from typing import Any

import pytest
from django.core.management import call_command

from jobs.night import Load
from stagedoor.embedded import free_port
from tests.alerts import age, page
from tests.processes import SHIPPED, wait_for

from .conftest import Drill

TIMES = 1 if SHIPPED else 10
"""Shorter: a second here is so many of the night. Of a render enough is left beside what a job
costs anyway."""
BUYERS = Load(per_second=5 * TIMES, seconds=600 / TIMES)
RENDER_MS = 4000 // TIMES
WARNING = 60 / TIMES
BOOK = ("--orders", "3000", "--minutes", "10", "--render-seconds", "4", "--threads", "8")
ALSO = ("--email-seconds", "0.001", "--cores", "64", "--workers", "1")


def foreseen() -> dict[str, Any]:
    """What `manage.py capacity` had said."""
    printed = io.StringIO()
    call_command("capacity", *BOOK, *ALSO, "--json", stdout=printed)
    told: dict[str, Any] = json.loads(printed.getvalue())
    return told


class Night:
    """Buyers who come evenly, and the age of the oldest job as the relay tells it on `port`."""

    def __init__(self, drill: Drill, port: int) -> None:
        self.drill = drill
        self.port = port
        self.jobs: list[int] = []
        self.highest = 0.0
        self.began = time.monotonic()

    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began

    def age(self) -> float:
        """Of now, when all who have come have ordered."""
        come = int(BUYERS.until(self.seconds())) - len(self.jobs)
        self.jobs += self.drill.put(come, ms=RENDER_MS)
        now = age(page(self.port))
        self.highest = max(now, self.highest)
        return now


def test_one_worker_is_late_when_foreseen_and_with_three_the_line_turns_down(
    unwatched: Drill,
) -> None:
    told, port = foreseen(), free_port()
    assert told["workers"] == 3
    unwatched.product.relay("--metrics-port", str(port))
    unwatched.product.plain_worker("one")
    first = unwatched.put()
    unwatched.all_done_once(first)

    night = Night(unwatched, port)
    wait_for(lambda: night.age() > WARNING, "the warning")
    late = night.seconds()
    by_workers = {one["workers"]: one for one in told["outcomes"]}
    assert late == pytest.approx(by_workers[1]["alerts"]["warning"] / TIMES, rel=0.2)

    unwatched.product.plain_worker("two")
    unwatched.product.plain_worker("three")
    wait_for(lambda: night.age() < night.highest - WARNING / 10, "an age that falls")
    assert night.seconds() < BUYERS.seconds, "while they come as before"
    unwatched.open_gate()
    unwatched.all_done_once([*first, *night.jobs])
    assert age(page(port)) == 0
