"""A real browser before the real web process. Needs `chromium` on the path."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Protocol

import pytest
import redis as redis_client
from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import DjangoDbBlocker

from orders.box_office import make_group
from stagedoor.embedded.server import free_port
from tests.processes import Process, Product

from .chromium import WIDE, Chromium
from .people import Staff, Visitor

KEPT = {"django_content_type", "auth_permission"}


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    """One browser for the folder. Without one its tests are skipped, or fail in the gate."""
    binary = shutil.which("chromium")
    if binary is None:
        why = "no chromium on the path: apt install chromium"
        if "REQUIRE_BROWSER" in os.environ:
            pytest.fail(why)
        pytest.skip(why)
    made = Chromium(binary)
    yield made
    made.end()


class Site:
    """The web process under test, and the windows that look at it."""

    def __init__(self, chromium: Chromium, web: Process, address: str) -> None:
        self.chromium = chromium
        self.web = web
        self.address = address

    @contextlib.contextmanager
    def opened(self, width: int = WIDE) -> Iterator[Staff]:
        """Somebody at a window of this width; an error if the window saw one."""
        window = self.chromium.window(self.address, width)
        try:
            yield Staff(window)
            complaints = window.complaints()
            assert not complaints, "\n".join([*complaints, self.web.log()[-4000:]])
        finally:
            window.close()


@pytest.fixture(scope="package")
def site(
    chromium: Chromium, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One gunicorn for the folder, on the tests' database."""
    made = Product(tmp_path_factory.mktemp("browser"))
    with made.stack:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        yield Site(chromium, made.web(port, BASE_URL=address), address)


@contextlib.contextmanager
def own_rows(blocker: DjangoDbBlocker) -> Iterator[None]:
    """The rows and entries made inside are gone afterwards; groups are as after a migration.

    Not pytest-django's flush: that makes content types anew under other ids, and the web process,
    which outlives a test, remembers the first ones; its next line of history would break a foreign
    key.
    """
    with blocker.unblock(), redis_client.Redis.from_url(settings.REDIS_URL) as redis:
        redis.flushall()
        for config in apps.get_app_configs():
            create_permissions(config, verbosity=0)
        make_group()
        try:
            yield
        finally:
            _empty_tables()


def _empty_tables() -> None:
    names = set(connection.introspection.django_table_names(only_existing=True)) - KEPT
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(map(connection.ops.quote_name, sorted(names)))}")


@pytest.fixture
def transactional_db(site: Site, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """In the place of pytest-django's, which still reads from this name that there is a database
    to set up: the test may write; what it and the web process wrote is gone afterwards."""
    with own_rows(django_db_blocker):
        yield


class LogIn(Protocol):
    """The fixture `log_in`."""

    def __call__(self, user: User, *, width: int = WIDE) -> Staff: ...


@pytest.fixture
def log_in(site: Site, transactional_db: None) -> Iterator[LogIn]:
    """Lets a user log in, at a window of its own."""
    with contextlib.ExitStack() as windows:

        def log_in(user: User, *, width: int = WIDE) -> Staff:
            staff = windows.enter_context(site.opened(width))
            staff.log_in(user)
            return staff

        yield log_in


@pytest.fixture
def visitor(site: Site, transactional_db: None) -> Iterator[Visitor]:
    """Somebody who is not logged in, at a wide window."""
    with site.opened() as anyone:
        yield anyone
