"""`manage.py jobs policies`, `pause` and `resume`: what a policy means; a kind held by a person."""

import getpass
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis as redis_client
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import holds
from jobs.job import Job
from jobs.models import KindHold, OutboxRow, ProcessedJob
from jobs.outbox import enqueue
from jobs.policy import Policy
from jobs.policy_table import length, span_of
from jobs.registry import all_kinds
from jobs.status import clock
from tests.conftest import Register
from tests.drill.handlers import TABLE, DrillArgs
from tests.processes import Process, Product, wait_for

from .looks import AWAY, put, run

pytestmark = pytest.mark.django_db(transaction=True)


# Policies


def nothing(job: Job[DrillArgs]) -> None: ...


def paragraph(name: str) -> list[str]:
    """What people read of a kind, without its name."""
    code, text, complaint = run("policies")
    assert (code, complaint) == (0, "")
    [found] = [part for part in text.split("\n\n") if part.startswith(f"{name}\n")]
    return found.splitlines()[1:]


def test_a_policy_is_printed_as_people_read_it(kind: Register) -> None:
    kind("read", policy=Policy(attempts=7, final=(ValueError, TimeoutError)))(nothing)
    assert paragraph("read") == [
        "  runs          7 in all",
        "  tried again   after 0–10 s, 0–20 s, 0–40 s, 0–80 s, 0–2 min 40 s, 0–5 min 20 s",
        "  until dead    0–10 min 30 s of delays, 20 h 10 min 30 s with waits",
        "  timeout       60 s; a run that takes twice as long ends its worker",
        "  waits         uncounted, until 20 h after it was due: TryLater",
        "  dead at once  GiveUp, ValueError, TimeoutError",
        "  held          after 10 failures in a row, for 30 s, doubled each time up to 10 min",
    ]


def test_a_policy_that_is_another_in_every_way_is_printed_as_well(
    kind: Register, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "HOLD_MIN": 5.0, "HOLD_MAX": 5.0}
    steady = Policy(
        attempts=6, base=20, cap=40, jitter=0.5, timeout=0.5, deadline=0, retry_after=lambda _: 1,
        hold_after=3,
    )  # fmt: skip
    kind("steady", policy=steady)(nothing)
    kind("once", policy=Policy(attempts=1, hold_after=0))(nothing)
    assert paragraph("steady") == [
        "  runs          6 in all",
        "  tried again   after 10–20 s, 20–40 s (4 times)",
        "  until dead    90 s–3 min of delays, 3 min with waits",
        "  timeout       0.5 s; a run that takes twice as long ends its worker",
        "  waits         uncounted, until 0 s after it was due: TryLater, errors that name a time",
        "  dead at once  GiveUp",
        "  held          after 3 failures in a row, for 5 s each time",
    ]
    once = paragraph("once")
    assert once[:3] == [
        "  runs          1 in all",
        "  tried again   never",
        "  until dead    0 s of delays, 20 h with waits",
    ]
    assert once[-1] == "  held          never by the breaker"


def test_the_policy_of_every_kind_is_there_for_scripts_too() -> None:
    found = {one["kind"]: one for one in json.loads(run("policies", "--json")[1])}
    assert list(found) == [one.name for one in all_kinds()]
    policy = next(one.policy for one in all_kinds() if one.name == "render_tickets")
    said = found["render_tickets"]
    assert [tuple(delay) for delay in said["delays"]] == list(policy.delays())
    assert len(said["delays"]) == said["attempts"] - 1
    assert (said["horizon"], said["timeout"]) == (policy.horizon(), policy.timeout)
    assert (said["hold_after"], said["hold_min"], said["hold_max"]) == (0, 30, 600)


def test_policies_need_no_server(tmp_path: Path) -> None:
    command = ("manage.py", "jobs", "policies")
    away = {**AWAY, "REDIS_URL": "redis://127.0.0.1:1/0"}
    with Process(tmp_path, "policies", *command, **away) as process:
        assert process.ended() == 0
        assert "render_tickets\n  runs " in process.log()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.5, "0.5 s"), (90, "90 s"), (120, "2 min"), (160, "2 min 40 s"),
        (600, "10 min"), (3600, "1 h"), (72_000, "20 h"), (86_400, "24 h"),
        (180_061, "2 days 2 h 1 min 1 s"),
    ],
)  # fmt: skip
def test_a_length_is_written_for_people(seconds: float, text: str) -> None:
    assert length(seconds) == text


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (0, 10, "0–10 s"), (5, 10, "5–10 s"), (10, 10, "10 s"), (0, 0, "0 s"),
        (80, 160, "80 s–2 min 40 s"), (160, 220, "2 min 40 s–3 min 40 s"), (0, 160, "0–2 min 40 s"),
    ],
)  # fmt: skip
def test_a_range_is_written_for_people(least: float, most: float, text: str) -> None:
    assert span_of((least, most)) == text


# Pause and resume


def pause(*more: str, kind: str = "drill_row") -> tuple[int, str, str]:
    return run("pause", kind, "--for", "10m", "--reason", "provider moves", *more)


def hold() -> KindHold:
    [found] = KindHold.objects.all()
    return found


def seconds_left() -> float:
    return float((hold().until - hold().since).total_seconds())


def test_a_person_holds_a_kind_and_is_told_what_happens_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    code, text, complaint = pause()
    assert (code, complaint) == (0, "")
    assert text == (
        f"drill_row is held until {clock(hold().until)}; its jobs wait in the outbox, what "
        "runs ends as it would; `jobs resume drill_row` lets them go\n"
    )
    assert (hold().kind, hold().reason) == ("drill_row", "provider moves")
    assert hold().by == f"ann@{socket.gethostname()}"
    assert seconds_left() == 600


def test_a_person_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert pause()[0] == 0
    assert hold().by == f"uid {os.getuid()}@{socket.gethostname()}"


def test_nobody_passes_for_the_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", KindHold.BREAKER)
    pause()
    assert [one.probing for one in holds.in_force()] == [False]
    assert hold().by != KindHold.BREAKER


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("30s", 30), ("10m", 600), ("2h", 7_200), ("1d", 86_400), ("7d", 604_800), ("168h", 604_800)],
)
def test_times_are_taken_in_seconds_minutes_hours_and_days(time: str, seconds: int) -> None:
    assert run("pause", "drill_row", "--for", time, "--reason", "why")[0] == 0
    assert seconds_left() == seconds


@pytest.mark.parametrize(
    "time", ["10", "10x", "0s", "8d", "169h", "1h30m", "1.5h", "", "10 m", "٣m", "9" * 40 + "s"]
)
def test_any_other_time_is_refused(time: str) -> None:
    with pytest.raises(CommandError, match="takes a time like 30s, 10m, 2h or 1d, 7d at most"):
        call_command("jobs", "pause", "drill_row", "--for", time, "--reason", "why")
    assert not KindHold.objects.exists()


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "\x1b[31m", "\udcff", "x" * 201])
def test_a_reason_that_cannot_be_shown_is_refused(reason: str) -> None:
    with pytest.raises(CommandError, match="takes 1 to 200 printable characters"):
        call_command("jobs", "pause", "drill_row", "--for", "1m", "--reason", reason)
    assert not KindHold.objects.exists()


@pytest.mark.parametrize("given", [["--for", "1m"], ["--reason", "why"]])
def test_a_pause_needs_a_time_and_a_reason(given: list[str]) -> None:
    with pytest.raises(CommandError, match="required"):
        call_command("jobs", "pause", "drill_row", *given)


def test_a_bad_option_is_exit_code_2(tmp_path: Path) -> None:
    command = ("manage.py", "jobs", "pause", "drill_row", "--for", "9d", "--reason", "why")
    with Process(tmp_path, "pause", *command) as process:
        assert process.ended() == 2
        assert "7d at most, not '9d'" in process.log()


def test_an_unknown_kind_is_told_which_there_are() -> None:
    for code, text, complaint in (pause(kind="drill_rwo"), run("resume", "drill_rwo")):
        assert (code, text) == (2, "")
        assert complaint.startswith("no kind 'drill_rwo'; there are: ")
        assert " drill_row, " in complaint
    assert not KindHold.objects.exists()


def test_a_second_pause_takes_the_place_of_the_first() -> None:
    pause()
    first = hold()
    code, text, _ = run("pause", "drill_row", "--for", "2h", "--reason", "it takes longer")
    assert code == 0
    assert text.startswith("before: held drill_row until ")
    assert ": provider moves\ndrill_row is held until " in text
    assert (hold().pk, hold().reason, seconds_left()) == (first.pk, "it takes longer", 7_200)


def test_a_pause_takes_the_place_of_the_breakers_hold() -> None:
    holds.trip("drill_row", "ValueError: down")
    KindHold.objects.update(until=Now())
    text = pause()[1]
    line = "before: held drill_row by the breaker, tries one job at a time: ValueError: down\n"
    assert text.startswith(line)
    assert [one.probing for one in holds.in_force()] == [False]
    assert not holds.release("drill_row")


def test_a_kind_is_let_go_and_the_second_time_there_is_nothing_to_do() -> None:
    pause()
    code, text, _ = run("resume", "drill_row")
    assert code == 0
    assert text.startswith("before: held drill_row until ")
    assert text.endswith("\ndrill_row is not held any more: relays publish its jobs from now on\n")
    assert not KindHold.objects.exists()
    assert run("resume", "drill_row") == (
        0, "drill_row is not held: there is nothing to let go\n", "",
    )  # fmt: skip


def test_the_breakers_hold_is_let_go_too_and_that_of_another_kind_is_not() -> None:
    holds.trip("drill_row", "ValueError: down")
    holds.trip("drill_slow", "ValueError: down")
    assert run("resume", "drill_row")[0] == 0
    assert hold().kind == "drill_slow"


def test_a_held_kind_that_a_deploy_took_away_can_be_let_go() -> None:
    holds.trip("gone_since", "ValueError: down")
    assert run("resume", "gone_since")[0] == 0
    assert not KindHold.objects.exists()
    assert run("resume", "gone_since")[0] == 2


PAUSE = ("pause", "drill_row", "--for", "10m", "--reason", "why")


@pytest.mark.parametrize("words", [PAUSE, ("resume", "drill_row")])
def test_a_database_that_does_not_answer_is_one_line(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    with Process(tmp_path, words[0], "manage.py", "jobs", *words, **AWAY) as process:
        assert process.ended() == 1
        [line] = process.log().splitlines()
    assert line.startswith("could not ")
    assert "OperationalError: connection failed" in line
    assert line.endswith("; `jobs status` tells what is held")
    assert "secret" not in line


@pytest.mark.parametrize("words", [PAUSE, ("resume", "drill_row")])
def test_a_hold_that_somebody_has_locked_is_one_line_and_stays(words: tuple[str, ...]) -> None:
    holds.pause("drill_row", 60, "first", "ann@desk")
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT FROM jobs_kind_hold FOR UPDATE")
        code, text, complaint = run(*words)
    assert (code, text) == (1, "")
    assert len(complaint.splitlines()) == 1
    assert "lock timeout" in complaint
    assert hold().reason == "first"


@pytest.fixture
def _effects() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(TABLE)
        yield
        cursor.execute("DROP TABLE drill_effect")


@pytest.mark.usefixtures("_effects")
def test_jobs_of_a_paused_kind_wait_while_others_run_until_it_is_resumed(
    product: Product, redis: redis_client.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRILL_GATE", str(tmp_path / "gate"))
    assert product.command("jobs", *PAUSE).ended() == 0
    product.relay()
    product.plain_worker("worker-1")
    paused, others = put(20), put(20, "drill_slow")
    wait_for(lambda: ProcessedJob.objects.count() == len(others), "the other kind")
    assert OutboxRow.objects.filter(pk__in=paused, relayed_at=None, attempts=0).count() == 20
    [row] = json.loads(run("status", "--json")[1])["books"]["kinds"]
    assert (row["kind"], row["held"], row["due"]) == ("drill_row", 20, 0)
    assert product.command("jobs", "resume", "drill_row").ended() == 0
    wait_for(lambda: ProcessedJob.objects.count() == 40, "all jobs")


@pytest.mark.usefixtures("_effects")
def test_a_job_that_runs_when_its_kind_is_paused_ends_as_it_would(
    product: Product, redis: redis_client.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("DRILL_GATE", str(gate))
    product.relay()
    product.plain_worker("worker-1")
    with transaction.atomic():
        running = enqueue("drill_row", number=1, ms=600_000)
    wait_for(Path(f"{gate}-begun").exists, "a job at the gate")
    pause()
    [waiting] = put()
    gate.touch()
    wait_for(lambda: ProcessedJob.objects.filter(pk=running).exists(), "the one that ran")
    assert KindHold.objects.exists()
    assert OutboxRow.objects.filter(pk=waiting, dead_at=None).exists()
