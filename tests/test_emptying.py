"""Each test begins on a database as migrations leave it, whatever the one before has done."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.contrib.auth.models import Group, Permission
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection

from orders.models import Event
from tests import emptying, servers
from tests.people import box_office, buy, new_event, new_type
from tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def end_of_test() -> None:
    """What pytest-django does after a test."""
    call_command("flush", verbosity=0, interactive=False, reset_sequences=False)
    connection.close()


def test_what_a_test_wrote_is_gone_and_what_migrations_made_is_as_it_was() -> None:
    permissions = list(Permission.objects.order_by("pk").values())
    buy(new_type())
    box_office()
    end_of_test()
    written = [table for table in connection.introspection.table_names() if _rows(table)]
    assert written == [
        "auth_group", "auth_group_permissions", "auth_permission", "django_content_type",
        "django_migrations",
    ]  # fmt: skip
    assert list(Permission.objects.order_by("pk").values()) == permissions


def _rows(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
        return cursor.fetchone() is not None


def test_a_group_that_a_test_changed_is_made_anew() -> None:
    Group.objects.get(name="box office").permissions.clear()
    new_event()
    end_of_test()
    assert Group.objects.get(name="box office").permissions.exists()
    assert not Event.objects.exists()


def test_a_table_that_has_grown_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emptying, "GROWN", 0)
    new_event()
    end_of_test()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size('orders_event')")
        assert cursor.fetchone() == (0,)


def test_rows_that_another_session_is_about_to_commit_are_gone_too() -> None:
    with psycopg.connect(servers.POSTGRES.url(connection.settings_dict["NAME"])) as other:
        other.execute("INSERT INTO django_session VALUES ('late', '', now())")
        with ThreadPoolExecutor(1) as pool:
            emptied = pool.submit(end_of_test)
            wait_for(_somebody_waits, "the end of the test to wait")
            other.commit()
            emptied.result()
    assert not Session.objects.exists()


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
        return cursor.fetchone() is not None
