"""Staff and the dead jobs: found, understood, replayed, corrected, discarded; kinds paused."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import OutboxRow, ProcessedJob, RefusedEntry
from jobs.testing import drain
from orders.services import PlacedOrder
from tests.people import buy, new_type, stranger
from tests.processes import Product
from tickets.models import Delivery, DeliveryState

from . import buried
from .conftest import LogIn
from .people import Staff, employee

LIST = "/admin/jobs/deadjob/"
KINDS = "/admin/jobs/kindhold/"
LOOK = ("jobs.view_deadjob", "jobs.view_kindhold", "orders.view_order")
ACT = (*LOOK, "jobs.replay", "jobs.discard", "jobs.change_kindhold")
DUE = "The job is due again"


def page_of(outbox_id: int) -> str:
    return f"{LIST}{outbox_id}/change/"


def order() -> PlacedOrder:
    return buy(new_type())


@pytest.fixture
def operator(log_in: LogIn) -> Staff:
    """Somebody who may do all that can be done to dead jobs and kinds."""
    return log_in(employee(*ACT, name="operator"))


@pytest.fixture
def onlooker(log_in: LogIn) -> Staff:
    """Somebody who may look at them."""
    return log_in(employee(*LOOK, name="onlooker"))


# The list


def test_the_list_tells_kind_order_error_and_attempts_of_each(operator: Staff) -> None:
    placed = order()
    buried.bury(buried.render_of(placed))
    operator.go("/admin/")
    operator.follow("Dead jobs")
    operator.sees("render_tickets", placed.code, buried.ERROR, "8", "1 dead job")
    operator.follow(placed.code)
    operator.sees("Ada Lovelace")


def test_filters_narrow_the_list_down_and_count(operator: Staff) -> None:
    first, second, third = (buried.render_of(order()) for _ in range(3))
    buried.bury(first, "ValueError: order 1: no glyph")
    buried.bury(second, "ValueError: order 2: no glyph")
    buried.bury(third, "TimeoutError: took 60 s")
    buried.bury(buried.email_of(order()))
    buried.long_ago([first], timedelta(hours=3))
    for link, left in {
        "email_tickets (1)": 1,
        "render_tickets (3)": 3,
        "ValueError (2)": 2,
        "ValueError: order #: no glyph (2)": 2,
        "less than an hour": 3,
        "less than a day": 4,
    }.items():
        operator.go(LIST)
        operator.follow(link)
        operator.sees(f"{left} dead job{'' if left == 1 else 's'}\n")


def test_filters_can_be_combined(operator: Staff) -> None:
    first, second = (buried.bury(buried.render_of(order()), "ValueError: boom") for _ in range(2))
    buried.bury(buried.email_of(order()), "ValueError: boom")
    buried.long_ago([first], timedelta(hours=3))
    operator.go(LIST)
    operator.follow("render_tickets (2)")
    operator.follow("ValueError (3)")
    operator.follow("less than an hour")
    operator.follow("render_tickets")
    operator.sees(f"render_tickets, outbox row {second}")


def test_one_job_is_found_by_its_order_its_outbox_id_and_its_request(operator: Staff) -> None:
    wanted, other = order(), order()
    buried.bury(buried.render_of(other))
    row = buried.bury(buried.render_of(wanted))
    OutboxRow.objects.filter(pk=row).update(request_id="story-7f3a9c2e")
    for term in (wanted.code.lower(), str(row), "story-7f3a9c2e"):
        operator.go(LIST)
        operator.search(term)
        operator.sees(wanted.code)
        operator.sees_no(other.code)


# One job


def test_markup_in_an_error_is_read_and_never_run(operator: Staff) -> None:
    evil = "<script>document.title = 'it ran'</script>"
    broken = "<img src=x onerror=\"document.title = 'it ran'\">"
    row = buried.bury(buried.render_of(order()), f"ValueError: {evil}", f"  at {broken}\n")
    for page in (LIST, page_of(row)):
        operator.go(page)
        operator.sees(evil)
        assert "it ran" not in operator.title()
    operator.sees(broken)


def test_a_traceback_keeps_its_lines(operator: Staff) -> None:
    row = buried.bury(buried.render_of(order()))
    operator.go(page_of(row))
    assert buried.TRACEBACK.strip() in operator.text()


def test_what_a_replay_would_do_is_said_before_the_click(operator: Staff) -> None:
    waiting, done = order(), order()
    render = buried.bury(buried.render_of(waiting))
    drain()
    email = buried.bury(buried.email_of(done))
    operator.go(page_of(render))
    operator.sees("Not done yet, safe")
    operator.go(page_of(email))
    operator.sees("Already done at", "the provider accepted it under this key")


def test_one_job_is_replayed_and_done(operator: Staff) -> None:
    row = buried.bury(buried.render_of(order()))
    operator.go(page_of(row))
    operator.press("Replay")
    operator.sees(DUE, "replayed", "operator")
    assert "Replay" not in operator.buttons()
    drain()
    operator.go(page_of(row))
    operator.sees("It is not dead any more: done.")
    operator.go(LIST)
    operator.sees("0 dead jobs")


def test_what_may_happen_twice_asks_once_more(operator: Staff) -> None:
    placed = order()
    drain()
    two_days_ago = timezone.now() - timedelta(days=2)
    Delivery.objects.update(
        state=DeliveryState.UNCERTAIN,
        first_try_at=two_days_ago,
        called_at=two_days_ago,
        settled_at=None,
    )
    row = buried.bury(buried.email_of(placed))
    operator.go(page_of(row))
    operator.sees("may send twice")
    operator.press("Replay")
    operator.sees("Replay all the same?")
    assert OutboxRow.objects.dead().filter(pk=row).exists()
    operator.press("Replay, it may happen twice")
    operator.sees(DUE)


def test_the_second_of_two_people_is_told_what_the_first_has_done(
    operator: Staff, log_in: LogIn
) -> None:
    row = buried.bury(buried.render_of(order()))
    colleague = log_in(employee(*ACT, name="colleague"))
    colleague.go(page_of(row))
    operator.go(page_of(row))
    operator.press("Replay")
    operator.sees(DUE)
    colleague.press("Replay")
    colleague.sees("Nothing was changed", "it was replayed")


def test_a_job_is_discarded_with_a_reason(operator: Staff) -> None:
    row = buried.bury(buried.render_of(order()))
    operator.go(page_of(row))
    operator.fill("Why does nobody wait for it any more?", "the buyer has paper tickets")
    operator.press("Discard")
    operator.sees("Discarded. It stays known", "the buyer has paper tickets", "operator")
    operator.go(LIST)
    operator.sees("0 dead jobs")


def test_a_discard_without_a_reason_is_not_sent(operator: Staff) -> None:
    row = buried.bury(buried.render_of(order()))
    operator.go(page_of(row))
    operator.press("Discard")
    assert operator.focus() == 'textbox "Why does nobody wait for it any more?"'
    assert OutboxRow.objects.dead().filter(pk=row).exists()


# Arguments


def test_arguments_that_do_not_parse_are_corrected_and_run(operator: Staff) -> None:
    placed = order()
    row = buried.not_parsing(buried.render_of(placed), order_id="seven")
    operator.go(page_of(row))
    operator.sees("Cannot be replayed: it does not parse")
    assert "Replay" not in operator.buttons()
    operator.follow("Correct the arguments")
    operator.press("Check")
    operator.sees("order_id is not")
    operator.fill("order_id", str(placed.id))
    operator.press("Check")
    operator.sees("Not done yet, safe")
    operator.press("Correct and replay")
    operator.sees("The arguments are corrected, the job is due.", "seven")
    drain()
    assert ProcessedJob.objects.get(pk=row).args == {"order_id": placed.id}


def test_a_new_job_is_made_of_an_entry_that_no_row_stands_behind(operator: Staff) -> None:
    placed = order()
    key = -buried.refuse((b"what", b"\xff\xfe"), (b"order_id", str(placed.id).encode()))
    operator.go(page_of(key))
    operator.sees("no outbox row stands behind it")
    operator.follow("Correct the arguments")
    operator.follow("render_tickets")
    operator.press("Check")
    operator.press("Correct and replay")
    operator.sees("was made of it")
    assert RefusedEntry.objects.get().outbox_id is not None


# Many


def test_many_are_replayed_and_the_page_follows_until_all_are_settled(
    operator: Staff, product: Product
) -> None:
    renders = [buried.bury(buried.render_of(order())) for _ in range(3)]
    operator.go(LIST)
    operator.run_on_all("Replay the selected dead jobs")
    operator.sees("3 dead jobs are chosen.", "Not done yet, safe")
    operator.press("Replay 3 dead jobs")
    operator.sees("0 of 3 are settled", "No worker is at work")
    product.relay()
    product.worker()
    operator.sees("3 of 3 are settled: all of them.")
    operator.sees_no("No worker is at work", "No relay is at work")
    assert ProcessedJob.objects.filter(pk__in=renders).count() == 3


def test_what_cannot_be_replayed_is_left_out_of_many(operator: Staff) -> None:
    buried.bury(buried.render_of(order()))
    buried.not_parsing(buried.render_of(order()), order_id="seven")
    operator.go(LIST)
    operator.run_on_all("Replay the selected dead jobs")
    operator.sees("2 dead jobs are chosen.", "1 cannot be replayed and stay on the list.")
    operator.press("Replay 1 dead job")
    operator.sees("Replay of 1 dead job")
    operator.go(LIST)
    operator.sees("1 dead job")


def test_many_are_discarded_with_one_reason(operator: Staff) -> None:
    rows = [buried.bury(buried.render_of(order())) for _ in range(2)]
    operator.go(LIST)
    operator.run_on_all("Discard the selected dead jobs")
    operator.fill("Why does nobody wait for them any more?", "a rehearsal")
    operator.press("Discard 2 dead jobs")
    operator.sees("2 were discarded.", "0 dead jobs")
    operator.go(page_of(rows[0]))
    operator.sees("a rehearsal")


# Keys alone


def test_keys_alone_lead_from_the_list_to_a_replay(operator: Staff) -> None:
    buried.bury(buried.render_of(order()))
    operator.go(LIST)
    operator.tab_to('link "render_tickets"')
    operator.key("Enter")
    operator.sees("What a replay would do")
    operator.tab_to('button "Replay"')
    operator.key("Enter")
    operator.sees(DUE)


def test_keys_alone_replay_many(operator: Staff) -> None:
    for _ in range(2):
        buried.bury(buried.render_of(order()))
    operator.go(LIST)
    operator.tab_to('checkbox "Select all objects on this page for an action"')
    operator.key("Space")
    operator.tab_to('combobox "Action:"', "Shift+Tab")
    operator.key("R")  # as one does in a list: Replay
    operator.tab_to('button "Run"')
    operator.key("Enter")
    operator.sees("2 dead jobs are chosen.")
    operator.tab_to('button "Replay 2 dead jobs"')
    operator.key("Enter")
    operator.sees("0 of 2 are settled")


# Who may


def test_who_may_only_look_finds_nothing_to_press(onlooker: Staff) -> None:
    row = buried.bury(buried.render_of(order()))
    broken = buried.not_parsing(buried.render_of(order()), order_id="seven")
    onlooker.go(LIST)
    onlooker.sees("2 dead jobs")
    assert onlooker.buttons() == ["Search"]
    for page in (page_of(row), page_of(broken), KINDS):
        assert onlooker.go(page) == 200
        onlooker.sees_no("Correct the arguments")
        assert onlooker.buttons() == []


def test_who_may_only_look_is_refused_what_no_page_offers(onlooker: Staff) -> None:
    row = buried.bury(buried.render_of(order()))
    form = {"seen": timezone.now().isoformat(), "reason": "mine", "confirmed": "1"}
    for deed in ("replay", "discard", "correct"):
        assert onlooker.post(f"{LIST}{row}/{deed}/", **form) == 403
        onlooker.post(LIST, action=f"{deed}_many", _selected_action=str(row), **form)
    assert OutboxRow.objects.dead().filter(pk=row).exists()


def test_who_may_only_look_cannot_pause_a_kind(onlooker: Staff) -> None:
    form = {"kind": "email_tickets", "minutes": "10", "reason": "mine"}
    assert onlooker.post(f"{KINDS}pause/", **form) == 403
    assert onlooker.post(f"{KINDS}resume/", **form) == 403


def test_pages_of_jobs_are_closed_to_others(log_in: LogIn) -> None:
    row = buried.bury(buried.render_of(order()))
    staff = log_in(stranger())
    staff.sees_no("Dead jobs", "Kind holds")
    for page in (LIST, page_of(row), KINDS):
        assert staff.go(page) == 403
        staff.sees("You may not see this page.")


# The banner and the kinds


def test_the_banner_leads_to_the_dead_jobs_whoever_may_see_them(
    operator: Staff, log_in: LogIn
) -> None:
    buried.bury(buried.render_of(order()))
    operator.go("/admin/")
    operator.follow("1 dead job waits for somebody.")
    assert operator.path() == LIST
    other = log_in(stranger())
    other.sees("1 dead job waits for somebody.")
    assert other.links("1 dead job waits for somebody.") == 0


def test_a_kind_is_paused_and_let_go(operator: Staff) -> None:
    operator.go(KINDS)
    operator.fill_in_row("email_tickets", "Minutes", "30")
    operator.fill_in_row("email_tickets", "Why", "the provider moves house")
    operator.press("Pause email_tickets")
    operator.sees("Held until", "by operator: the provider moves house")
    operator.go("/admin/")
    operator.sees("email_tickets until", "by operator: the provider moves house")
    operator.go(KINDS)
    operator.press("Resume email_tickets")
    operator.sees("Goes on: email_tickets.")
    operator.sees_no("the provider moves house")
