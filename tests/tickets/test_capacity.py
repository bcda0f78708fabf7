"""`manage.py capacity`: the answer of the book's night, what is measured, what past nights say."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from jobs.models import ProcessedJob
from jobs.night import Point
from jobs.testing import drain
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tests.processes import Product
from tickets import capacity_screen, yardstick
from tickets.capacity_plan import Outcome

pytestmark = pytest.mark.django_db(transaction=True)
BOOK = ("--orders", "3000", "--minutes", "10", "--render-seconds", "4", "--threads", "8")
CORES = ("--cores", "64")
FAST_EMAIL = ("--email-seconds", "0.02")


def screen(*words: str) -> str:
    printed = io.StringIO()
    call_command("capacity", *words, stdout=printed)
    return printed.getvalue()


def found(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(screen(*words, "--json"))
    return answer


def test_the_second_night_needs_three_workers() -> None:
    answer = found(*BOOK, *FAST_EMAIL)
    assert answer["orders_per_second"] == 5
    assert answer["jobs_per_second"] == 10
    assert answer["workers_exact"] == pytest.approx(2.5, abs=0.02)
    assert answer["workers"] == 3
    assert "workers needed   3   (2.51 of 8 slots each keep pace)" in screen(*BOOK, *FAST_EMAIL)


def test_a_provider_that_answers_slowly_needs_workers_for_its_share_of_the_slots() -> None:
    slow = ("--orders", "3000", "--minutes", "10", "--render-seconds", "0.05", *CORES)
    answer = found(*slow, "--email-seconds", "2")
    # 5 a second for 2 s are 10 at once, 3 in each worker.
    assert (answer["workers"], answer["workers_for"]) == (4, "mail")
    by_workers = {one["workers"]: one for one in answer["outcomes"]}
    assert by_workers[3]["alerts"].keys() == {"warning"}
    assert by_workers[4]["alerts"] == {}
    text = screen(*slow, "--email-seconds", "2")
    assert "(3.33 of 8 slots each keep pace: 3 of them may wait for mail at once)" in text
    assert "at once" not in screen(*BOOK, *FAST_EMAIL).partition("\n\n")[0]


def test_it_shows_the_night_with_fewer_as_many_and_more() -> None:
    answer = found(*BOOK, *FAST_EMAIL, *CORES, "--workers", "1")
    by_workers = {one["workers"]: one for one in answer["outcomes"]}
    assert list(by_workers) == [1, 2, 3, 4]
    assert by_workers[1]["oldest"] == pytest.approx(600 * (1 - 2 / 5) * 2.5, rel=0.05)
    assert by_workers[1]["all_done"] > by_workers[2]["all_done"] > 660
    assert by_workers[1]["alerts"] == pytest.approx({"warning": 97, "page": 397}, rel=0.02)
    assert by_workers[3]["alerts"] == {}
    assert by_workers[3]["oldest"] < 10
    assert by_workers[3]["all_done"] < 610
    text = screen(*BOOK, *FAST_EMAIL, *CORES, "--workers", "1")
    assert "1 worker, 64 cores" in text
    assert "page at 6 min" in text


@pytest.mark.parametrize(("left", "shown"), [(3, "?"), (0, "-")])
def test_a_night_that_outlasts_the_look_ahead_is_not_told_to_be_over(left: int, shown: str) -> None:
    night = Outcome(workers=1, cores=1, points=[Point(60, 60, 5), Point(120, 90, left)])
    assert capacity_screen._state(night, 1) == "1 min 0 s, 5"
    assert capacity_screen._state(night, 3) == shown


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0123, "0.0123 s"), (999, "999 s"), (3600, "3600 s")]
)
def test_seconds_are_told_without_an_exponent(seconds: float, told: str) -> None:
    assert capacity_screen._seconds(seconds) == told


def test_it_says_where_cores_and_not_slots_are_the_limit() -> None:
    few = found(*BOOK, *FAST_EMAIL, "--cores", "2")
    assert (few["cores"], few["cores_there"], few["cores_are_the_limit"]) == (20, 2, True)
    assert "CORES ARE THE LIMIT: 2 do 10% of it" in screen(*BOOK, *FAST_EMAIL, "--cores", "2")
    assert {(one["workers"], one["cores"]) for one in few["outcomes"]} >= {(3, 2), (4, 2), (3, 20)}
    assert "CORES ARE THE LIMIT" not in screen(*BOOK, *FAST_EMAIL, *CORES)


def test_relays_that_will_hold_and_a_stream_that_is_cut_are_foreseen() -> None:
    text = screen(
        "--orders", "200000", "--minutes", "60", "--render-seconds", "4", *FAST_EMAIL, *CORES
    )
    assert "400000 entries, 100000 are kept: 15.0 MB of Redis" in text
    assert "relays hold at 80000: THEY WILL HOLD" in text
    assert "THEY WILL HOLD" not in screen(*BOOK, *FAST_EMAIL, *CORES)


def test_a_render_and_an_email_are_measured_and_nothing_is_sent(mailbox: MailFolder) -> None:
    answer = found("--orders", "3000", "--minutes", "10")
    render, email = answer["chain"]
    assert (render["kind"], email["kind"]) == ("render_tickets", "email_tickets")
    assert 0.001 < render["cost"]["core"] < 10
    assert render["cost"]["core"] == render["cost"]["slot"]
    assert 0 < email["cost"]["slot"] < 1
    assert answer["known_from"]["render_tickets"] == "measured here"
    assert not mailbox.messages()
    assert not mailbox.calls()


def test_more_tickets_make_a_dearer_render() -> None:
    assert yardstick.measured_render(16).core > yardstick.measured_render(1).core


@pytest.fixture
def night(mailbox: MailFolder) -> list[ProcessedJob]:
    """The processed rows of four orders, made two days ago at 23:30 UTC."""
    kind = new_type()
    for _ in range(4):
        buy(kind)
    drain()
    late = (timezone.now() - timedelta(days=2)).replace(hour=23, minute=30)
    ProcessedJob.objects.update(processed_at=late)
    return list(ProcessedJob.objects.order_by("outbox_id"))


def again(job: ProcessedJob, **changes: Any) -> None:
    """One more processed row, like `job` but for this."""
    newest = ProcessedJob.objects.latest("outbox_id")
    values = {field.attname: getattr(job, field.attname) for field in job._meta.concrete_fields}
    ProcessedJob.objects.create(**{**values, "outbox_id": newest.outbox_id + 1, **changes})


def test_past_nights_are_told_and_what_they_say_of_emails_is_used(
    night: list[ProcessedJob],
) -> None:
    ProcessedJob.objects.filter(kind="email_tickets").update(duration_ms=3000)
    answer = found(*BOOK)
    [past] = answer["nights"]
    numbers = {one["kind"]: one["number"] for one in past["kinds"]}
    assert numbers == {"render_tickets": 4, "email_tickets": 4}
    assert 1 <= past["busiest"] <= 4
    assert answer["chain"][1]["cost"]["slot"] == 3
    assert answer["known_from"]["email_tickets"] == "the newest night"
    assert f"{past['date']}  4       " in screen(*BOOK)
    assert found(*BOOK, "--days", "1")["nights"] == []


def test_what_orders_also_made_in_past_nights_is_counted_in(night: list[ProcessedJob]) -> None:
    again(night[-1], kind="resend_tickets", duration_ms=8000)
    again(night[-1], kind="announce_order", duration_ms=8000)
    chain = {step["kind"]: step for step in found(*BOOK)["chain"]}
    assert chain.keys() == {"render_tickets", "email_tickets", "resend_tickets"}
    assert chain["resend_tickets"]["number"] == pytest.approx(0.25)
    assert chain["resend_tickets"]["cost"]["slot"] == pytest.approx(8)


def test_a_night_is_not_cut_by_midnight(night: list[ProcessedJob]) -> None:
    again(night[0], processed_at=night[0].processed_at + timedelta(hours=1))
    again(night[0], processed_at=night[0].processed_at + timedelta(hours=13))
    newer, older = found(*BOOK)["nights"]
    assert [len(newer["kinds"]), older["date"]] == [1, str(night[0].processed_at.date())]
    assert {one["number"] for one in older["kinds"]} == {5, 4}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--minutes", "10"), "--orders"),
        (("--orders", "0", "--minutes", "10"), "takes a whole number from 1 to 1000000, not '0'"),
        (("--orders", "9", "--minutes", "ten"), "takes a whole number from 1 to 1440, not 'ten'"),
        ((*BOOK, "--email-seconds", "-1"), "takes seconds above 0, 3600 at most, not '-1'"),
        ((*BOOK, "--email-seconds", "nan"), "takes seconds above 0, 3600 at most, not 'nan'"),
    ],
)
def test_a_bad_option_is_named(words: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("capacity", *words)
    assert complaint in str(refused.value)


def test_a_bad_option_and_a_database_that_is_away_end_it_with_2(product: Product) -> None:
    bad = product.command("capacity", "--orders", "many", "--minutes", "10")
    away = product.command(
        "capacity", *BOOK, DATABASE_URL="postgres://nobody:secret@127.0.0.1:1/none"
    )
    assert (bad.ended(), away.ended()) == (2, 2)
    assert bad.said("takes a whole number from 1 to 1000000, not 'many'")
    assert away.said("PostgreSQL does not answer")
    assert not away.said("Traceback")
