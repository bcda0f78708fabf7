"""The embedded servers: started from wheels, found again, gone with whoever started them."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from stagedoor.children import Account, FolderClosed
from stagedoor.embedded import PostgresServer, RedisServer, Server, ServerFailed
from tests.processes import wait_for

FAST = {"fsync": "off"}
PARENT = """
import sys, time
from pathlib import Path
from stagedoor.embedded import PostgresServer, RedisServer
folder = Path(sys.argv[1])
postgres = PostgresServer(folder / "postgres", settings={"fsync": "off"})
servers = [postgres, RedisServer(folder / "redis")]
for server in servers:
    server.start()
print(*(server.process.pid for server in servers), flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' user can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="stagedoor-servers-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def stopped(*servers: Server) -> None:
    for server in servers:
        server.stop()


def test_postgresql_starts_and_a_second_start_finds_the_data_again(folder: Path) -> None:
    for attempt in range(2):
        server = PostgresServer(folder / "postgres", settings=FAST)
        server.start()
        try:
            server.create_database_if_missing("shop")
            with psycopg.connect(server.url("shop")) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS seen (at int)")
                connection.execute("INSERT INTO seen VALUES (%s)", [attempt])
                found = connection.execute("SELECT count(*) FROM seen").fetchone()
            assert found == (attempt + 1,)
        finally:
            server.stop()


def test_redis_starts_and_a_second_start_finds_the_data_again(folder: Path) -> None:
    for attempt in range(2):
        server = RedisServer(folder / "redis")
        server.start()
        try:
            with redis.Redis.from_url(server.url(0)) as client:
                assert client.incr("starts") == attempt + 1
                assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        finally:
            server.stop()


def test_nobody_gets_in_without_the_password(folder: Path) -> None:
    postgres, store = (
        PostgresServer(folder / "postgres", settings=FAST),
        RedisServer(folder / "redis"),
    )
    postgres.start()
    store.start()
    try:
        address = psycopg.conninfo.conninfo_to_dict(postgres.url("postgres"))
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**{**address, "password": "guess"})  # type: ignore[arg-type]
        with pytest.raises(redis.AuthenticationError), redis.Redis(port=store.port) as client:
            client.ping()
        assert stat.S_IMODE(postgres.password_file.stat().st_mode) == 0o600
    finally:
        stopped(postgres, store)


def test_a_killed_parent_leaves_no_server_behind(folder: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not any(_runs(pid) for pid in pids), "the servers to end with their parent")


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lends a server to another user")
def test_a_folder_closed_to_the_servers_user_is_named_with_what_to_do(folder: Path) -> None:
    folder.chmod(0o700)
    with pytest.raises(FolderClosed, match=rf"cannot enter {folder}.*chmod o\+x {folder}"):
        PostgresServer(folder / "postgres", settings=FAST).start()


def test_a_way_that_is_open_to_the_user_is_no_problem(folder: Path) -> None:
    Account("nobody", 65534, 65534).reach(folder)


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    server = PostgresServer(folder / "postgres", settings={"no_such_setting": "on"})
    with pytest.raises(ServerFailed, match="no_such_setting"):
        server.start()
