"""`manage.py jobs doctor` finds what servers and settings lack, and says what it may not ask."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.core.management import call_command

from jobs.doctor import Level, clocks, database, stream_server
from jobs.status import in_flight, look
from stagedoor.embedded import ServerFailed
from tests import servers
from tests.processes import Process

from .looks import done

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(redis: redis_client.Redis) -> Iterator[redis_client.Redis]:
    """The stream's server with its group; settings and users are as before after the test."""
    before = {name: value(redis, name) for name in ("maxmemory-policy", "appendonly")}
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)
    yield redis
    for name, was in before.items():
        redis.config_set(name, was)
    redis.acl_deluser("looker")


def value(redis: redis_client.Redis, name: str) -> str:
    found: Any = redis.config_get(name)
    [text] = found.values()
    return text.decode() if isinstance(text, bytes) else str(text)


def run() -> tuple[int, str]:
    """The exit code of `manage.py jobs doctor`, and what it prints."""
    printed = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("jobs", "doctor", stdout=printed)
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.getvalue()


def lines(level: Level) -> list[str]:
    """What has that level, each without its remedy."""
    return [line[11:] for line in run()[1].splitlines() if line.startswith(f"{level:<11}")]


def looker(server: redis_client.Redis, settings: Any, *rules: str) -> None:
    """Ask as a user of these rights from here on."""
    send: Callable[..., Any] = server.execute_command
    send("ACL", "SETUSER", "looker", "on", ">secret", "~*", "&*", *rules)
    settings.REDIS_URL = f"redis://looker:secret@{settings.REDIS_URL.split('@')[1]}"


def test_servers_in_order_are_named_one_by_one(server: redis_client.Redis) -> None:
    server.config_set("appendonly", "yes")
    code, text = run()
    assert code == 0
    assert all(line.startswith("ok         ") for line in text.splitlines())
    for words in (
        "Valkey",
        "appendonly yes",
        "maxmemory-policy noeviction",
        "the group 'workers' of the stream 'jobs' is there",
        "PostgreSQL 1",
        "no job was processed yet",
        "the clocks of Redis and PostgreSQL are 0.0 s apart",
        "agree with each other",
    ):
        assert words in text


def test_the_systems_redis_is_examined_and_looked_at_as_well(settings: Any) -> None:
    try:
        debian = servers.debian_redis(Path(servers.REDIS.folder).parent)
    except ServerFailed as failure:
        if "REQUIRE_REDIS" in os.environ:
            raise
        pytest.skip(str(failure))
    settings.REDIS_URL = debian.url(0)
    with redis_client.Redis.from_url(settings.REDIS_URL) as client:
        client.flushall()
        client.xgroup_create("jobs", "workers", "0", mkstream=True)
        for consumer in ("worker-1", "worker-2"):
            client.xadd("jobs", {"kind": "drill_row"})
            client.xreadgroup("workers", consumer, {"jobs": ">"})
        client.xadd("jobs", {"kind": "drill_row"})
    code, text = run()
    stream = look(settings.REDIS_URL).stream
    assert stream is not None
    assert (stream.length, len(stream.consumers), stream.group) == (3, 2, True)
    assert stream.waiting is not None
    assert [one.consumer for one in in_flight(settings.REDIS_URL)] == ["worker-1", "worker-2"]
    assert code == 0
    assert "\nok         Redis 7.0" in f"\n{text}"
    assert "may not ask" not in text


# Redis


def test_a_server_that_evicts_is_wrong(server: redis_client.Redis) -> None:
    server.config_set("maxmemory-policy", "allkeys-lru")
    code, text = run()
    assert code == 1
    assert "WRONG      Redis may throw the stream away when its memory is full" in text
    assert "maxmemory-policy allkeys-lru\n           CONFIG SET maxmemory-policy noeviction" in text


def test_a_server_that_forgets_is_a_warning_since_no_job_is_lost(
    server: redis_client.Redis,
) -> None:
    assert value(server, "appendonly") == "no"
    code, text = run()
    assert code == 0
    assert "warning    Redis forgets everything when it restarts: appendonly is no" in text
    assert "\n           CONFIG SET appendonly yes" in text


@pytest.mark.parametrize("lost", ["group", "stream"])
def test_a_missing_group_is_wrong(lost: str, server: redis_client.Redis) -> None:
    if lost == "group":
        server.xgroup_destroy("jobs", "workers")
    else:
        server.delete("jobs")
    assert lines(Level.WRONG) == ["the group 'workers' of the stream 'jobs' is missing"]
    assert run()[0] == 1


def test_what_this_user_may_not_ask_is_a_warning(server: redis_client.Redis, settings: Any) -> None:
    looker(server, settings, "+@all", "-config")
    code, text = run()
    assert code == 0
    assert text.count("Redis: may not ask: ") == 2
    assert "config" in text
    assert "appendonly is" not in text
    assert "the group 'workers' of the stream 'jobs' is there" in text


def test_a_user_who_may_ask_next_to_nothing_hears_so_of_each(
    server: redis_client.Redis, settings: Any
) -> None:
    looker(server, settings, "+ping", "+client")
    code, text = run()
    assert code == 0
    assert text.count("Redis: may not ask: ") == 5
    assert "the clocks of host and PostgreSQL" in text
    assert "the clocks of host and Redis" not in text


def test_a_command_that_the_server_does_not_offer_may_not_be_asked(
    server: redis_client.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rented servers rename CONFIG."""
    ask: Callable[..., Any] = redis_client.Redis.execute_command

    def without_config(self: Any, *words: Any, **options: Any) -> Any:
        return ask(self, *("MISSING" if word == "CONFIG" else word for word in words), **options)

    monkeypatch.setattr(redis_client.Redis, "execute_command", without_config)
    code, text = run()
    assert code == 0
    assert text.count("Redis: may not ask: ") == 2


@pytest.mark.parametrize(
    ("info", "level", "words"),
    [
        ({"redis_version": "7.0.0"}, Level.OK, "Redis 7.0.0"),
        ({"redis_version": "8.2.1"}, Level.OK, "Redis 8.2.1"),
        ({"redis_version": "10.0.1"}, Level.OK, "Redis 10.0.1"),
        ({"redis_version": "6.2.14"}, Level.WRONG, "Redis 6.2.14 is too old"),
        ({}, Level.WRONG, "too old"),
        (
            {"redis_version": "7.2.4", "valkey_version": "9.1.0"},
            Level.OK,
            "Valkey 9.1.0, which speaks Redis 7.2.4",
        ),
    ],
)
def test_a_redis_from_7_0_on_will_do(info: dict[str, str], level: Level, words: str) -> None:
    finding = stream_server.version(info)
    assert finding.level == level
    assert words in finding.what
    assert bool(finding.remedy) == (level != Level.OK)


# PostgreSQL


@pytest.mark.parametrize(
    ("number", "level"), [(150_000, Level.OK), (180_001, Level.OK), (140_022, Level.WRONG)]
)
def test_a_postgresql_from_15_on_will_do(number: int, level: Level) -> None:
    finding = database.version(number)
    assert finding.level == level
    assert finding.what.startswith(f"PostgreSQL {number // 10_000}.{number % 10_000}")


def lease_finding() -> str:
    [found] = [line for line in run()[1].splitlines() if "a lease of" in line]
    return found


def test_a_lease_below_5_times_the_slowest_renders_is_a_warning(
    server: redis_client.Redis,
) -> None:
    done("email_tickets", 100, seconds=0.09)
    done("render_tickets", 100, seconds=12)
    assert lease_finding() == (
        "ok         a lease of 60 s, and 95 % of render_tickets, the slowest kind, take 12 s"
    )
    done("render_tickets", 20, seconds=12.1)
    assert lease_finding().startswith("warning    a lease of 60 s, and 95 % of render_tickets")
    code, text = run()
    assert code == 0
    assert "less than 5 times that" in text
    assert "\n           Set JOBS_LEASE to 6" in text


def test_only_the_newest_thousand_of_a_kind_count(server: redis_client.Redis) -> None:
    done("render_tickets", 1000, seconds=30)
    done("render_tickets", 900, seconds=1)
    done("email_tickets", 1500, seconds=0.1)
    assert lease_finding().startswith("warning")
    done("render_tickets", 100, seconds=1)
    assert lease_finding().endswith("render_tickets, the slowest kind, take 1 s")


# Clocks


@pytest.mark.parametrize(
    ("apart", "level"),
    [(0.0, Level.OK), (1.0, Level.OK), (1.1, Level.WARNING), (5.0, Level.WARNING),
     (5.1, Level.WRONG), (-5.1, Level.WRONG)],
)  # fmt: skip
def test_clocks_warn_above_1_second_and_are_wrong_above_5(apart: float, level: Level) -> None:
    [finding] = clocks.compared({"host": 0.0, "Redis": apart})
    assert finding.level == level
    assert finding.what == f"the clocks of host and Redis are {abs(apart):.1f} s apart"


def test_servers_are_compared_with_each_other_too() -> None:
    findings = clocks.compared({"host": 0.0, "Redis": 3.0, "PostgreSQL": -3.0})
    assert [finding.level for finding in findings] == [
        Level.WARNING, Level.WARNING, Level.WRONG,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "code", "level"), [(3, 0, Level.WARNING), (-9, 1, Level.WRONG)]
)
def test_a_host_whose_clock_is_off_is_found(
    seconds: float, code: int, level: Level, server: redis_client.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    right = clocks.host_clock
    monkeypatch.setattr(clocks, "host_clock", lambda: right() + seconds)
    assert run()[0] == code
    assert [line for line in lines(level) if "clocks" in line] == [
        f"the clocks of host and {name} are {abs(seconds)}.0 s apart"
        for name in ("Redis", "PostgreSQL")
    ]


# Settings


def test_settings_that_contradict_each_other_are_wrong(
    server: redis_client.Redis, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "LEASE": 30.0, "NAME_WAIT": 1.0}
    settings.STOP_TIMEOUT = 10.0
    found = lines(Level.WRONG)
    assert [line.split()[0] for line in found] == [
        "JOBS_LEASE_RENEWAL", "JOBS_NAME_WAIT", "JOBS_GRACE",
    ]  # fmt: skip
    code, text = run()
    assert code == 1
    assert "\n           Set it to a third of JOBS_LEASE at most." in text


def test_the_process_examines_settings_that_no_other_command_starts_with(
    tmp_path: Path, server: redis_client.Redis
) -> None:
    wrong = {"JOBS_LEASE": "1", "JOBS_LEASE_RENEWAL": "0.5"}
    with Process(tmp_path, "doctor", "manage.py", "jobs", "doctor", **wrong) as process:
        assert process.ended() == 1
        assert "WRONG      JOBS_LEASE_RENEWAL is 0.5 s for a lease of 1 s" in process.log()
        assert "ok         PostgreSQL" in process.log()


# Could not look


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense"])
def test_without_redis_the_rest_is_examined_and_the_code_is_2(url: str, settings: Any) -> None:
    settings.REDIS_URL = url
    settings.JOBS = {**settings.JOBS, "LEASE": 30.0}
    code, text = run()
    assert code == 2
    assert text.startswith("NO ANSWER  Redis does not answer as it should: ")
    assert "mend REDIS_URL" in text
    assert "the clocks of host and PostgreSQL" in text
    assert len(lines(Level.WRONG)) == 1


def test_a_wrong_password_is_no_answer(settings: Any) -> None:
    settings.REDIS_URL = settings.REDIS_URL.replace("@", "x@")
    code, text = run()
    assert code == 2
    assert "may not ask" not in text


def test_without_postgresql_the_rest_is_examined_and_the_code_is_2(
    tmp_path: Path, server: redis_client.Redis
) -> None:
    away = {"DATABASE_URL": "postgres://nobody:secret@127.0.0.1:1/none"}
    with Process(tmp_path, "doctor", "manage.py", "jobs", "doctor", **away) as process:
        assert process.ended() == 2
        assert "NO ANSWER  PostgreSQL does not answer as it should: Operational" in process.log()
        assert "ok         the clocks of host and Redis" in process.log()
        assert "secret" not in process.log()
