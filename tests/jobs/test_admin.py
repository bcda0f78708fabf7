"""The admin's pages of dead jobs: what they say, and what their buttons do."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
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
        consent=lambda many: agreed.extend(args.order_id for args in many),
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


def test_the_list_is_searched_by_order_code_outbox_id_and_request_id(
    browser: Client, bury: Bury
) -> None:
    order = buy(new_type())
    wanted = bury(order_id=order.id, request_id="req-12345678")
    other = bury(order_id=0)
    for term in (order.code, order.code.lower(), f" {wanted} ", "req-12345678"):
        page = text(browser.get(LIST, {"q": term}))
        assert page_of(wanted) in page, term
        assert page_of(other) not in page, term
    for term in ("9" * 40, "nobody", "²", "%"):
        assert "0 dead jobs" in text(browser.get(LIST, {"q": term})), term


def test_the_list_is_filtered_by_kind_error_class_time_and_same_error(
    browser: Client, bury: Bury
) -> None:
    rows = [bury(order_id=n, error=f"ValueError: seat {n} is gone") for n in (1, 22)]
    other = bury("twice", error="KeyError: 'x'")
    OutboxRow.objects.filter(pk=other).update(dead_at=timezone.now() - timedelta(hours=2))
    page = text(browser.get(LIST))
    assert "ValueError: seat # is gone (2)" in page
    for query in (
        {"kind": "example"},
        {"error_class": "ValueError"},
        {"since": "1h"},
        {"same_error": "ValueError: seat # is gone"},
    ):
        page = text(browser.get(LIST, query))
        assert "2 dead jobs" in page, query
        assert page_of(rows[0]) in page
        assert page_of(other) not in page, query
    assert "0 dead jobs" in text(browser.get(LIST, {"kind": "nonsense"}))
    assert "3 dead jobs" in text(browser.get(LIST, {"since": "nonsense"}))


def test_the_page_of_a_dead_job_tells_its_story_and_what_a_replay_would_do(
    browser: Client, bury: Bury
) -> None:
    row = bury(error="ValueError: <script>alert(1)</script>")
    page = text(browser.get(page_of(row)))
    assert "Not done yet, safe" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "Traceback of ValueError" in page
    assert "worker-1" in page


def test_a_replay_makes_the_job_due_and_takes_its_letter_away(
    browser: Client, bury: Bury, redis: Any
) -> None:
    row = bury()
    assert redis.xlen("jobs:dead") == 1
    page = text(post(browser, row, "replay"))
    assert "The job is due again" in page
    assert "carla" in page
    found = OutboxRow.objects.get(pk=row)
    assert (found.dead_at, found.attempts, found.letter_id) == (None, 0, "")
    assert redis.xlen("jobs:dead") == 0
    logged = LogEntry.objects.get()
    assert str(logged.user) == "carla"
    assert logged.object_id == str(row)
    assert "Replayed (request " in logged.change_message
    event = JobEvent.objects.get(what=What.REPLAYED)
    assert event.by == "carla"
    assert event.request_id in logged.change_message


def test_a_replay_of_what_is_not_dead_any_more_says_what_it_is(browser: Client, bury: Bury) -> None:
    row = bury()
    post(browser, row, "replay")
    assert "it was replayed" in text(post(browser, row, "replay"))
    OutboxRow.objects.filter(pk=row).delete()
    done_at = timezone.now().replace(hour=20, minute=3, second=0)
    ProcessedJob.objects.create(
        outbox_id=row, kind="example", args={}, subject="", request_id="", trace="",
        created_at=done_at, due_at=done_at, processed_at=done_at, attempts=0, worker="w",
        duration_ms=1, result="done",
    )  # fmt: skip
    assert "it was done (at 20:03:00 UTC" in text(post(browser, row, "replay"))
    assert "It is not dead any more: <strong>done</strong>" in text(browser.get(page_of(row)))
    assert LogEntry.objects.count() == 1


def test_an_old_page_replays_nothing_that_has_died_again(browser: Client, bury: Bury) -> None:
    row = bury()
    seen = OutboxRow.objects.get(pk=row).dead_at
    assert seen is not None
    OutboxRow.objects.filter(pk=row).update(dead_at=timezone.now() + timedelta(seconds=1))
    assert "died again since you looked" in text(
        post(browser, row, "replay", seen=seen.isoformat())
    )
    assert OutboxRow.objects.dead().count() == 1


def test_what_may_happen_twice_is_asked_once_more(
    browser: Client, bury: Bury, consented: list[int]
) -> None:
    row = bury("twice", order_id=7)
    assert "May send twice" in text(browser.get(page_of(row)))
    assert "it may happen twice</button>" in text(post(browser, row, "replay"))
    assert OutboxRow.objects.dead().count() == 1
    assert consented == []
    assert "due again" in text(post(browser, row, "replay", twice="1"))
    assert consented == [7]


def test_what_no_worker_can_run_has_no_button_and_is_refused(browser: Client, bury: Bury) -> None:
    unknown, wrong = bury(kind="example"), bury()
    OutboxRow.objects.filter(pk=unknown).update(kind="gone")
    OutboxRow.objects.filter(pk=wrong).update(args={"order_id": "7"})
    page = text(browser.get(page_of(unknown)))
    assert "This build does not know the kind &#x27;gone&#x27;" in page or "kind gone" in page
    assert ">Replay</button>" not in page
    assert "Correct the arguments" not in page
    page = text(browser.get(page_of(wrong)))
    assert "does not parse: args: are not of the types" in page
    assert ">Replay</button>" not in page
    for row in (unknown, wrong):
        assert "Nothing was changed" in text(post(browser, row, "replay"))
    assert OutboxRow.objects.dead().count() == 2


def test_arguments_are_corrected_through_the_parser_and_the_original_is_kept(
    browser: Client, bury: Bury
) -> None:
    row = bury(args={"order_id": "seven", "more": 1})
    address = reverse("admin:jobs_deadjob_correct", args=[row])
    assert 'value="seven"' in text(browser.get(address))
    page = text(browser.post(address, {"arg-order_id": "sieben", "seen": timezone.now()}))
    assert "is not a whole number: &#x27;sieben&#x27;" in page
    fields = {"arg-order_id": "7", "seen": timezone.now().isoformat()}
    page = text(browser.post(address, fields))
    assert "Not done yet, safe" in page
    assert OutboxRow.objects.get(pk=row).args == {"order_id": "seven", "more": 1}
    page = text(browser.post(address, {**fields, "confirmed": "1"}, follow=True))
    assert "The arguments are corrected" in page
    found = OutboxRow.objects.get(pk=row)
    assert (found.args, found.subject, found.dead_at) == ({"order_id": 7}, "order:7", None)
    assert "seven" in JobEvent.objects.get(what=What.CORRECTED).note
    assert "Corrected and replayed (request" in LogEntry.objects.get().change_message


def refused(letters: Letters, *fields: tuple[bytes, bytes], reason: str = "malformed: x") -> int:
    """A refused entry; its key."""
    dead_letters.refuse(letters, Entry("5-1", list(fields)), reason, "worker-1")
    return -RefusedEntry.objects.get().pk


def test_a_refused_entry_shows_its_bytes_safely_and_becomes_a_job_once(
    browser: Client, letters: Letters, redis: Any
) -> None:
    key = refused(letters, (b"kind", b"example"), (b"order_id", b"\xff<b>\x1b[31m"))
    assert page_of(key) in text(browser.get(LIST))
    page = text(browser.get(page_of(key)))
    assert "\\xff&lt;b&gt;\\x1b[31m" in page
    address = reverse("admin:jobs_deadjob_correct", args=[key])
    fields = {"arg-order_id": "7", "seen": timezone.now().isoformat(), "confirmed": "1"}
    page = text(browser.post(address, fields, follow=True))
    made = OutboxRow.objects.get()
    assert f"Outbox row {made.pk} was made of it" in page
    assert (made.kind, made.args, made.subject) == ("example", {"order_id": 7}, "order:7")
    assert "there is nothing to correct" in text(browser.post(address, fields, follow=True))
    assert OutboxRow.objects.count() == 1
    assert redis.xlen("jobs:dead") == 0
    assert bytes(RefusedEntry.objects.get().raw[3]) == b"\xff<b>\x1b[31m"


def test_a_refused_entry_without_a_kind_asks_for_one(browser: Client, letters: Letters) -> None:
    key = refused(letters, (b"order_id", b"7"))
    address = reverse("admin:jobs_deadjob_correct", args=[key])
    assert 'href="?kind=example"' in text(browser.get(address))
    assert 'value="7"' in text(browser.get(address, {"kind": "example"}))
    fields = {"kind": "example", "arg-order_id": "7", "seen": timezone.now().isoformat()}
    browser.post(address, {**fields, "confirmed": "1"})
    assert OutboxRow.objects.get().args == {"order_id": 7}


def test_a_job_is_discarded_with_a_reason_and_stays_known(
    browser: Client, bury: Bury, redis: Any
) -> None:
    row = bury()
    assert "Write down why" in text(post(browser, row, "discard", reason="  "))
    assert "Discarded." in text(post(browser, row, "discard", reason="tested by Carla"))
    assert OutboxRow.objects.get(pk=row).discarded_at is not None
    assert redis.xlen("jobs:dead") == 0
    assert "0 dead jobs" in text(browser.get(LIST))
    assert "tested by Carla" in text(browser.get(page_of(row)))
    assert "tested by Carla" in LogEntry.objects.get().change_message
    assert "it was discarded" in text(post(browser, row, "replay"))


def test_all_that_match_are_replayed_after_the_count_is_confirmed(
    browser: Client, bury: Bury, letters: Letters, redis: Any
) -> None:
    rows = [bury(order_id=n) for n in range(3)]
    done, other = bury("over"), bury("twice")
    OutboxRow.objects.filter(pk=rows[2]).update(args={})
    refused(letters, (b"kind", b"example"))
    page = text(choose(browser, "replay_many"))
    assert "6 dead jobs are chosen" in page
    assert "Replay 3 dead jobs" in page, "two that are safe, one that is done already"
    assert "2 cannot be replayed and stay" in page
    assert "Also the 1 that may happen twice" in page
    assert OutboxRow.objects.dead().count() == 5
    seen = timezone.now().isoformat()
    late = bury(order_id=99)
    page = text(choose(browser, "replay_many", confirmed="1", seen=seen))
    assert "0 of 3 are settled" in page
    assert set(OutboxRow.objects.live().values_list("pk", flat=True)) == {*rows[:2], done}
    assert {int(f[b"row"] or 0) for _, f in redis.xrange("jobs:dead")} == {0, rows[2], other, late}
    assert "3 jobs, batch" in LogEntry.objects.get().change_message
    page = text(choose(browser, "replay_many", confirmed="1", seen=seen))
    assert "no such job is dead any more" in page
    assert LogEntry.objects.count() == 1


def test_asking_about_all_asks_no_more_of_many_than_of_few(browser: Client, bury: Bury) -> None:
    def asked() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            choose(browser, "replay_many")
        # Without the look at the orders of those that are shown on the list.
        return [one["sql"] for one in captured if "jobs_" in one["sql"]]

    bury()
    few = asked()
    for _ in range(5):
        bury()
    many = asked()
    assert [len(one) for one in many] == [len(one) for one in few], "no key goes to and fro"
    groups = [one for one in many if "GROUP BY" in one]
    assert len(set(groups)) == len(groups) == 3, "one for each filter"


def test_the_filter_bounds_what_is_replayed(browser: Client, bury: Bury) -> None:
    wanted, other = bury(), bury("over")
    query = "?kind=example"
    assert "1 dead job is chosen" in text(choose(browser, "replay_many", query=query))
    seen = timezone.now().isoformat()
    choose(browser, "replay_many", query=query, confirmed="1", seen=seen)
    assert OutboxRow.objects.live().get().pk == wanted
    assert OutboxRow.objects.dead().get().pk == other


def test_chosen_ones_are_discarded_together(
    browser: Client, bury: Bury, letters: Letters, redis: Any
) -> None:
    rows = [bury(), bury()]
    key = refused(letters, (b"x", b"y"))
    chosen = (rows[0], key)
    assert "2 dead jobs are chosen" in text(choose(browser, "discard_many", *chosen))
    seen = timezone.now().isoformat()
    page = text(choose(browser, "discard_many", *chosen, confirmed="1", seen=seen))
    assert "Write down why" in page
    fields = {"confirmed": "1", "seen": seen, "reason": "a test"}
    assert "2 were discarded" in text(choose(browser, "discard_many", *chosen, **fields))
    assert OutboxRow.objects.dead().get().pk == rows[1]
    assert RefusedEntry.objects.get().settled_at is not None
    assert redis.xlen("jobs:dead") == 1


def test_seeing_replaying_and_discarding_are_three_permissions(bury: Bury) -> None:
    row = bury()
    nobody, viewer = staff(name="nobody"), staff("view_deadjob", name="viewer")
    assert nobody.get(LIST).status_code == 403
    assert nobody.get(page_of(row)).status_code == 403
    page = text(viewer.get(page_of(row)))
    assert "Not done yet, safe" in page
    assert ">Replay</button>" not in page
    assert "Discard</button>" not in page
    assert "replay_many" not in text(viewer.get(LIST))
    for what in ("replay", "discard", "correct"):
        assert post(viewer, row, what, reason="x").status_code == 403
    choose(viewer, "replay_many", confirmed="1", seen=timezone.now().isoformat())
    replayer = staff("view_deadjob", "replay", name="replayer")
    assert post(replayer, row, "discard", reason="x").status_code == 403
    assert OutboxRow.objects.dead().count() == 1
    assert post(replayer, row, "replay").status_code == 200
    assert OutboxRow.objects.live().count() == 1


def test_nothing_is_changed_by_get_or_without_the_token(browser: Client, bury: Bury) -> None:
    row = bury()
    for what in ("replay", "discard"):
        browser.get(
            reverse(f"admin:jobs_deadjob_{what}", args=[row]), {"seen": timezone.now().isoformat()}
        )
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser.cookies
    assert post(strict, row, "replay").status_code == 403
    assert OutboxRow.objects.dead().count() == 1


@pytest.mark.parametrize("key", ["0", "-0", "abc", "1e3", "9" * 30, "-5", "7", "²"])
def test_an_address_that_leads_nowhere_is_not_found(browser: Client, key: str) -> None:
    assert browser.get(f"{LIST}{key}/change/").status_code == 404
    for what in ("replay", "discard", "correct"):
        answer: Answer = browser.post(f"{LIST}{key}/{what}/", {"seen": "nonsense", "reason": "x"})
        assert answer.status_code in (302, 404), what
    assert browser.get(f"{LIST}batch/7/").status_code == 404


def test_a_kind_is_paused_and_resumed(browser: Client) -> None:
    pause = reverse("admin:jobs_kindhold_pause")
    form = {"kind": "example", "minutes": "10", "reason": "the provider said so"}
    page = text(browser.post(pause, form, follow=True))
    assert "Held until" in page
    assert "the provider said so" in page
    hold = KindHold.objects.get()
    assert (hold.kind, hold.by) == ("example", "carla")
    assert "Paused for 10 minutes" in LogEntry.objects.get().change_message
    page = text(
        browser.post(reverse("admin:jobs_kindhold_resume"), {"kind": "example"}, follow=True)
    )
    assert "Goes on: example" in page
    assert not KindHold.objects.exists()


@pytest.mark.parametrize(
    "wrong", [{"minutes": "0"}, {"minutes": "x"}, {"reason": ""}, {"kind": "y"}]
)
def test_a_pause_that_cannot_be_meant_is_refused(browser: Client, wrong: dict[str, str]) -> None:
    form = {"kind": "example", "minutes": "10", "reason": "r", **wrong}
    page = text(browser.post(reverse("admin:jobs_kindhold_pause"), form, follow=True))
    assert 'class="error"' in page
    assert not KindHold.objects.exists()


def test_only_who_may_change_holds_does(bury: Bury) -> None:
    viewer = staff("view_kindhold")
    assert "Pause" not in text(viewer.get("/admin/jobs/kindhold/")).replace("Paused", "")
    form = {"kind": "example", "minutes": "10", "reason": "r"}
    assert viewer.post(reverse("admin:jobs_kindhold_pause"), form).status_code == 403
    assert viewer.post(reverse("admin:jobs_kindhold_resume"), form).status_code == 403
    assert viewer.get(reverse("admin:jobs_kindhold_pause")).status_code == 405


def test_the_banner_says_what_is_wrong_on_every_page(browser: Client, bury: Bury) -> None:
    bury()
    holds.trip("example", "ConnectionError: refused")
    with transaction.atomic():
        late = enqueue("example", order_id=1)
    OutboxRow.objects.filter(pk=late).update(due_at=timezone.now() - timedelta(minutes=5))
    for address in ("/admin/", LIST, "/admin/jobs/kindhold/"):
        page = text(browser.get(address))
        assert "No worker is at work" in page, address
        assert "No relay is at work" in page
        assert "No scheduler is at work" in page
        assert "1 dead job waits" in page
        assert "The oldest job has been due for 5 min" in page
        assert "held example until" in page
    assert "No worker" not in text(Client().get("/admin/login/")), "not for strangers"


def test_an_action_is_not_logged_where_it_changed_nothing(browser: Client, bury: Bury) -> None:
    row = bury()
    conclusion.mark_dead(row, "none", "x", Failure("", "", ""))
    choose(
        browser, "discard_many", row, confirmed="1", reason="r", seen="2020-01-01T00:00:00+00:00"
    )
    assert OutboxRow.objects.dead().count() == 1
    assert not LogEntry.objects.exists()
    assert DeadJob.objects.count() == 1


def test_what_a_browser_cannot_send_is_answered_in_words(browser: Client, bury: Bury) -> None:
    row = bury()
    assert "Write down why" in text(post(browser, row, "discard", reason="a\0b"))
    for seen in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-13-01", "\0"):
        assert post(browser, row, "replay", seen=seen).status_code == 200
        answer = choose(browser, "replay_many", confirmed="1", seen=seen)
        assert "Replay 1 dead job" in text(answer), "asked again"
    for query in ("kind=%00", "same_error=%00", "error_class=%00", "q=" + "9" * 5000, "p=x", "e=1"):
        assert browser.get(f"{LIST}?{query}", follow=True).status_code == 200, query
    assert browser.get(f"{LIST}{'9' * 5000}/change/").status_code == 404
    assert OutboxRow.objects.dead().count() == 1


def test_a_row_with_a_number_too_long_for_python_breaks_no_page(
    browser: Client, bury: Bury, letters: Letters, redis: Any, settings: Any
) -> None:
    long, other = bury(), bury()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_outbox SET args = jsonb_build_object('order_id', %s::numeric)"
            " WHERE id = %s",
            ["9" * 5000, long],
        )
    assert "does not parse" in text(browser.get(page_of(long)))
    assert "Replay 1 dead job" in text(choose(browser, "replay_many"))
    redis.flushall()
    settings.JOBS = {**settings.JOBS, "RECONCILE_AFTER": 0.0}
    dead_letters.Looked.at = float("-inf")
    assert dead_letters.reconcile(letters) == 2
    assert {int(fields[b"row"]) for _, fields in redis.xrange("jobs:dead")} == {long, other}


def test_a_chosen_group_is_shown_however_small_it_is(browser: Client, bury: Bury) -> None:
    letters = "abcdefghijklmnopq"
    for letter in letters:
        bury(error=f"{letter.upper()}Error: x")
    page = text(browser.get(LIST, {"error_class": "QError"}))
    assert "QError (1)" in page
    assert "1 dead job" in page


def test_a_discarded_entry_says_by_whom_and_why(browser: Client, letters: Letters) -> None:
    key = refused(letters, (b"x", b"y"))
    post(browser, key, "discard", reason="somebody's test")
    assert "discarded by carla: somebody&#x27;s test" in text(browser.get(page_of(key)))


def test_a_held_kind_is_named_before_a_replay(browser: Client, bury: Bury) -> None:
    row = bury()
    holds.pause("example", 60, "the provider is down", "ann@desk")
    assert "But not yet: held example until" in text(browser.get(page_of(row)))
    assert "They will wait: held example until" in text(choose(browser, "replay_many"))
    assert "due again, and waits: held example" in text(post(browser, row, "replay"))


def test_a_kind_that_is_readable_is_not_exchanged_for_another(
    browser: Client, letters: Letters
) -> None:
    key = refused(letters, (b"kind", b"example"), (b"order_id", b"x"))
    address = reverse("admin:jobs_deadjob_correct", args=[key])
    form = {"kind": "twice", "arg-order_id": "7", "seen": timezone.now().isoformat()}
    browser.post(address, {**form, "confirmed": "1"})
    assert OutboxRow.objects.get().kind == "example"


def replay_in_a_thread(browser: Client, seen: str) -> Answer:
    """Replay all, over a connection that ends with it."""
    try:
        return choose(browser, "replay_many", confirmed="1", seen=seen)
    finally:
        connection.close()


def test_what_somebody_replays_this_moment_is_said_so(
    browser: Client, bury: Bury, letters: Letters
) -> None:
    row = bury()
    seen = timezone.now().isoformat()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM jobs_outbox WHERE id = %s FOR UPDATE", [row])
        with ThreadPoolExecutor() as threads:
            page = threads.submit(replay_in_a_thread, browser, seen).result()
    assert "somebody is replaying these at this moment" in text(page)


def test_a_chosen_job_that_is_safe_is_not_consented_for(
    browser: Client, bury: Bury, consented: list[int]
) -> None:
    rows = [bury(order_id=1), bury("twice", order_id=2), bury("twice", order_id=3)]
    seen = timezone.now().isoformat()
    choose(browser, "replay_many", *rows, confirmed="1", twice="1", seen=seen)
    assert consented == [2, 3]
    assert OutboxRow.objects.live().count() == 3


def test_an_order_is_no_link_for_who_may_not_open_it(browser: Client, bury: Bury) -> None:
    order = buy(new_type())
    row = bury(order_id=order.id)
    address = reverse("admin:orders_order_change", args=[order.id])
    for page in (text(browser.get(LIST)), text(browser.get(page_of(row)))):
        assert order.code in page
        assert address not in page
    allowed = staff("view_deadjob", "view_order", name="box office")
    for page in (text(allowed.get(LIST)), text(allowed.get(page_of(row)))):
        assert f'href="{address}"' in page
