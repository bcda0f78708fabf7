"""The tests' private PostgreSQL and Redis, started before Django reads its settings.

A pytest plugin. Tests may flush, kill and start again `POSTGRES` and `REDIS`; nothing of a
machine's own servers is ever used.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from stagedoor.embedded import PostgresServer, RedisServer, ServerFailed

POSTGRES: PostgresServer
REDIS: RedisServer
"""The one that the test at hand is on."""
DEBIAN: "DebianRedis | None" = None
ADDRESSES = ("DATABASE_URL", "REDIS_URL", "CACHE_URL")
NOTHING_RUNS = {
    "--collect-only",
    "--co",
    "--help",
    "-h",
    "--version",
    "-V",
    "--fixtures",
    "--markers",
}


class DebianRedis(RedisServer):
    """The system's `redis-server`: 7.0 answers UNBLOCKED where Valkey answers nothing."""

    @staticmethod
    def _binary() -> Path:
        found = shutil.which("redis-server")
        if found is None:
            raise ServerFailed("no redis-server on the path: apt install redis-server")
        return Path(found)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str]
) -> Generator[None, None, None]:
    """Start the servers and put their addresses into the environment; a wrapper runs first."""
    folder = Path(tempfile.mkdtemp(prefix="stagedoor-tests-"))
    early_config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    folder.chmod(0o711)  # PostgreSQL's user has to pass
    prepare(folder)
    if not NOTHING_RUNS & set(args):
        early_config.add_cleanup(stop)
        start()
    set_environment(folder)
    return (yield)


def prepare(folder: Path) -> None:
    """Make the server objects, with their data in `folder`; durability is off."""
    global POSTGRES, REDIS
    # Commits stay synchronous: a killed PostgreSQL must not forget one that was answered.
    # One that a test kills reads its log since the last checkpoint: a test truncates every table.
    speed = {"fsync": "off", "full_page_writes": "off", "checkpoint_timeout": "30s"}
    # A plan that a test looks at must not hang on when a table was last analysed.
    speed |= {"autovacuum": "off"}
    POSTGRES = PostgresServer(folder / "postgres", settings=speed)
    REDIS = RedisServer(folder / "redis", durable=False)
    for name in ADDRESSES:
        os.environ.pop(name, None)


def start() -> None:
    """Start both servers; raises ServerFailed."""
    POSTGRES.start()
    POSTGRES.create_database_if_missing("stagedoor")
    REDIS.start()


def debian_redis(folder: Path) -> "DebianRedis":
    """The one of this run, started at its first use. Raises ServerFailed where there is none."""
    global DEBIAN
    if DEBIAN is None:
        started = DebianRedis(folder / "debian-redis", durable=False)
        started.start()
        DEBIAN = started
    return DEBIAN


def stop() -> None:
    """Stop all servers, whatever state a test left them in."""
    REDIS.kill()
    if DEBIAN is not None:
        DEBIAN.kill()
    POSTGRES.kill()


def set_environment(folder: Path) -> None:
    """Point the settings at the private servers and at `folder`, with secrets of this run."""
    running = POSTGRES.password_file.exists()
    os.environ |= {
        "DATABASE_URL": POSTGRES.url("stagedoor") if running else "postgres://127.0.0.1:1/none",
        "REDIS_URL": REDIS.url(0),
        "CACHE_URL": REDIS.url(1),
        "VAR_DIR": str(folder / "var"),
        "SECRET_KEY": secrets.token_urlsafe(50),
        "LINK_KEYS": f"1:{secrets.token_hex(32)}",
        "BASE_URL": "http://127.0.0.1:8000",
    }
