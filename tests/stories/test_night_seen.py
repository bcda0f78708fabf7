"""A night with real processes, as metrics and logs show it: numbers that add up, nobody's name."""

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings
from django.db import connection

from jobs.models import ProcessedJob
from orders.links import secret_of
from orders.models import Order
from stagedoor.embedded import free_port
from tests.alerts import page, samples
from tests.conftest import MailFolder
from tests.people import new_event, new_type
from tests.processes import Process, Product, wait_for
from tickets.models import Ticket

from .browser import Browser

pytestmark = pytest.mark.django_db(transaction=True)
BUYERS = 4
NAMES = [f"Zoë Quxly{number}" for number in range(BUYERS)]
ADDRESSES = [f"zoe.quxly{number}@example.org" for number in range(BUYERS)]
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e47"
PLACED = "django_http_responses_total_by_status_view_method_total", "POST", "303", "place-order"
JOB_LINE = {
    "time", "level", "logger", "message", "action", "kind", "outbox_id", "entry_id", "attempt",
    "result", "seconds", "request_id", "trace", "worker",
}  # fmt: skip
JSON = {"LOG_FORMAT": "json"}


@dataclass
class Night:
    """Four web processes, a relay, three workers, and their ports."""

    product: Product
    web: Process
    ports: dict[str, int] = field(default_factory=dict)

    def page(self, part: str) -> str:
        """What that process serves."""
        return page(self.ports[part])

    def total(self, *key: str) -> float:
        """The sum over relay and workers."""
        parts = [part for part in self.ports if part != "web"]
        return sum(samples(self.page(part)).get(key, 0.0) for part in parts)


@pytest.fixture
def night(product: Product, redis: redis_client.Redis) -> Night:
    ports = {part: free_port() for part in ("web", "relay", "one", "two", "three")}
    made = Night(product, product.web_as_deployed(ports["web"], 4, **JSON), ports)
    product.relay("--metrics-port", str(ports["relay"]), **JSON)
    workers = [
        product.plain_worker(name, "--metrics-port", str(ports[name]), **JSON)
        for name in ("one", "two", "three")
    ]
    for worker in workers:
        worker.wait_until_said("is ready")
    return made


def test_a_night_adds_up_and_its_log_names_nobody(night: Night, mailbox: MailFolder) -> None:
    links = list(_buy(night.ports["web"]))
    wait_for(lambda: len(mailbox.messages()) == BUYERS, "all emails")
    wait_for(lambda: not night.total("stagedoor_slots_busy"), "the last outcomes")
    for link in links:
        Browser(night.ports["web"]).get(link)
    _check_sums(night)
    _check_one_of_web_is_killed(night)
    _check_all_tell_the_same(night)
    log = "".join(part.log() for part in night.product.started)
    _check_lines([json.loads(line) for line in log.splitlines()])
    _check_nobody_is_named(log)


def _buy(port: int) -> Iterator[str]:
    """Each buyer's secret link, as its email has it."""
    seats = new_type(event=new_event(slug="quiet"), capacity=100)
    for number, (name, address) in enumerate(zip(NAMES, ADDRESSES, strict=True)):
        browser = Browser(port)
        fields = {f"quantity-{seats.pk}": "2", "name": name, "email": address}
        headers = {
            "X-Request-ID": f"buyer-000{number}",
            "traceparent": f"00-{TRACE_ID}{number:02d}-00f067aa0ba902b7-01",
        }
        browser.send(browser.form("quiet", **fields), headers)
        order = Order.objects.get(email=address)
        yield f"/o/{_secret(order)}/"


def _secret(order: Order) -> str:
    return secret_of(order.pk, order.link_key, order.link_version)


def _check_sums(night: Night) -> None:
    done = ProcessedJob.objects.count()
    assert done == 2 * BUYERS
    assert night.total("stagedoor_jobs_relayed_total") == done
    assert night.total("stagedoor_entries_delivered_total") == done
    for kind in ("render_tickets", "email_tickets"):
        assert night.total("stagedoor_jobs_finished_total", kind, "done") == BUYERS
    assert night.total("stagedoor_order_emailed_seconds_count") == BUYERS
    assert night.total("stagedoor_slots") == 3 * 8
    # Whichever of the four processes answers.
    assert {samples(night.page("web"))[PLACED] for _ in range(12)} == {BUYERS}


def _check_one_of_web_is_killed(night: Night) -> None:
    def processes() -> list[int]:
        pid = night.web.popen.pid
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]

    before = processes()
    assert len(before) == 4
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: len(set(processes()) - {before[0]}) == 4, "another process in its place")
    assert samples(night.page("web"))[PLACED] == BUYERS, "what it had counted stays"


def _check_all_tell_the_same(night: Night) -> None:
    queue = re.compile(r"^stagedoor_(?:outbox_rows|processes_up|stream_entries|kind_held).*$", re.M)
    told = {part: queue.findall(night.page(part)) for part in night.ports}
    assert len({tuple(lines) for lines in told.values()}) == 1
    assert 'stagedoor_processes_up{role="worker"} 3.0' in told["web"]
    assert "stagedoor_slots " not in night.page("web"), "of workers alone"
    assert "stagedoor_jobs_relayed_total" not in night.page("one"), "of relays alone"


def _check_lines(lines: list[dict[str, Any]]) -> None:
    jobs = [line for line in lines if line.get("action") == "job"]
    assert len(jobs) == 2 * BUYERS, "one for each entry"
    for line in jobs:
        assert line.keys() == JOB_LINE
        number = line["request_id"].removeprefix("buyer-000")
        assert line["trace"] == f"{TRACE_ID}{int(number):02d}-00f067aa0ba902b7"
    by_request = {line["request_id"] for line in jobs}
    assert by_request == {f"buyer-000{number}" for number in range(BUYERS)}
    posted = [line for line in lines if line.get("path") == "/orders/"]
    assert {line["request_id"] for line in posted} == by_request


def _check_nobody_is_named(log: str) -> None:
    tokens = list(Ticket.objects.values_list("token", flat=True))
    assert len(tokens) == 2 * BUYERS
    secrets = [_secret(order) for order in Order.objects.all()]
    servers = [settings.SECRET_KEY, str(connection.settings_dict["PASSWORD"])]
    keys = [key.hex() for key in settings.LINK_KEYS.values()]
    for said in (*NAMES, *ADDRESSES, *tokens, *secrets, *servers, *keys, "Quxly", "quxly"):
        assert said not in log
    assert "/o/…/" in log
