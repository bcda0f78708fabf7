"""Lines of log: one line each, with their ids, for machines and for people, and without secrets."""

import ast
import json
import logging
import math
import re
import sys
import time
from typing import Any

import pytest
from django.test import RequestFactory

from jobs.correlation import CorrelationFilter, correlated
from stagedoor.logs import JsonFormatter, ReadableFormatter, without_secrets
from stagedoor.settings import base, development
from tests.processes import ROOT

SECRET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("stagedoor.test").makeRecord(
        "stagedoor.test", logging.INFO, "file.py", 1, message, args, None, extra=extra
    )
    assert CorrelationFilter().filter(made)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_json_carries_time_level_logger_ids_and_extras() -> None:
    with correlated("req-1234", "trace-1"):
        made = record("%s placed", "order", action="request", status=303, seconds=0.01)
    found = as_json(made)
    assert found.pop("time")
    assert found == {
        "level": "INFO",
        "logger": "stagedoor.test",
        "message": "order placed",
        "request_id": "req-1234",
        "trace": "trace-1",
        "action": "request",
        "status": 303,
        "seconds": 0.01,
    }


def test_people_read_the_message_and_what_belongs_to_it() -> None:
    with correlated("req-1234", "trace-1"):
        line = ReadableFormatter().format(record("order placed", action="request", status=303))
    assert (
        "INFO    order placed  action=request  status=303  request=req-1234 trace=trace-1" in line
    )


def test_outside_of_a_request_the_ids_are_empty() -> None:
    assert as_json(record("started"))["request_id"] == ""
    assert "request=" not in ReadableFormatter().format(record("started"))


@pytest.mark.parametrize("formatter", [JsonFormatter(), ReadableFormatter()])
def test_no_formatter_writes_the_secret_of_a_link(formatter: logging.Formatter) -> None:
    line = formatter.format(
        record("Service Unavailable: %s", f"/o/{SECRET}/", path=f"/o/{SECRET}/")
    )
    assert SECRET not in line
    assert "/o/…/" in line


def failed(words: str) -> logging.LogRecord:
    made = record("failed")
    try:
        raise ValueError(words)
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


def test_a_traceback_is_written_without_the_secret() -> None:
    line = ReadableFormatter(words=True).format(failed(f"https://shop.example/o/{SECRET}/?x=1"))
    assert "ValueError: https" in line
    assert SECRET not in line


@pytest.mark.parametrize("formatter", [JsonFormatter(), ReadableFormatter()])
def test_an_error_is_told_by_class_and_place_without_its_words(
    formatter: logging.Formatter,
) -> None:
    line = formatter.format(failed("no seat for Zoë Quxly"))
    assert "ValueError" in line
    assert "in failed" in line, "where it was raised"
    assert "Quxly" not in line


def test_only_who_develops_reads_the_words_of_errors() -> None:
    assert development.LOGGING["formatters"]["readable"]["words"]
    assert not base.logging_config("readable")["formatters"]["readable"]["words"]


def test_the_time_is_utc_whatever_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    made = record("started")
    made.created = 1_796_026_601.049
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = as_json(made)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found["time"] == "2026-11-30T08:16:41.049Z"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"/o/{SECRET}/", "/o/…/"),
        (f"GET /o/{SECRET} 302", "GET /o/… 302"),
        ("/o/short/ /o/two/", "/o/…/ /o/…/"),
        ("/orders/ABCDEFGH/", "/orders/ABCDEFGH/"),
        ("/events/o/", "/events/o/"),
        ("refused <zoe.o'hara+x@mail.example.org>: 550", "refused <…@…>: 550"),
        ("Key (email)=(zoe@example.org) already exists", "Key (email)=(…@…) already exists"),
        ("GET /send?to=zoe%40example.org", "GET /send?to=…@…"),
        ('refused <"zoe quxly"@example.org>', "refused <…@…>"),
        ('{"to": ["zoë@bücher.example"]}', '{"to": ["…@…"]}'),
        ("postgres://shop:word@db.example:5432/shop", "postgres://shop:…@…:5432/shop"),
        ("held by ann@desk: @ 5 %", "held by ann@desk: @ 5 %"),
        ("", ""),
    ],
)
def test_only_secret_links_and_addresses_are_masked(text: str, masked: str) -> None:
    assert without_secrets(text) == masked


def test_a_long_line_is_masked_in_no_time() -> None:
    began = time.process_time()
    assert without_secrets("x" * 200_000 + " @").endswith("x @")
    assert time.process_time() - began < 5


@pytest.mark.parametrize("before", ["\n", "\t", "\x01", "\\", '"', "\\u0041"])
def test_a_mask_cuts_no_escape_of_json(before: str) -> None:
    found = as_json(record(f"{before}zoe@example.org{before}"))
    assert "…@…" in found["message"]
    assert "zoe" not in found["message"]


def test_what_is_no_number_is_written_as_text() -> None:
    found = as_json(record("odd", seconds=math.nan, least=-math.inf, done=True, left=None))
    assert [found[name] for name in ("seconds", "least", "done", "left")] == [
        "nan", "-inf", True, None,
    ]  # fmt: skip


def test_what_is_no_text_is_masked_too() -> None:
    found = as_json(record("Service Unavailable", request=RequestFactory().get(f"/o/{SECRET}/")))
    assert found["request"] == "<WSGIRequest: GET '/o/…/'>"


def test_no_call_of_a_logger_tells_the_words_of_an_error() -> None:
    """`outage.told()` knows which may be told."""
    calls = [
        (path.name, node.lineno, ast.unparse(node))
        for folder in ("jobs", "orders", "tickets", "stagedoor")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger.")
    ]
    assert len(calls) > 40
    assert not [call for call in calls if re.search(r"error_line|str\(error|traceback", call[2])]


def test_any_script_is_written_as_it_is() -> None:
    assert "Ночь 🌒" in JsonFormatter().format(record("Ночь 🌒"))
