"""The admin's pages of schedules: what they say, what their buttons do, and for whom."""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import processes, schedule
from jobs.job import Job
from jobs.models import (
    JobEvent,
    OutboxRow,
    ScheduleCursor,
    ScheduledRun,
    SchedulePause,
)
from jobs.prognosis import Effect, Prognosis
from jobs.scheduler import step
from jobs.testing import drain
from tests.conftest import Register
from tests.jobs.scheduled import MINUTELY, Numbered
from tests.jobs.test_admin import staff
from tests.web import Answer, text

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/jobs/scheduledrun/"
BERLIN = replace(
    MINUTELY, name="nightly", words="Does it at night", cron="30 2 * * *", tz="Europe/Berlin",
    kind="careful",
)  # fmt: skip
ODD = replace(MINUTELY, name="a/../b?c&d=#1 %2F“ü”<i>")
ALL = ("view_scheduledrun", "run_schedule", "pause_schedule", "view_deadjob")


@pytest.fixture(autouse=True)
def _declared(kind: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    @kind("example")
    def example(job: Job[Numbered]) -> None:
        """State: the example was done."""
        with job.effects():
            pass

    @kind("careful", foresee=lambda args: [Prognosis(Effect.NOTHING, "all is done") for _ in args])
    def careful(job: Job[Numbered]) -> None: ...

    monkeypatch.setattr(schedule, "_declared", [MINUTELY, BERLIN])
    processes.say_alive("scheduler", "one", "2 schedules")


@pytest.fixture
def browser() -> Client:
    return staff(*ALL)


def shown(answer: Answer) -> str:
    """What can be read on a page, without its markup, in one line."""
    main = text(answer).partition('id="content-main"')[2] or text(answer)
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"</?span[^>]*>", "", main)).split())


def one(browser: Client, name: str = "minutely", **query: str) -> Answer:
    return browser.get(f"{LIST}one/?{urlencode({'name': name, **query})}")


def post(browser: Client, what: str, name: str = "minutely", **fields: str) -> Answer:
    return browser.post(f"{LIST}{what}/", {"name": name, **fields}, follow=True)


def asked(browser: Client, name: str = "minutely") -> str:
    """Ask what a run by hand would do; when that page was made."""
    page = text(browser.get(f"{LIST}run/?{urlencode({'name': name})}"))
    [seen] = re.findall(r'name="seen" value="([^"]+)"', page)
    return str(seen)


def said(answer: Answer) -> list[str]:
    """The messages of a page."""
    return [re.sub(r"</?a[^>]*>", "", str(one)) for one in answer.context["messages"]]


# What is shown


def test_the_list_says_of_each_what_it_does_when_and_whether_it_fires(browser: Client) -> None:
    now = timezone.now()
    step([MINUTELY, BERLIN], "one", now)
    page = shown(browser.get(LIST))
    assert "minutely Does the example each minute Every minute * * * * * UTC" in page
    assert "nightly Does it at night At 02:30 every day 30 2 * * * Europe/Berlin" in page
    assert re.search(r"\d 02:30 CES?T, \d{4}-\d\d-\d\d 0[01]:30 UTC not yet fires", page)
    ScheduleCursor.objects.update(decided_until=now - timedelta(minutes=9))
    assert "nobody fires it: the log of the scheduler says why" in shown(browser.get(LIST))
    processes.say_gone("scheduler", "one")
    assert "nobody fires it: no scheduler runs" in shown(browser.get(LIST))


def test_the_list_has_what_this_build_does_not_declare_and_says_so(browser: Client) -> None:
    step([replace(MINUTELY, name="gone", cron="0 4 * * *")], "one")
    page = shown(browser.get(LIST))
    assert "gone At 04:00 every day 0 4 * * * UTC" in page
    assert "not of this build" in page
    assert "no scheduler of this build has seen it yet" in page, "of the two that are declared"
    assert "Run now" not in shown(one(browser, "gone"))
    assert browser.get(f"{LIST}run/?name=gone").status_code == 404
    # A build that is gone may have known zones and expressions that this one does not.
    ScheduleCursor.objects.filter(name="gone").update(tz="Mars/Olympus", cron="often")
    slots(1, "gone")
    assert "often: often , on the clock of Mars/Olympus" in shown(one(browser, "gone"))
    post(browser, "pause", "gone", reason="it comes again")
    ScheduleCursor.objects.all().delete()
    assert "it comes again" in shown(browser.get(LIST))


def fire(count: int = 1) -> datetime:
    """So many due times of the minutely schedule, each a job; the last one is a minute ago."""
    last = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=1)
    step([MINUTELY], "one", last - timedelta(minutes=count, seconds=-30))
    step([MINUTELY], "one", last + timedelta(seconds=1))
    return last


def test_a_page_tells_each_slot_with_its_job_and_leads_to_it(browser: Client) -> None:
    last = fire(4)
    ids = [slot.outbox_id or 0 for slot in ScheduledRun.objects.order_by("due_at")]
    dead, gone = ids[:2]
    OutboxRow.objects.filter(pk=dead).update(dead_at=timezone.now())
    OutboxRow.objects.filter(pk=gone).delete()
    OutboxRow.objects.filter(pk=ids[2]).update(available_at=timezone.now() + timedelta(hours=1))
    drain()
    page = shown(one(browser))
    history = page.partition("Late Job By")[2]
    places = [history.index(word) for word in (" done ", " waiting", " not known", " dead ")]
    assert places == sorted(places)
    assert f"Last fired {last:%a %Y-%m-%d %H:%M} UTC, 1.0 s late: done" in page
    link = f'<a href="/admin/jobs/deadjob/{dead}/change/">dead</a>'
    assert link in text(one(browser))
    assert link not in text(one(staff("view_scheduledrun", name="looker")))


def test_due_times_that_share_a_row_show_their_number_and_span(browser: Client) -> None:
    start = timezone.now().replace(second=30, microsecond=0) - timedelta(minutes=9)
    step([MINUTELY], "one", start)
    SchedulePause.objects.create(name="minutely", since=start, reason="x", by="ann")
    step([MINUTELY], "one", start + timedelta(minutes=3))
    first, last = (start + timedelta(minutes=n, seconds=-30) for n in (1, 3))
    assert (
        f"{first:%a %Y-%m-%d %H:%M} UTC and on, to {last:%a %Y-%m-%d %H:%M} UTC paused, 3 times"
    ) in shown(one(browser))


def sql(statement: str, *params: Any) -> list[str]:
    """What PostgreSQL answers: the first column."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return [line for (line, *_) in cursor.fetchall()] if cursor.description else []


def slots(count: int, name: str = "minutely") -> None:
    """Rows of past minutes, the newest two minutes ago."""
    sql(
        """
        INSERT INTO jobs_scheduled_run
            (name, due_at, last_due_at, result, seconds_late, by, outbox_id)
        SELECT %s, due, due, 'on time', 1, 'one', number + 1000000 FROM (
            SELECT number, date_trunc('minute', now()) - number * interval '1 minute' AS due
            FROM generate_series(2, %s + 1) AS number) AS made
        """,
        name, count,
    )  # fmt: skip


def test_the_history_goes_on_from_page_to_page_and_leaves_none_out(browser: Client) -> None:
    slots(120)
    seen: list[str] = []
    page = one(browser)
    for _ in range(3):
        assert page.status_code == 200
        seen += [due for slot in page.context["slots"] for due in slot.due]
        older = re.findall(r'href="(\?name=minutely&amp;before=[^"]+)"', text(page))
        page = browser.get(f"{LIST}one/{older[0].replace('&amp;', '&')}") if older else page
    assert len(seen) == len(set(seen)) == 120
    assert ("Older" in shown(page), "Newest" in shown(page)) == (False, True)


def test_a_place_in_the_history_that_is_none_is_the_newest(browser: Client) -> None:
    slots(1)
    for before in ("x", "2026-13-01T00:00Z", "2000-01-01T00:00", "\0"):
        assert one(browser, before=before).context["slots"]
    for before in ("0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"):
        assert one(browser, before=before).status_code == 200


def test_the_number_of_queries_does_not_grow_and_the_index_is_used(browser: Client) -> None:
    slots(1)
    with CaptureQueriesContext(connection) as few:
        one(browser)
    ScheduledRun.objects.all().delete()
    slots(3000, "another")
    slots(3000)
    sql("ANALYZE jobs_scheduled_run")
    with CaptureQueriesContext(connection) as many:
        one(browser)
    assert len(few) == len(many)
    asked = [entry["sql"] for entry in many if "jobs_scheduled_run" in entry["sql"]]
    plans = ["\n".join(sql(f"EXPLAIN {one}".replace("%", "%%"))) for one in asked]
    assert len(plans) >= 3
    for plan in plans:
        assert "jobs_scheduled_run_slot" in plan
        assert "Seq Scan on jobs_scheduled_run" not in plan


# Run now


def test_what_a_run_would_do_is_said_before_it(browser: Client) -> None:
    page = shown(browser.get(f"{LIST}run/?name=nightly"))
    assert "Does it at night All is done. One more job of the kind careful, number 1 ." in page
    post(browser, "pause", reason="x")
    page = shown(browser.get(f"{LIST}run/?name=minutely"))
    assert "After it: the example was done." in page
    assert "The schedule is paused, and stays so: it is run once all the same." in page


def test_a_run_by_hand_is_done_once_and_kept_with_who_did_it(browser: Client) -> None:
    fire()
    drain()
    seen = asked(browser)
    [first] = said(post(browser, "run", seen=seen))
    row = OutboxRow.objects.get()
    assert first == f"Its job is due, a worker runs it in a moment: outbox row {row.pk}."
    again = post(staff(*ALL, name="dora"), "run", seen=seen)
    assert re.fullmatch(
        rf"It was run already from that page, at \S+ UTC by carla: outbox row {row.pk}\.",
        said(again)[0],
    )
    assert f'<a href="/admin/jobs/deadjob/{row.pk}/change/">outbox row {row.pk}</a>' in text(again)
    assert OutboxRow.objects.count() == JobEvent.objects.count() == LogEntry.objects.count() == 1
    entry = LogEntry.objects.get()
    assert entry.change_message.startswith(f"Run by hand: outbox row {row.pk} (request ")
    assert (entry.user.get_username(), entry.object_repr) == ("carla", "minutely")
    assert row.scheduled_for is not None
    assert row.scheduled_for.isoformat() == seen.replace("Z", "+00:00")
    drain()
    assert "by hand – done carla" in shown(one(browser))
    assert re.search(r"late: done by hand \S+ \S+ \S+ UTC by carla: done", shown(browser.get(LIST)))
    story = shown(browser.get(f"/admin/jobs/deadjob/{row.pk}/change/"))
    assert "run by hand carla schedule minutely" in story


def test_a_page_that_is_too_old_or_of_no_time_runs_nothing(browser: Client) -> None:
    now = timezone.now()
    old, to_come = now - timedelta(hours=1, seconds=1), now + timedelta(minutes=1)
    for seen in (old.isoformat(), to_come.isoformat(), "yesterday", ""):
        answer = post(browser, "run", seen=seen)
        assert said(answer) == ["Nothing was run: that page was too old. This is a new one."]
        assert 'name="seen"' in text(answer)
    assert not OutboxRow.objects.exists()


def test_what_no_worker_could_run_is_not_run(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "_declared", [replace(MINUTELY, kind="unknown")])
    assert "Run now" not in text(browser.get(f"{LIST}run/?name=minutely")).partition("main")[2]
    answer = post(browser, "run", seen=timezone.now().isoformat())
    assert said(answer) == ["Nothing was run: this build does not know the kind unknown."]


# Pause and resume


def test_a_schedule_is_paused_with_a_reason_and_resumed(browser: Client) -> None:
    assert said(post(browser, "pause", reason=" "))[0].startswith("Nothing was changed: Write down")
    answer = post(browser, "pause", reason="the <i>singer</i> is ill")
    assert said(answer) == ["Paused: what is due from now on does not fire."]
    assert "by carla: the &lt;i&gt;singer&lt;/i&gt; is ill" in text(answer)
    assert "by carla: the &lt;i&gt;singer&lt;/i&gt; is ill" in text(browser.get(LIST))
    other = staff(*ALL, name="dora")
    already = "Was paused already, by carla: the <i>singer</i> is ill"
    assert said(post(other, "pause", reason="y")) == [already]
    assert said(post(other, "resume")) == [
        "Goes on from now. What was due in the pause does not fire."
    ]
    assert said(post(other, "resume")) == ["Was not paused."]
    pauses = shown(one(browser)).partition("Resumed by")[2]
    assert "the &lt;i&gt;singer&lt;/i&gt; is ill carla dora" in pauses
    log = LogEntry.objects.order_by("pk").values_list("user__username", "change_message")
    assert [(who, what.partition(" (")[0]) for who, what in log] == [
        ("carla", "Paused: the <i>singer</i> is ill"), ("dora", "Resumed"),
    ]  # fmt: skip


# Who may, and what is no address


def test_each_deed_has_its_permission_and_its_method(browser: Client) -> None:
    seen = timezone.now().isoformat()
    deeds: dict[str, dict[str, str]] = {
        "run": {"seen": seen},
        "pause": {"reason": "x"},
        "resume": {},
    }
    may: dict[str, set[str]] = {
        "run_schedule": {"run"},
        "pause_schedule": {"pause", "resume"},
        "view_deadjob": set(),
    }
    for permission, allowed in may.items():
        someone = staff("view_scheduledrun", permission, name=permission)
        page = shown(one(someone))
        assert ("Run now…" in page) == ("run" in allowed)
        assert ("Why is it to be paused?" in page) == ("pause" in allowed)
        for what, fields in deeds.items():
            status = 200 if what in allowed else 403
            assert post(someone, what, **fields).status_code == status
    blind = staff("run_schedule", "pause_schedule", name="blind")
    assert [post(blind, what, **fields).status_code for what, fields in deeds.items()] == [403] * 3
    stranger = staff(name="stranger")
    assert [stranger.get(f"{LIST}{end}").status_code for end in ("", "one/?name=minutely")] == [
        403, 403,
    ]  # fmt: skip
    assert [browser.post(f"{LIST}{end}").status_code for end in ("", "one/")] == [405, 405]
    assert [browser.get(f"{LIST}{end}/").status_code for end in ("pause", "resume")] == [405, 405]
    assert browser.put(f"{LIST}run/").status_code == 405


def test_nothing_is_done_without_the_token() -> None:
    browser = staff(*ALL)
    browser.handler.enforce_csrf_checks = True
    for what in ("run", "pause", "resume"):
        assert browser.post(f"{LIST}{what}/", {"name": "minutely"}).status_code == 403


def test_a_name_of_no_schedule_is_not_found(browser: Client) -> None:
    for name in ("", "nobody", "x" * 101, "a\0b", "a\nb"):
        pages = [browser.get(f"{LIST}{what}/?{urlencode({'name': name})}") for what in GETS]
        pages += [post(browser, what, name, reason="x") for what in ("run", "pause", "resume")]
        assert {page.status_code for page in pages} == {404}
    assert browser.get(f"{LIST}one/").status_code == 404


GETS = ("one", "run")


def test_a_name_of_odd_characters_is_led_to_like_any_other(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "_declared", [ODD])
    slots(1)
    ScheduledRun.objects.update(name=ODD.name)
    [address] = re.findall(r'<a href="([^"]+one/\?name=[^"]+)"', text(browser.get(LIST)))
    page = browser.get(address)
    assert "a/../b?c&amp;d=#1 %2F“ü”&lt;i&gt;" in text(page)
    assert page.context["slots"]
    [ask] = re.findall(r'<a class="button" href="([^"]+)"', text(page))
    [seen] = re.findall(r'name="seen" value="([^"]+)"', text(browser.get(ask)))
    assert post(browser, "run", ODD.name, seen=seen).status_code == 200
    assert post(browser, "pause", ODD.name, reason="x").status_code == 200
    assert OutboxRow.objects.exists()
    assert SchedulePause.objects.get().name == ODD.name
