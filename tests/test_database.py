"""The database backend: counted, pooled, and as quick at the thousandth request as at the first."""

import pytest
from django.db import connection
from prometheus_client import REGISTRY

pytestmark = pytest.mark.django_db(transaction=True)


def counted() -> float:
    labels = {"alias": "default", "vendor": "postgresql"}
    return REGISTRY.get_sample_value("django_db_execute_total", labels) or 0.0


def test_a_pooled_connection_can_be_taken_two_thousand_times() -> None:
    for _ in range(2000):
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def test_each_statement_is_counted_once_however_often_its_connection_was_used() -> None:
    for _ in range(3):
        connection.close()
        connection.ensure_connection()
    before = counted()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert counted() == before + 1
