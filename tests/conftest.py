"""Fixtures for all: a clean stream, kinds that live for one test, the mail that was accepted."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import redis as redis_client
from django.conf import settings
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from jobs import failpoint, registry
from jobs.failpoint import FAILPOINTS
from jobs.gauges import Looker
from jobs.job import Job
from jobs.policy import Policy
from tests import cuts, emptying, processes


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A whole run that missed a failpoint is red: a place that is never cut is not tested."""
    whole = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    missed = set(FAILPOINTS) - cuts.HIT
    if whole and missed and session.exitstatus == pytest.ExitCode.OK and session.testscollected:
        print(f"\nno test has cut at: {', '.join(sorted(missed))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """The migrated database, and what `flush` leaves in it after each test."""
    with django_db_blocker.unblock():
        emptying.remember()


@pytest.fixture
def redis() -> Iterator[redis_client.Redis]:
    """The tests' own client of the stream's server, emptied before the test."""
    with redis_client.Redis.from_url(settings.REDIS_URL, protocol=2) as client:
        client.flushall()
        yield client


@pytest.fixture
def looker() -> Iterator[Looker]:
    """Looks at the queue as a scrape does; its connections end with the test."""
    made = Looker()
    yield made
    made.close()


type Handler = Callable[[Job[Any]], None]
type Arm = Callable[[Callable[[str], None] | None], None]


class Register(Protocol):
    """The `handler` decorator as tests use it."""

    def __call__(
        self, name: str, *, policy: Policy | None = None, **more: Any
    ) -> Callable[[Handler], Handler]: ...


@pytest.fixture
def kind() -> Iterator[Register]:
    """The `handler` decorator, for kinds that are forgotten after the test."""
    made: list[str] = []

    def register(
        name: str, *, policy: Policy | None = None, **more: Any
    ) -> Callable[[Handler], Handler]:
        made.append(name)
        # Without chance: now and then a retry would be due before the test has looked.
        return registry.handler(name, policy=policy or Policy(jitter=0), **more)

    yield register
    for name in made:
        with contextlib.suppress(KeyError):
            registry.forget_kind(name)


@pytest.fixture
def at_failpoint() -> Iterator[Arm]:
    """Arm an action at the failpoints of this process; disarmed after the test."""
    yield failpoint.arm
    failpoint.arm(None)


@pytest.fixture
def product(tmp_path: Path) -> Iterator[processes.Product]:
    """Starts the product's real processes; they end with the test."""
    yield from processes.product(tmp_path)


@pytest.fixture
def mailbox() -> Iterator["MailFolder"]:
    """The development mailbox, empty."""
    folder: Path = settings.MAIL_DIR
    shutil.rmtree(folder, ignore_errors=True)
    # Django's test environment puts its own mailer in the place of the settings'.
    mailer = {"BACKEND": "stagedoor.mailbox.Mailbox", "OPTIONS": {"folder": str(folder)}}
    with override_settings(MAILERS={"default": mailer}):
        yield MailFolder(folder)


class MailFolder:
    """What the development mailbox accepted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def messages(self) -> list[Path]:
        """One file per accepted email."""
        return sorted(self.folder.glob("*.eml"))

    def calls(self) -> list[dict[str, Any]]:
        """The ledger: every call, accepted or known already."""
        ledger = self.folder / "ledger.jsonl"
        return (
            [json.loads(line) for line in ledger.read_text().splitlines()]
            if ledger.exists()
            else []
        )
