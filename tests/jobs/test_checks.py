"""Settings that would lose, double or block a job are named before anything starts."""

from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from jobs.checks import check_settings
from tests.processes import Product


def found(settings: Any, **changes: float) -> dict[str | None, str]:
    """Ids and texts of what the checks say of these settings."""
    settings.JOBS = {**settings.JOBS, **changes}
    return {problem.id: f"{problem.msg} {problem.hint}" for problem in check_settings(None)}


def test_the_shipped_settings_are_in_order(settings: Any) -> None:
    assert found(settings) == {}


@pytest.mark.parametrize(
    ("changes", "number", "words"),
    [
        ({"BLOCK": 0.0}, "jobs.E001", "JOBS_BLOCK is 0, not positive"),
        ({"LEASE": -1.0, "LEASE_RENEWAL": -2.0}, "jobs.E001", "JOBS_LEASE"),
        ({"LEASE": 30.0}, "jobs.E002", "a job in work is taken over"),
        ({"NAME_WAIT": 5.0}, "jobs.E003", "could not start again at once"),
        ({"BACKOFF_MAX": 0.01}, "jobs.E004", "JOBS_BACKOFF_MAX is below JOBS_BACKOFF_MIN"),
        ({"MAXLEN": 0}, "jobs.E005", "JOBS_MAXLEN is 0"),
    ],
)
def test_a_bad_setting_is_named_with_what_it_does_and_how_to_mend_it(
    changes: dict[str, float], number: str, words: str, settings: Any
) -> None:
    problems = found(settings, **changes)
    assert words in problems[number]
    assert "Set it to" in problems[number]


def test_the_grace_must_end_before_the_service_manager_kills(settings: Any) -> None:
    settings.STOP_TIMEOUT = 30.0
    assert "STOP_TIMEOUT=30 s" in found(settings, GRACE=26.0)["jobs.E006"]
    assert found(settings, GRACE=25.0) == {}


def test_manage_py_check_runs_them(settings: Any) -> None:
    call_command("check")
    settings.JOBS = {**settings.JOBS, "LEASE": 1.0}
    with pytest.raises(SystemCheckError, match=r"jobs\.E002"):
        call_command("check")


def test_a_worker_of_bad_settings_ends_with_code_2(product: Product) -> None:
    worker = product.plain_worker("one", JOBS_LEASE="1", JOBS_LEASE_RENEWAL="0.5")
    assert worker.ended() == 2
    assert worker.said("JOBS_LEASE_RENEWAL is 0.5 s for a lease of 1 s")
    assert "Traceback" not in worker.log()
