"""Health: buyers are sent here as long as the database serves; the rest is named, not blocking."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from jobs.models import Process
from jobs.processes import say_alive
from stagedoor import health
from tests import servers
from tests.people import TicketTypeFactory
from tests.web import Answer, forget_connections, order

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that was just started."""
    monkeypatch.setattr(health, "_known_migrated", False)


@pytest.fixture
def at_work() -> None:
    for role in ("worker", "relay", "scheduler"):
        say_alive(role, f"{role}-1", "reading")


@pytest.fixture
def without_redis() -> Iterator[None]:
    servers.REDIS.kill()
    yield
    servers.REDIS.start()


def ready(client: Client) -> tuple[int, dict[str, Any]]:
    answer: Answer = client.get("/readyz")
    return answer.status_code, json.loads(answer.content)


def named(parts: list[str]) -> set[str]:
    return {part.split(":")[0] for part in parts}


def test_a_process_that_answers_is_alive(client: Client) -> None:
    answer: Answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert "no-store" in answer["Cache-Control"]


def test_with_all_at_work_nothing_is_degraded(client: Client, at_work: None) -> None:
    assert ready(client) == (200, {"ready": True, "blocking": [], "degraded": []})


def test_without_worker_relay_and_scheduler_it_is_ready_and_degraded(client: Client) -> None:
    status, found = ready(client)
    assert (status, found["ready"]) == (200, True)
    assert named(found["degraded"]) == {"worker", "relay", "scheduler"}


def test_a_worker_that_was_not_seen_for_long_counts_as_away(client: Client, at_work: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_process SET seen_at = now() - interval '1 minute' WHERE role = 'worker'"
        )
    assert Process.objects.count() == 3
    assert named(ready(client)[1]["degraded"]) == {"worker"}


def test_without_redis_it_is_ready_and_orders_are_taken(
    client: Client, at_work: None, without_redis: None
) -> None:
    status, found = ready(client)
    assert status == 200
    assert named(found["degraded"]) == {"redis"}
    assert order(client, TicketTypeFactory()).status_code == 303


def test_missing_fonts_are_named(
    client: Client, at_work: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FONTS", tmp_path)
    status, found = ready(client)
    assert (status, named(found["degraded"])) == (200, {"fonts"})


def test_a_missing_migration_blocks_until_it_is_there(client: Client) -> None:
    recorder = MigrationRecorder(connection)
    newest = max(recorder.applied_migrations())
    recorder.record_unapplied(*newest)
    try:
        status, found = ready(client)
    finally:
        recorder.record_applied(*newest)
    assert (status, found["ready"], named(found["blocking"])) == (503, False, {"migrations"})
    assert ready(client)[0] == 200


def test_a_database_that_is_gone_blocks_until_it_is_back_and_the_process_lives(
    client: Client,
) -> None:
    forget_connections()
    servers.POSTGRES.kill()
    try:
        status, found = ready(client)
        alive: Answer = client.get("/healthz")
    finally:
        servers.POSTGRES.start()
        forget_connections()
    assert (status, named(found["blocking"]), found["degraded"]) == (503, {"database"}, [])
    assert alive.status_code == 200
    assert ready(client)[0] == 200
