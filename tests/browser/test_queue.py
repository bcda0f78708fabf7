"""The page "Queue" in a real browser: open, it follows by itself."""

from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, Route

from jobs import processes
from jobs.models import Process
from tests.jobs.looks import put
from tests.processes import wait_for

from .conftest import LogIn
from .people import employee

COUNT_LOOKS = """
window.looks = 0;
const plain = window.fetch;
window.fetch = (...words) => { window.looks += 1; return plain(...words); };
"""


def test_an_open_page_follows_the_queue_and_keeps_what_is_opened(log_in: LogIn) -> None:
    for role in ("worker", "relay", "scheduler"):
        processes.say_alive(role, "one", "3 of 8 slots busy", 8, 3)
    # However slow this machine is.
    Process.objects.update(seen_at=timezone.now() + timedelta(hours=1))
    duty = log_in(employee("jobs.view_sample", name="duty"))
    duty.follow("Queue")
    duty.sees("Nothing is due.", "3 of 8 slots busy")
    duty.main(lambda main: main.get_by_text("as a table").first.click())
    before = duty.window.do(lambda page: page.evaluate("performance.timeOrigin"))
    put(3)
    Process.objects.filter(role="worker").delete()
    duty.sees("No worker runs. Tickets wait since", "3 jobs are due, and nobody works on them.")
    # Not loaded anew: the table is still open.
    assert duty.window.do(lambda page: page.evaluate("performance.timeOrigin")) == before
    assert duty.main(lambda main: main.locator("details[open]").count()) == 1


def test_an_open_page_has_one_look_under_way_while_a_server_hangs(log_in: LogIn) -> None:
    duty = log_in(employee("jobs.view_sample", name="patient"))
    hanging: list[Route] = []

    def open_page(page: Page) -> None:
        page.clock.install()
        page.add_init_script(COUNT_LOOKS)
        page.route("**/admin/jobs/sample/?part*", lambda route: hanging.append(route))
        page.goto("/admin/jobs/sample/")

    def looks_after(page: Page, seconds: int) -> int:
        page.clock.run_for(seconds * 1000)
        return int(page.evaluate("window.looks"))

    duty.window.do(open_page)
    assert duty.window.do(lambda page: looks_after(page, 21)) == 1, "not one each 5 s"
    wait_for(lambda: duty.window.do(lambda page: looks_after(page, 0)) and hanging, "the look")
    duty.window.do(lambda page: hanging[0].continue_())
    wait_for(lambda: duty.window.do(lambda page: looks_after(page, 5)) == 2, "the next look", 10)
    duty.window.do(lambda page: page.unroute_all(behavior="ignoreErrors"))


def test_who_is_logged_out_is_told_so_and_sees_no_other_page_inside(log_in: LogIn) -> None:
    duty = log_in(employee("jobs.view_sample", name="forgotten"))

    def lose_the_session(page: Page) -> None:
        page.clock.install()
        page.goto("/admin/jobs/sample/")
        page.context.clear_cookies()
        page.clock.run_for(6_000)

    duty.window.do(lose_the_session)
    duty.sees("This page could not look again", "By kind")
    duty.sees_no("Password")
