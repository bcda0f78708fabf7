"""A replay of many, while the web process is killed in the middle of it and right after it."""

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_client
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from jobs.models import JobEvent, OutboxRow, ReplayBatch, What
from stagedoor.embedded.server import free_port
from tests.books import books_are_in_order
from tests.cuts import HIT, Cut
from tests.drill.handlers import TABLE
from tests.processes import SHIPPED, Product, wait_for

pytestmark = pytest.mark.django_db(transaction=True)
NUMBER = 5_000 if SHIPPED else 500
DEAD = """
INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, attempts, dead_at,
    dead_reason, last_error, traceback, dead_by)
SELECT 'drill_row', jsonb_build_object('number', number, 'ms', 0), '', 'tickets', '', '', 5,
    now() - number * interval '1 s', 'failed 5 times', 'ConnectionError: refused',
    repeat('File "somewhere.py", in something' || chr(10), 100), 'worker-1'
FROM generate_series(1, %s) AS number
"""


@pytest.fixture(autouse=True)
def _effects(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute("TRUNCATE drill_effect")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE drill_effect")


class Staff:
    """A superuser's browser: chooses all dead jobs, reads the page that asks, says yes."""

    def __init__(self, port: int) -> None:
        user = User.objects.create_superuser("carla", "", "x")
        client = Client()
        client.force_login(user)
        self._cookie = f"sessionid={client.cookies['sessionid'].value}; csrftoken={'a' * 32}"
        self._list = f"http://127.0.0.1:{port}/admin/jobs/deadjob/"

    def send(self, **fields: str) -> str:
        """Choose the action for all dead jobs; the page that comes back."""
        form = {
            "csrfmiddlewaretoken": "a" * 32,
            "action": "replay_many",
            "select_across": "1",
            "_selected_action": "0",
            **fields,
        }
        body = urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(self._list, body, {"Cookie": self._cookie})
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())

    def asked(self) -> str:
        """The `seen` of the page that asks; it names the whole number."""
        page = self.send()
        assert f"Replay {NUMBER} dead jobs" in page
        found = re.search(r'name="seen" value="([^"]+)"', page)
        assert found
        return found[1]


def letters(redis: redis_client.Redis) -> int:
    number: int = redis.xlen("jobs:dead")
    return number


@pytest.mark.parametrize("place", ["replay.made_due", "replay.committed"])
def test_the_web_process_is_killed_in_a_replay_of_many(
    place: str, product: Product, redis: redis_client.Redis, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("DRILL_GATE", str(tmp_path / "gate"))
    with connection.cursor() as cursor:
        cursor.execute(DEAD, [NUMBER])
    product.relay()
    wait_for(lambda: letters(redis) == NUMBER, "a letter for each")
    cut, port = Cut(place, tmp_path / "mark"), free_port()
    product.web(port, **cut.environment(), JOBS_REPLAYS_PER_SECOND="500")
    staff = Staff(port)
    seen = staff.asked()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError, urllib.error.URLError)):
        staff.send(confirmed="1", seen=seen)
    wait_for(cut.mark.exists, "the cut")
    HIT.add(place)
    made_due = place == "replay.committed"
    wait_for(lambda: OutboxRow.objects.dead().count() == (0 if made_due else NUMBER), "all or none")
    assert LogEntry.objects.count() == ReplayBatch.objects.count() == made_due

    assert ("are settled" in staff.send(confirmed="1", seen=seen)) is not made_due
    assert LogEntry.objects.count() == ReplayBatch.objects.count() == 1
    assert JobEvent.objects.filter(what=What.REPLAYED).count() == NUMBER
    product.plain_worker("worker-1")
    wait_for(lambda: not OutboxRow.objects.exists(), "all done")
    wait_for(lambda: letters(redis) == 0, "no letter")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(DISTINCT outbox_id) FROM drill_effect")
        assert cursor.fetchone() == (NUMBER, NUMBER)
    books_are_in_order()
