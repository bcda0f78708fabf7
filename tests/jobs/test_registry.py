"""Kinds: a wrong declaration stops the start, not the sale."""

from dataclasses import dataclass
from typing import Any

import pytest

from jobs.job import Job
from jobs.policy import Policy
from jobs.registry import all_kinds, handler
from tests.conftest import Register


@dataclass(frozen=True)
class Args:
    number: int


@dataclass
class Thawed:
    number: int


def test_the_shop_has_its_kinds() -> None:
    kinds = [kind.name for kind in all_kinds()]
    assert [name for name in kinds if not name.startswith("drill_")] == [
        "announce_event",
        "announce_order",
        "begin_reminders",
        "check_stock",
        "delete_sessions",
        "delete_stray_files",
        "email_changed_tickets",
        "email_links",
        "email_refund",
        "email_staff",
        "email_tickets",
        "pay_refund",
        "purge",
        "purge_shelf",
        "refund_order",
        "remind_event",
        "remind_order",
        "render_tickets",
        "rerender_tickets",
        "resend_tickets",
        "summarise_sales",
    ]


def test_a_kind_has_one_handler(kind: Register) -> None:
    @kind("once")
    def first(job: Job[Args]) -> None: ...

    with pytest.raises(ValueError, match="has a handler already"):

        @handler("once")
        def second(job: Job[Args]) -> None: ...


def test_arguments_that_can_change_are_refused() -> None:
    with pytest.raises(TypeError, match="not frozen"):

        @handler("thawed")
        def thawed(job: Job[Thawed]) -> None: ...


def test_a_handler_that_does_not_say_its_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"annotated Job\[Args\]"):

        @handler("silent")
        def silent(job) -> None: ...  # type: ignore[no-untyped-def] # noqa: ANN001


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"base": -1}, {"timeout": 0}])
def test_a_policy_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a policy needs"):
        Policy(**wrong)
