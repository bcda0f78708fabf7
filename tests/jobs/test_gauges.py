"""The queue as series: true by the servers' clocks, missing where a server is silent, and cheap."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import redis as redis_client
from django.db import connection
from django.db.models.functions import Now

from jobs import holds, processes
from jobs.gauges import Looker, declared, lost
from jobs.gauges.collector import QueueCollector, families
from jobs.models import OutboxRow
from jobs.relay import Pressure
from tests import servers
from tests.web import forget_connections

from .looks import about, ago, deliver, near, publish, put, shift

pytestmark = pytest.mark.django_db(transaction=True)
HOURS = 3600
type Values = dict[tuple[str, ...], float]


@pytest.fixture(autouse=True)
def _group(redis: redis_client.Redis) -> None:
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)


def seen(looker: Looker) -> dict[str, Values]:
    """Every series with its values by label values."""
    return {
        family.name.removeprefix("stagedoor_"): {
            tuple(one.labels.values()): one.value for one in family.samples
        }
        for family in families(looker.look())
    }


def ages(looker: Looker) -> dict[str, float]:
    """Seconds by reason and lane, each against the clock of the server that made it."""
    found = seen(looker)
    clock = {server: now for (server,), now in found["clock_timestamp_seconds"].items()}
    reasons = found["oldest_by_reason_timestamp_seconds"].items()
    lanes = found.get("oldest_job_timestamp_seconds", {}).items()
    return {
        **{reason: clock[server] - at for (reason, server), at in reasons},
        **{lane: clock["postgresql"] - at for (lane,), at in lanes},
    }


def due_ago(seconds: float, kind: str = "drill_row") -> int:
    """An outbox row that has been due for so long."""
    [row] = put(kind=kind)
    shift("due_at", row, -seconds)
    shift("available_at", row, -seconds)
    return row


NOTHING = dict.fromkeys(
    ("not_relayed", "waiting", "running", "retry_wait", "held", "paused", "tickets", "bulk"), 0.0
)


# Ages


def test_an_empty_queue_has_ages_of_zero(looker: Looker) -> None:
    assert ages(looker) == NOTHING


def test_what_no_relay_has_taken_is_not_relayed(looker: Looker) -> None:
    due_ago(100)
    found = ages(looker)
    assert found == {**NOTHING, "not_relayed": near(100), "tickets": near(100)}


def test_the_first_unread_entry_waits(redis: redis_client.Redis, looker: Looker) -> None:
    publish(redis, due_ago(100), ago(redis, 90))
    publish(redis, due_ago(50), ago(redis, 40))
    assert ages(looker) == {**NOTHING, "waiting": near(90), "tickets": near(100)}


def test_the_oldest_pending_entry_runs(redis: redis_client.Redis, looker: Looker) -> None:
    publish(redis, due_ago(100), ago(redis, 90))
    publish(redis, due_ago(50), ago(redis, 40))
    deliver(redis)
    found = ages(looker)
    assert found == {**NOTHING, "running": near(90), "waiting": near(40), "tickets": near(100)}


def test_without_a_group_all_that_is_on_the_stream_waits(
    redis: redis_client.Redis, looker: Looker
) -> None:
    publish(redis, due_ago(100), ago(redis, 90))
    deliver(redis)
    redis.xgroup_destroy("jobs", "workers")
    assert ages(looker) == {**NOTHING, "waiting": near(90), "tickets": near(100)}


def test_a_retry_that_is_parked_for_ten_hours_ages_as_a_retry_alone(looker: Looker) -> None:
    row = due_ago(10 * HOURS)
    shift("available_at", row, 10 * HOURS)
    assert ages(looker) == {**NOTHING, "retry_wait": near(10 * HOURS)}
    shift("available_at", row, -1)
    assert ages(looker)["tickets"] == near(10 * HOURS), "its turn has come: it is late"


def test_what_is_scheduled_has_no_age_yet(looker: Looker) -> None:
    row = due_ago(0)
    shift("due_at", row, HOURS)
    shift("available_at", row, HOURS)
    assert ages(looker) == NOTHING


def test_what_a_person_holds_ages_as_paused_alone(looker: Looker) -> None:
    due_ago(100)
    holds.pause("drill_row", 60, "a test", "ann@desk")
    assert ages(looker) == {**NOTHING, "paused": near(100)}


def test_what_the_breaker_holds_is_late_all_the_same(looker: Looker) -> None:
    due_ago(100)
    assert holds.trip("drill_row", "away")
    assert ages(looker) == {**NOTHING, "held": near(100), "tickets": near(100)}


def test_bulk_that_waits_is_no_late_ticket(looker: Looker) -> None:
    about(due_ago(100)).update(lane="bulk")
    assert ages(looker) == {**NOTHING, "bulk": near(100)}


def test_dead_and_done_jobs_have_no_age(redis: redis_client.Redis, looker: Looker) -> None:
    about(due_ago(100)).update(dead_at=Now())
    about(due_ago(100)).delete()
    assert ages(looker) == NOTHING


# How many


def test_rows_are_counted_by_kind_and_state(redis: redis_client.Redis, looker: Looker) -> None:
    _due, retry, relayed, dead, discarded, scheduled = put(6)
    put(2, "drill_slow")
    holds.pause("drill_slow", 60, "a test", "ann@desk")
    shift("available_at", retry, HOURS)
    publish(redis, relayed)
    about(dead).update(dead_at=Now())
    about(discarded).update(dead_at=Now(), discarded_at=Now())
    for column in ("due_at", "available_at"):
        shift(column, scheduled, HOURS)
    found = seen(looker)["outbox_rows"]
    states = ("due", "retry_wait", "relayed", "dead", "discarded", "scheduled")
    assert {key: number for key, number in found.items() if number} == {
        **{("drill_row", state): 1.0 for state in states},
        ("drill_slow", "held"): 2.0,
    }
    assert found["render_tickets", "due"] == 0.0, "a kind without a row is told to have none"
    assert sum(found.values()) == OutboxRow.objects.count()


def test_drained_means_zero_at_the_next_scrape(redis: redis_client.Redis, looker: Looker) -> None:
    entry = publish(redis, due_ago(100), ago(redis, 90))
    deliver(redis)
    assert sum(seen(looker)["outbox_rows"].values()) == 1
    OutboxRow.objects.all().delete()
    redis.xack("jobs", "workers", entry)
    found = seen(looker)
    assert sum(found["outbox_rows"].values()) == 0
    assert found["pending_entries"] == {(): 0.0}
    assert ages(looker) == NOTHING


def test_processes_are_counted_by_role_and_an_absent_role_is_zero(looker: Looker) -> None:
    processes.say_alive("worker", "worker-1", "x")
    processes.say_alive("worker", "worker-2", "x")
    assert seen(looker)["processes_up"] == {("worker",): 2.0, ("relay",): 0.0, ("scheduler",): 0.0}


def test_the_stream_is_measured(redis: redis_client.Redis, looker: Looker) -> None:
    for row in put(3):
        publish(redis, row)
    deliver(redis)
    redis.xadd("jobs:dead", {"row": "1"})
    found = seen(looker)
    assert [found[name][()] for name in ("stream_entries", "pending_entries", "dead_letters")] == [
        3, 1, 1,
    ]  # fmt: skip


# Rows whose entry is nowhere


def test_a_relayed_row_whose_entry_is_nowhere_for_three_minutes_is_unaccounted(
    redis: redis_client.Redis, looker: Looker
) -> None:
    gone, unread, young = due_ago(300), due_ago(300), due_ago(300)
    for row in (gone, unread, young):
        entry = publish(redis, row)
        if row != unread:
            redis.xdel("jobs", entry)
    for row in (gone, unread):
        shift("relayed_at", row, -200)
    assert seen(looker)["unaccounted_rows"] == {(): 1.0}


@pytest.mark.parametrize("meanwhile", ["done", "published again"])
def test_a_job_that_moves_on_while_its_entry_is_sought_is_not_unaccounted(
    redis: redis_client.Redis, looker: Looker, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    row = due_ago(300)
    redis.xdel("jobs", publish(redis, row))
    shift("relayed_at", row, -200)
    counted = lost.count_still_relayed

    def moved_on(found: list[tuple[int, str]]) -> int:
        assert len(found) == 1
        if meanwhile == "done":
            about(row).delete()
        else:
            publish(redis, row)
        return counted(found)

    monkeypatch.setattr(lost, "count_still_relayed", moved_on)
    assert seen(looker)["unaccounted_rows"] == {(): 0.0}


# Servers that do not answer


@pytest.fixture
def without_redis() -> Iterator[None]:
    servers.REDIS.kill()
    yield
    servers.REDIS.start()


def test_without_redis_its_series_are_missing_and_the_age_is_told(
    looker: Looker, without_redis: None
) -> None:
    due_ago(100)
    row = due_ago(300)
    about(row).update(relayed_at=Now(), entry_id="1-1")
    shift("relayed_at", row, -200)
    found = seen(looker)
    assert found["probe_success"] == {("postgresql",): 1.0, ("redis",): 0.0}
    absent = {"stream_entries", "pending_entries", "dead_letters", "unaccounted_rows"}
    assert not absent & found.keys()
    assert {server for _, server in found["oldest_by_reason_timestamp_seconds"]} == {"postgresql"}
    assert ages(looker)["tickets"] == near(300)


def test_a_redis_that_refuses_to_look_up_entries_is_a_failed_probe_and_the_ages_are_told(
    looker: Looker, redis: Any
) -> None:
    row = due_ago(300)
    publish(redis, row)
    shift("relayed_at", row, -200)
    assert seen(looker)["unaccounted_rows"] == {(): 0.0}
    redis.execute_command("ACL", "SETUSER", "default", "-eval")
    try:
        found = seen(looker)
    finally:
        redis.execute_command("ACL", "SETUSER", "default", "+@all")
    assert found["probe_success"] == {("postgresql",): 1.0, ("redis",): 0.0}
    assert "unaccounted_rows" not in found
    assert ages(looker)["tickets"] == near(300)


def test_without_postgresql_its_series_are_missing_and_the_stream_is_told(
    redis: redis_client.Redis, looker: Looker
) -> None:
    redis.xadd("jobs", {"kind": "x"})
    forget_connections()
    servers.POSTGRES.kill()
    try:
        found = seen(looker)
    finally:
        servers.POSTGRES.start()
        forget_connections()
    assert found["probe_success"] == {("postgresql",): 0.0, ("redis",): 1.0}
    assert found.keys() == {
        "probe_success", "clock_timestamp_seconds", "oldest_by_reason_timestamp_seconds",
        "stream_entries", "pending_entries", "dead_letters",
    }  # fmt: skip
    assert found["stream_entries"] == {(): 1.0}
    assert seen(looker)["probe_success"][("postgresql",)] == 1.0, "it looks again by itself"


def test_a_database_that_hangs_is_a_failed_probe_and_not_a_hung_scrape(
    looker: Looker, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "PROBE_TIMEOUT": 0.3}
    seen(looker)
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("LOCK TABLE jobs_outbox IN ACCESS EXCLUSIVE MODE")
        found = seen(looker)
        # The server itself has ended the look: scrapes that wait would pile up there.
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        assert other.execute(waiting).fetchone() == (0,)
    assert found["probe_success"] == {("postgresql",): 0.0, ("redis",): 1.0}


# What apps add


@pytest.fixture
def extra() -> Iterator[None]:
    yield
    with contextlib.suppress(KeyError):
        declared.forget_gauge("stagedoor_extra")


def test_an_app_adds_a_gauge(looker: Looker, extra: None) -> None:
    declared.gauge("stagedoor_extra", "A test.", ("which",))(lambda: [(("one",), 7.0)])
    assert seen(looker)["extra"] == {("one",): 7.0}
    assert "stagedoor_extra" in {one.name for one in QueueCollector().describe()}
    with pytest.raises(ValueError, match="declared already"):
        declared.gauge("stagedoor_extra", "Another.")(list)


def test_a_gauge_that_fails_is_a_failed_probe_and_the_ages_are_told(
    looker: Looker, extra: None
) -> None:
    due_ago(100)

    @declared.gauge("stagedoor_extra", "A test.")
    def fail() -> Any:
        raise ZeroDivisionError

    found = seen(looker)
    assert found["probe_success"] == {("postgresql",): 0.0, ("redis",): 1.0}
    assert "extra" not in found
    assert ages(looker)["tickets"] == near(100)


# What a look costs


def test_scrapes_at_once_share_a_look(looker: Looker, extra: None) -> None:
    looks, many, gate = [], 20, threading.Event()

    @declared.gauge("stagedoor_extra", "A test.")
    def slow() -> Any:
        looks.append(1)
        gate.wait(5)
        return [((), 1.0)]

    with ThreadPoolExecutor(many) as scrapes:
        asked = [scrapes.submit(seen, looker) for _ in range(many)]
        gate.set()
        assert {one.result()["extra"][()] for one in asked} == {1.0}
    # Those that had asked while the first look went on have its answer.
    assert 1 <= len(looks) <= many // 2


@pytest.mark.parametrize("kept", [True, False])
def test_a_look_scans_no_history_and_what_is_not_done_once_at_most(
    looker: Looker, kept: bool
) -> None:
    _fill()
    if kept:
        Pressure().room()
    statements: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().startswith("SELECT"):
            with context["connection"].connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {sql}", params)
                statements.append("\n".join(line for (line,) in cursor.fetchall()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        looker._read_books()
    plans = "\n".join(statements)
    assert "Seq Scan on jobs_processed" not in plans
    assert "Seq Scan on jobs_scheduled_run" not in plans
    # Slot by slot, so that the newest one that is done ends it.
    [succeeded] = [one for one in statements if "jobs_processed" in one and "name" in one]
    assert "Hash" not in succeeded
    assert plans.count("jobs_outbox_age") == 1, "what may be lost"
    assert plans.count(" on jobs_outbox") == (1 if kept else 2)
    assert plans.count("Seq Scan on jobs_outbox") == (0 if kept else 1)


def _fill() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, last_error,
                dead_reason, traceback, dead_by, relayed_at, entry_id, due_at)
            SELECT 'drill_row', '{}', '', 'tickets', '', '', '', '', '', '', now(), '1-' || number,
                now() - number * interval '1 ms'
            FROM generate_series(1, 20000) AS number
            """
        )
        cursor.execute(
            """
            INSERT INTO jobs_processed (outbox_id, kind, args, subject, request_id, trace,
                created_at, due_at, attempts, processed_at, worker, duration_ms, result)
            SELECT -number, 'drill_row', '{}', '', '', '', now(), now(), 0, now(), 'w', 1, 'done'
            FROM generate_series(1, 20000) AS number
            """
        )
        cursor.execute(
            """
            INSERT INTO jobs_scheduled_run (name, due_at, last_due_at, result, seconds_late,
                outbox_id, by)
            SELECT 'purge', at, at, 'on time', 0, -number, 'one'
            FROM generate_series(1, 20000) AS number, LATERAL (
                SELECT now() - number * interval '1 minute' AS at) AS due
            """
        )
        cursor.execute("ANALYZE jobs_outbox, jobs_processed, jobs_scheduled_run")
