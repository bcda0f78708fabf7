"""The cache of sessions: its Redis may go away, and staff stays logged in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.test import Client, override_settings

from orders.box_office import make_group
from stagedoor.embedded import RedisServer
from tests.people import box_office
from tests.web import Answer, text

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server for the cache alone, and the cache on it."""
    server = RedisServer(tmp_path / "redis", durable=False)
    server.start()
    caches = {"default": {**settings.CACHES["default"], "LOCATION": server.url(0)}}
    with override_settings(CACHES=caches):
        yield server
    server.kill()


def log_in(client: Client) -> Answer:
    make_group()
    box_office()
    return client.post(
        "/admin/login/", {"username": "boxoffice", "password": "x", "next": "/admin/"}
    )


def test_values_are_kept_while_redis_serves(own_redis: RedisServer) -> None:
    cache.set("name", "Ada")
    assert cache.get("name") == "Ada"
    assert cache.has_key("name")
    assert cache.delete("name")


def test_without_redis_reads_miss_and_writes_are_dropped(own_redis: RedisServer) -> None:
    cache.set("name", "Ada")
    own_redis.kill()
    assert cache.get("name") is None
    assert cache.get("name", "default") == "default"
    assert not cache.has_key("name")
    assert not cache.delete("name")
    cache.set("name", "Mary")
    cache.set_many({"a": 1, "b": 2})
    assert cache.get_many(["a", "b"]) == {}
    cache.delete_many(["a"])
    assert cache.add("c", 3) is False


def test_a_session_outlives_the_redis_of_its_cache(client: Client, own_redis: RedisServer) -> None:
    assert log_in(client).status_code == 302
    own_redis.kill()
    answer: Answer = client.get("/admin/orders/event/")
    assert answer.status_code == 200
    assert "boxoffice" in text(answer)


def test_staff_logs_in_and_out_while_redis_is_away(client: Client, own_redis: RedisServer) -> None:
    own_redis.kill()
    assert log_in(client).status_code == 302
    assert client.get("/admin/").status_code == 200
    assert Session.objects.count() == 1
    assert client.post("/admin/logout/").status_code == 200
    answer: Answer = client.get("/admin/")
    assert answer["Location"].startswith("/admin/login/")
