"""Both servers are lost; a dump restored into new ones: every order ends as it should."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis as redis_client
from django.db import connection

from jobs.models import OutboxRow, ProcessedJob
from stagedoor.embedded import PostgresServer, RedisServer
from stagedoor.embedded.postgres import BINARIES
from tests import servers
from tests.conftest import MailFolder
from tests.cuts import Cut
from tests.people import buy, new_type
from tests.processes import ROOT, Process, Product, wait_for

pytestmark = pytest.mark.django_db(transaction=True)
DRILL = ROOT / "deploy" / "restore-drill"
PATH = f"{BINARIES}:{os.environ['PATH']}"
ENDED = """
    SELECT count(*) FROM orders_order AS o
    WHERE (SELECT count(*) FROM tickets_ticket AS t WHERE t.order_id = o.id) = 2
      AND (SELECT array_agg(state) FROM tickets_delivery AS d WHERE d.order_id = o.id) = '{sent}'
"""
ORDERS = 6


@pytest.fixture
def fresh() -> Iterator[dict[str, str]]:
    """New servers, empty: their addresses as variables."""
    with tempfile.TemporaryDirectory(prefix="stagedoor-restore-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        database = PostgresServer(folder / "postgres", settings={"fsync": "off"})
        stream = RedisServer(folder / "redis")
        try:
            database.start()
            database.create_database_if_missing("shop")
            stream.start()
            yield {
                "DATABASE_URL": database.url("shop"),
                "REDIS_URL": stream.url(0),
                "CACHE_URL": stream.url(1),
            }
        finally:
            stream.kill()
            database.kill()


@pytest.fixture
def _old_servers_come_back() -> Iterator[None]:
    yield
    connection.close()
    for server in (servers.POSTGRES, servers.REDIS):
        if not server.answers():
            server.start()


def dump_to(file: Path) -> None:
    """What the nightly backup does."""
    at = connection.settings_dict
    where = ("--host", at["HOST"], "--port", str(at["PORT"]), "--username", at["USER"])
    command = [str(BINARIES / "pg_dump"), "--format=custom", f"--file={file}", *where, at["NAME"]]
    subprocess.run(command, check=True, env={**os.environ, "PGPASSWORD": at["PASSWORD"]})


def restore(folder: Path, dump: Path, where: dict[str, str]) -> tuple[int, str]:
    """Exit code and words of the script that is shipped."""
    script = f'exec "{DRILL}" "{dump}"'
    runner = "import os, sys; os.execvp('bash', ['bash', '-c', sys.argv[1]])"
    manage = f"{sys.executable} {ROOT / 'manage.py'}"
    given = {**where, "STAGEDOOR": manage, "PATH": PATH}
    with Process(folder, "restore", "-c", runner, script, **given) as process:
        return process.ended(), process.log()


def orders_in_every_state(product: Product, cut: Cut) -> None:
    """Two are done, two have tickets and their emails are cut, two are only placed."""
    kind = new_type()
    relay = product.relay()
    worker = product.worker()
    for _ in range(2):
        buy(kind, 2)
    wait_for(lambda: ProcessedJob.objects.filter(kind="email_tickets").count() == 2, "two emails")
    worker.stop()
    for _ in range(2):
        buy(kind, 2)
    cut.was_hit_by(product.worker("worker-2", **cut.environment()))
    wait_for(lambda: not OutboxRow.objects.filter(relayed_at=None).exists(), "the publications")
    relay.stop()
    for _ in range(2):
        buy(kind, 2)


@pytest.mark.usefixtures("_old_servers_come_back")
def test_with_both_servers_lost_a_dump_brings_every_order_to_its_end(
    product: Product, redis: redis_client.Redis, mailbox: MailFolder, fresh: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    orders_in_every_state(product, Cut("sending.noted", tmp_path / "mark"))
    dump = tmp_path / "shop.dump"
    dump_to(dump)
    connection.close()
    servers.POSTGRES.kill()
    servers.REDIS.kill()

    code, words = restore(tmp_path, dump, fresh)
    assert code == 0, words
    assert "rows are published again" in words
    product.relay(**fresh)
    product.worker(**fresh)
    with psycopg.connect(fresh["DATABASE_URL"], autocommit=True) as database:

        def ended() -> bool:
            found = database.execute(ENDED).fetchone()
            return found == (ORDERS,)

        wait_for(ended, "every order to have its tickets and its email")
        assert database.execute("SELECT count(*) FROM jobs_outbox").fetchone() == (0,)
    assert len(mailbox.messages()) == ORDERS
    assert product.command("audit", **fresh).ended() == 0

    code, words = restore(tmp_path, dump, fresh)
    assert code == 2
    assert "tables already" in words, "a shop that is in use is left alone"
