"""The page "Queue" of the admin: what it says is wrong, what it shows, and to whom."""

import re
from datetime import timedelta
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from jobs import holds, processes
from jobs.models import OutboxRow, Process, Sample
from jobs.samples import take
from tests.browser.people import employee
from tests.web import text

from .looks import CLOSED, deliver, done, idle_for, publish, put, shift

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/admin/jobs/sample/"


@pytest.fixture(autouse=True)
def _well(redis: redis_client.Redis) -> None:
    """A group, and one of each at work."""
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)
    processes.say_alive("worker", "worker-1", "3 of 8 slots busy", 8, 3)
    processes.say_alive("relay", "relay-1", "relaying")
    processes.say_alive("scheduler", "scheduler-1", "waits")


@pytest.fixture
def browser(client: Client) -> Client:
    """Somebody who may see the queue and nothing else."""
    client.force_login(employee("jobs.view_sample"))
    return client


def advice(browser: Client) -> list[str]:
    """What the page says is wrong, and what to do."""
    section = text(browser.get(PAGE)).split('data-part="verdict"')[1].split("</section>")[0]
    found = re.findall(r'<p class="advice[^"]*">(.*?)</p>', section, flags=re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", one).split()) for one in found]


def late(seconds: float) -> int:
    [row] = put()
    shift("due_at", row, -seconds)
    shift("available_at", row, -seconds)
    return row


# What is wrong


def test_a_queue_that_is_well_says_so(browser: Client) -> None:
    assert advice(browser) == ["All is well."]
    assert "Nothing is due." in text(browser.get(PAGE))


def test_without_a_worker_it_says_since_when_tickets_wait(browser: Client) -> None:
    processes.say_gone("worker", "worker-1")
    assert advice(browser) == ["No worker runs. Nothing waits. Start one: manage.py runworker"]
    late(190)
    assert advice(browser) == [
        "No worker runs. Tickets wait since 3 min. Start one: manage.py runworker"
    ]
    assert "1 job is due, and nobody works on them." in text(browser.get(PAGE))


def test_workers_that_read_no_more_are_no_workers(browser: Client) -> None:
    processes.say_alive("worker", "worker-1", "3 of 8 slots busy, reads no more", 0, 3)
    assert advice(browser) == ["No worker reads new jobs. Nothing waits. Start the workers again."]


@pytest.mark.parametrize("role", ["relay", "scheduler"])
def test_whoever_else_is_missing_is_named(browser: Client, role: str) -> None:
    processes.say_gone(role, f"{role}-1")
    [said] = advice(browser)
    assert said.startswith(f"No {role} runs. ")
    command = {"relay": "relay", "scheduler": "schedule"}[role]
    assert said.endswith(f"Start one: manage.py {command}")


def test_a_late_job_is_told_with_where_it_is_kept(
    browser: Client, redis: redis_client.Redis
) -> None:
    row = late(70)
    assert advice(browser) == [
        (
            "The oldest job has been due for 1 min. It is not relayed: the relay holds or cannot "
            "reach a server, its log says why."
        )
    ]
    seconds: Any = redis.time()
    publish(redis, row, f"{(seconds[0] - 65) * 1000}-0")
    assert "There are too few workers" in advice(browser)[0]
    deliver(redis)
    assert "It is with a worker" in advice(browser)[0]


def test_a_job_that_nobody_takes_over_is_told(browser: Client, redis: redis_client.Redis) -> None:
    [row] = put()
    entry = publish(redis, row)
    deliver(redis)
    idle_for(redis, "worker-1", entry, 130)
    assert advice(browser) == [
        (
            "Nobody takes over what worker-1 was given 2 min ago. Start a worker: it takes over "
            "what a dead one left."
        )
    ]


def test_what_a_person_holds_is_shown_and_is_nothing_wrong(browser: Client) -> None:
    late(3000)
    holds.pause("drill_row", 600, "the provider moves house", "operator")
    assert advice(browser) == ["All is well."]
    page = text(browser.get(PAGE))
    assert "drill_row is held by operator until" in page
    assert "Nothing is due; held besides: drill_row." in page


def test_what_the_breaker_holds_and_what_is_dead_is_for_somebody(client: Client) -> None:
    client.force_login(employee("jobs.view_sample", "jobs.view_deadjob", "jobs.view_kindhold"))
    holds.trip("drill_call", "ConnectionRefusedError: away")
    [row] = put()
    OutboxRow.objects.filter(pk=row).update(dead_at=timezone.now())
    assert advice(client) == [
        (
            "drill_call is held, its jobs fail: ConnectionRefusedError: away Mend that; it goes on "
            "by itself, or at once when it is resumed."
        ),
        "1 dead job waits for somebody. Replay, correct or discard.",
    ]
    page = text(client.get(PAGE))
    assert '<a href="/admin/jobs/kindhold/">Mend that' in page
    assert '<a href="/admin/jobs/deadjob/">Replay, correct or discard.</a>' in page


def test_links_are_for_those_who_may_follow_them(browser: Client) -> None:
    holds.trip("drill_call", "away")
    page = text(browser.get(PAGE))
    assert "/admin/jobs/kindhold/" not in page
    assert "/admin/jobs/deadjob/" not in page


def test_while_redis_is_away_the_age_is_still_true(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(300)
    monkeypatch.setattr(settings, "REDIS_URL", CLOSED)
    first, second = advice(browser)
    assert first.startswith("Redis does not answer. Orders are taken")
    assert second.startswith("The oldest job has been due for 5 min.")
    page = text(browser.get(PAGE))
    assert "The stream: not known, Redis does not answer" in page
    assert "0 entries" not in page


# What it shows


def kept(minutes_ago: int, age: float | None, finished: int) -> None:
    """A sample, as the scheduler took it then."""
    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    Sample.objects.create(
        minute=minute, ages={"oldest": age, "not_paused": age}, depth={}, redis=True, workers=1,
        finished={"drill_row": [finished, 2.0], "drill_call": [1, 0.5]}, slots=8, busy=8, relays=1,
        schedulers=1, done=finished + 1,
    )  # fmt: skip


def chart(browser: Client, name: str, query: str = "") -> str:
    return text(browser.get(f"{PAGE}{query}")).split(f'id="{name}-title"')[1].split("</figure>")[0]


def test_the_past_is_drawn_and_stands_in_a_table(browser: Client) -> None:
    for ago, age in ((3, 10.0), (2, 400.0), (1, 90.0), (0, None)):
        kept(ago, age, finished=30)
    drawn = chart(browser, "age")
    # Four samples and now, in one go.
    [path] = re.findall(r'class="line" d="([^"]+)"', drawn)
    assert (path.count("M"), path.count("L")) == (1, 4)
    assert "<td>6 min</td>" in drawn
    assert "<td>31</td>" in chart(browser, "done")


def test_the_highest_point_is_drawn_highest(browser: Client) -> None:
    for ago, age in ((2, 10.0), (1, 500.0), (0, 90.0)):
        kept(ago, age, finished=0)
    [path] = re.findall(r'class="line" d="([^"]+)"', chart(browser, "age"))
    heights = [float(height) for height in re.findall(r"[ML]\S+ (\S+)", path)]
    assert min(heights) == heights[1]
    assert heights[0] > heights[2] > heights[1]
    assert all(0 <= height <= 150 for height in heights)


def test_minutes_without_a_scheduler_are_a_gap_and_not_zero(browser: Client) -> None:
    for ago in (20, 19, 5, 4):
        kept(ago, 30.0, finished=10)
    [path] = re.findall(r'class="line" d="([^"]+)"', chart(browser, "age"))
    assert path.count("M") == 3


@pytest.mark.parametrize("hours", [1, 3, 12, 24, 168])
def test_a_longer_past_is_drawn_with_no_more_points(browser: Client, hours: int) -> None:
    minute = timezone.now().replace(second=0, microsecond=0)
    Sample.objects.bulk_create(
        Sample(
            minute=minute - timedelta(minutes=ago), ages={"not_paused": 50.0}, depth={},
            finished={"drill_row": [12, 1.0]}, redis=True, workers=1, slots=8, busy=1, relays=1,
            schedulers=1, done=12,
        )
        for ago in range(168 * 60)
    )  # fmt: skip
    [path] = re.findall(r'class="line" d="([^"]+)"', chart(browser, "age", f"?hours={hours}"))
    assert min(60 * hours, 170) <= path.count("L") <= 183
    assert "<td>12</td>" in chart(browser, "done", f"?hours={hours}")


def test_nonsense_in_the_address_shows_the_usual_hours(browser: Client) -> None:
    for query in ("?hours=-1", "?hours=<b>", "?hours=99999999999999999999"):
        assert '<strong aria-current="true">3 h</strong>' in text(browser.get(f"{PAGE}{query}"))


def test_kinds_are_told_with_what_was_done_in_the_last_hour(browser: Client) -> None:
    kept(70, None, finished=1000)
    kept(5, None, finished=30)
    kept(4, None, finished=10)
    put(2)
    row = re.sub(r"<[^>]+>", " ", text(browser.get(PAGE)).split('scope="row">drill_row')[1])
    assert row.split()[:7] == ["2", "0", "0", "0", "0", "40", "2.00"]


def test_whoever_works_is_shown_with_slots_and_build(browser: Client) -> None:
    page = text(browser.get(PAGE))
    assert '<meter aria-label="Busy slots" min="0" max="8" value="3">3</meter> 3 of 8' in page
    for who in ("worker worker-1", "relay relay-1", "scheduler scheduler-1"):
        assert f'<th scope="row">{who}</th>' in page


def test_who_is_seen_by_a_clock_that_jumped_back_is_seen_now(browser: Client) -> None:
    Process.objects.update(seen_at=timezone.now() + timedelta(hours=1))
    page = text(browser.get(PAGE))
    assert page.count('<td data-label="seen">0 s ago</td>') == 3


def test_what_is_done_in_no_time_is_done_in_a_second(browser: Client) -> None:
    done("drill_row", seconds=0.01)
    put()
    assert "1 job is due, done in 1 s (at " in text(browser.get(PAGE))


def test_the_time_to_drain_is_the_one_of_the_order_page(browser: Client) -> None:
    done("drill_row", seconds=20)
    put(80)
    assert "80 jobs are due, done in 3 min (at " in text(browser.get(PAGE))


def test_a_sample_of_the_product_can_be_drawn(browser: Client) -> None:
    late(100)
    take(timezone.now() - timedelta(minutes=1))
    assert "<td>1 min</td>" in chart(browser, "age")


# Who, and how


def test_it_is_for_those_who_may_view_it(client: Client) -> None:
    client.force_login(employee("jobs.view_deadjob"))
    answer: Any = client.get(PAGE)
    assert answer.status_code == 403
    assert "Queue" not in text(client.get("/admin/"))


def test_the_index_and_the_banner_lead_to_it(browser: Client) -> None:
    processes.say_gone("worker", "worker-1")
    index = text(browser.get("/admin/"))
    assert f'<a href="{PAGE}">No worker is at work' in index
    assert index.count(PAGE) >= 2
    # The page tells it in full, and the banner is not above it.
    assert "No worker is at work" not in text(browser.get(PAGE))


def test_an_open_page_asks_for_its_changing_part_alone(browser: Client) -> None:
    part = text(browser.get(f"{PAGE}?part&hours=12"))
    assert "<html" not in part
    assert re.findall(r'data-part="(\w+)"', part) == [
        "verdict", "drain", "charts", "kinds", "processes", "rest"
    ]  # fmt: skip
    assert 'data-url="?part&amp;hours=12"' in text(browser.get(f"{PAGE}?hours=12"))


def test_nothing_is_written_inside_a_tag_that_the_page_forbids(client: Client) -> None:
    client.force_login(User.objects.create_superuser("chief"))
    kept(1, 100.0, finished=10)
    main = text(client.get(PAGE)).split('id="content-main"')[1]
    assert "style=" not in main
    assert "<script" not in main


def test_what_others_wrote_is_only_text(browser: Client) -> None:
    processes.say_alive("worker", "<b>", "<script>alert(1)</script>", 8, 1)
    holds.trip("drill_call", "<img src=x onerror=alert(1)>")
    page = text(browser.get(PAGE))
    assert "<script>alert" not in page
    assert "<img src=x" not in page
