"""The admin's pages of dead jobs: what they say, and what their buttons do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs import conclusion, dead_letters, holds
from jobs.conclusion import Failure
from jobs.job import Job
from jobs.models import DeadJob, JobEvent, KindHold, OutboxRow, ProcessedJob, RefusedEntry, What
from jobs.outbox import enqueue
from jobs.prognosis import Effect, Prognosis
from jobs.stream import Entry, Letters
from tests.conftest import Register
from tests.people import buy, new_type
from tests.web import Answer, text

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/jobs/deadjob/"


@dataclass(frozen=True)
class Args:
    order_id: int


@pytest.fixture(autouse=True)
def consented(kind: Register) -> list[int]:
    """Kinds of dead jobs; the order ids for which somebody agreed to a second time."""
    agreed: list[int] = []

    @kind("example", subject="order:{order_id}")
    def example(job: Job[Args]) -> None: ...

    @kind(
        "twice",
        foresee=lambda args: [Prognosis(Effect.MAY_REPEAT, "may send twice") for _ in args],
        consent=lambda args: agreed.append(args.order_id),
    )
    def twice(job: Job[Args]) -> None: ...

    @kind("over", foresee=lambda args: [Prognosis(Effect.NOTHING, "done at 20:03") for _ in args])
    def over(job: Job[Args]) -> None: ...

    return agreed


@pytest.fixture
def letters(redis: Any) -> Letters:
    return Letters(django_settings.REDIS_URL)


type Bury = Callable[..., int]


@pytest.fixture
def bury(letters: Letters) -> Bury:
    """A dead job with its letter; its outbox id."""

    def buried(
        kind: str = "example", order_id: int = 1, error: str = "ValueError: boom", **changes: Any
    ) -> int:
        with transaction.atomic():
            row = enqueue(kind, order_id=order_id)
        OutboxRow.objects.filter(pk=row).update(entry_id=f"{row}-1")
        fields = [(b"kind", kind.encode()), (b"outbox_id", str(row).encode())]
        failure = Failure(error, f"Traceback of {error}", "worker-1")
        assert dead_letters.bury(letters, Entry(f"{row}-1", fields), row, "failed", failure)
        if changes:
            OutboxRow.objects.filter(pk=row).update(**changes)
        return row

    return buried


def staff(*permissions: str, name: str = "carla") -> Client:
    """A browser in which a member of staff with these permissions of `jobs` is logged in."""
    user = User.objects.create_user(name, password="x", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def browser() -> Client:
    return staff("view_deadjob", "replay", "discard", "view_kindhold", "change_kindhold")


def page_of(row: int) -> str:
    return reverse("admin:jobs_deadjob_change", args=[row])


def post(browser: Client, row: int, what: str, **fields: str) -> Answer:
    """Press a button on the page of a job, as it was shown just now."""
    seen = {"seen": timezone.now().isoformat(), **fields}
    return browser.post(reverse(f"admin:jobs_deadjob_{what}", args=[row]), seen, follow=True)


def choose(browser: Client, action: str, *rows: int, query: str = "", **fields: str) -> Answer:
    """Choose rows of the list (none: all that match) and an action."""
    form: dict[str, Any] = {
        "action": action,
        "_selected_action": [str(row) for row in rows] or ["0"],
        "select_across": "0" if rows else "1",
        **fields,
    }
    return browser.post(f"{LIST}{query}", form, follow=True)


def test_the_list_shows_what_is_dead_newest_first(browser: Client, bury: Bury) -> None:
    order = buy(new_type())
    first = bury(order_id=order.id, error="ValueError: boom")
    second = bury(order_id=0, error="KeyError: 'x'")
    page = text(browser.get(LIST))
    assert page.index(page_of(second)) < page.index(page_of(first))
    assert "ValueError: boom" in page
    assert order.code in page
    assert "2 dead jobs" in page
    bury_live = OutboxRow.objects.live().count()
    assert bury_live == 1, "the job of the order, which is not on the list"
