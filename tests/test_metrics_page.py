"""`/metrics` of the web part: there for a Prometheus, not there for anybody else."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import redis as redis_client
from django.test import Client, override_settings

from stagedoor import metrics_page
from tests.web import Answer, text

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = "a-long-random-token"


@pytest.fixture(autouse=True)
def _own_connections() -> Iterator[None]:
    """The page keeps one to each server: here until the test ends."""
    yield
    metrics_page.QUEUE.close()


def asked(address: str = "127.0.0.1", **headers: str) -> Answer:
    return Client(REMOTE_ADDR=address).get("/metrics", headers=headers)


def test_whoever_asks_from_this_machine_without_a_proxy_may_read(redis: redis_client.Redis) -> None:
    answer = asked()
    assert answer.status_code == 200
    assert 'stagedoor_probe_success{server="postgresql"} 1.0' in text(answer)


def test_it_is_asked_by_an_address_and_without_tls() -> None:
    with override_settings(ALLOWED_HOSTS=["shop.example"], SECURE_SSL_REDIRECT=True):
        assert asked(Host="127.0.0.1:8000").status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Via"])
def test_it_is_not_there_for_who_comes_through_a_proxy(header: str) -> None:
    assert asked(**{header: "203.0.113.9"}).status_code == 404


def test_it_is_not_there_for_another_machine_without_the_token() -> None:
    assert asked("203.0.113.9").status_code == 404
    assert asked("203.0.113.9", Authorization="Bearer ").status_code == 404
    with override_settings(METRICS_TOKEN=TOKEN):
        assert asked("203.0.113.9").status_code == 404
        assert asked("203.0.113.9", Authorization="Bearer another").status_code == 404


def test_the_token_opens_it_from_anywhere() -> None:
    with override_settings(METRICS_TOKEN=TOKEN):
        through_proxy = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "203.0.113.9"}
        assert asked("10.0.0.1", **through_proxy).status_code == 200


def test_it_tells_nothing_of_what_web_does_not_do() -> None:
    page = text(asked())
    assert "stagedoor_bounces_total" in page
    for name in (
        "stagedoor_slots",
        "stagedoor_jobs_relayed",
        "stagedoor_jobs_buried",
        "stagedoor_loop_lag",
    ):
        assert name not in page


def test_what_strangers_make_up_makes_no_series() -> None:
    visitor = Client()
    for path in ("/", "/no-such-page-7/", "/orders/MADEUP77/", "/static/made-up-7"):
        visitor.generic("MADEUP7", path)
        visitor.get(path, headers={"Host": "made-up-7.example"})
    page = text(asked())
    assert 'method="<invalid method>",view="event-list"' in page
    assert 'view="<unnamed view>"' in page
    assert not re.findall("made.?up.?7", page, re.IGNORECASE)


@pytest.mark.skipif(
    shutil.which("promtool") is None and "REQUIRE_PROMTOOL" not in os.environ, reason="no promtool"
)
def test_names_are_as_prometheus_wants_them(redis: redis_client.Redis) -> None:
    ours = [line for line in text(asked()).splitlines() if "stagedoor_" in line]
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input="\n".join([*ours, ""]), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
