"""Another session of the database, beside that of the test."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection


def elsewhere[T](deed: Callable[[], T]) -> T:
    """Done by another session, and its answer."""

    def act() -> T:
        try:
            return deed()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(timeout=30)
