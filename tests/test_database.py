"""Database connections: counted, kept by their thread, replaced when the server dropped them."""

from collections.abc import Callable

import pytest
from django.db import close_old_connections, connection
from prometheus_client import REGISTRY

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
