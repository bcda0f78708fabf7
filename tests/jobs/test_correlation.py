"""Request ids and traces: kept where well formed, made where not, on every line of log."""

import logging
import re

import pytest

from jobs.correlation import (
    CorrelationFilter,
    accept_request_id,
    accept_trace,
    correlated,
    request_id,
    trace,
)


@pytest.mark.parametrize("offered", ["7f3a9c2e", "a" * 64, "b3c1-9.x_y"])
def test_a_well_formed_request_id_is_kept(offered: str) -> None:
    assert accept_request_id(offered) == offered


@pytest.mark.parametrize(
    "offered", ["", "short", "a" * 65, "has space", "new\nline-1234", "é" * 10]
)
def test_any_other_request_id_is_made_anew(offered: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", accept_request_id(offered))


def test_a_traceparent_is_kept_as_trace_and_parent_span() -> None:
    header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert accept_trace(header) == "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header",
    [
        "", "junk", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-00f067aa0ba902b7-01",
    ],
)  # fmt: skip
def test_any_other_traceparent_is_made_anew(header: str) -> None:
    made = accept_trace(header)
    assert re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]{16}", made)
    assert made not in header


def test_the_ids_are_those_of_the_innermost_context_and_on_every_record() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "text", (), None)
    with correlated("outer-id", "t1"):
        with correlated("inner-id", "t2"):
            assert (request_id(), trace()) == ("inner-id", "t2")
        assert request_id() == "outer-id"
        CorrelationFilter().filter(record)
    assert request_id() == ""
    assert (record.request_id, record.trace) == ("outer-id", "t1")  # type: ignore[attr-defined]
