"""Database connections: counted, kept by their thread, replaced when the server dropped them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.db import OperationalError, close_old_connections, connection
from django.db.utils import ConnectionHandler
from prometheus_client import REGISTRY

from stagedoor.embedded import free_port
from stagedoor.settings.base import database

pytestmark = pytest.mark.django_db(transaction=True)


def counted() -> float:
    labels = {"alias": "default", "vendor": "postgresql"}
    return REGISTRY.get_sample_value("django_db_execute_total", labels) or 0.0


def backend() -> int:
    """The server process behind this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_each_statement_is_counted_once_however_often_its_connection_was_used() -> None:
    for _ in range(3):
        close_old_connections()
        backend()
    before = counted()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert counted() == before + 1


def test_a_thread_keeps_its_connection_from_job_to_job() -> None:
    first = backend()
    close_old_connections()
    assert backend() == first


def test_a_connection_that_the_server_dropped_is_replaced_before_the_next_use(
    elsewhere: Callable[[str], None],
) -> None:
    first = backend()
    elsewhere(f"SELECT pg_terminate_backend({first})")
    close_old_connections()
    assert backend() != first


@pytest.fixture
def elsewhere() -> Callable[[str], None]:
    """Runs a statement over another connection."""
    import psycopg

    def run(statement: str) -> None:
        with psycopg.connect(**connection.get_connection_params()) as other:
            other.execute(statement)

    return run


def test_what_the_address_says_of_tls_is_kept() -> None:
    address = "postgres://u:p@db.example/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem"
    options = database(address)["OPTIONS"]
    assert (options["sslmode"], options["sslrootcert"]) == ("verify-full", "/etc/ca.pem")
    assert "lock_timeout" in options["options"]


def test_an_address_of_several_hosts_leads_to_the_one_that_takes_writes(settings: Any) -> None:
    """The first is dead: as after a failover, without another setting or a restart."""
    now = settings.DATABASES["default"]
    hosts = f"{now['HOST']}:{free_port()},{now['HOST']}:{now['PORT']}"
    login = f"{now['USER']}:{quote(now['PASSWORD'])}"
    address = f"postgres://{login}@{hosts}/{now['NAME']}?target_session_attrs=read-write"
    made = ConnectionHandler({"default": database(address)})["default"]
    try:
        with made.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("2s",)
            # What a standby says: it is passed by, and then there is no other.
            cursor.execute(f"ALTER DATABASE {now['NAME']} SET default_transaction_read_only = on")
        made.close()
        with pytest.raises(OperationalError, match="session is read-only"):
            made.ensure_connection()
    finally:
        made.close()
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")
            cursor.execute(f"ALTER DATABASE {now['NAME']} RESET default_transaction_read_only")
