"""The provider's faults as a plain HTTP client sees them, and what its ledger says then."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_for

from . import http as faults
from .faults import ACCEPT, Fault
from .http import Provider

TIMEOUT = 0.5
"""Seconds after which a client gives up that gets no answer."""
PATIENCE = 30.0
GONE = (http.client.RemoteDisconnected, ConnectionResetError)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """A provider without a plan: it accepts."""
    with Provider(tmp_path / "provider") as running:
        yield running


def named(value: object) -> str | None:
    return value.name if isinstance(value, Fault) else None


def email(to: str = "buyer@example.org", text: str = "Your tickets") -> dict[str, Any]:
    return {
        "from": "tickets@example.org",
        "to": [to],
        "subject": "Tickets",
        "text": text,
        "headers": {"Message-ID": "<one@example.org>"},
    }


class Answer:
    """What the client was told."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.code = response.status
        self.headers = response.headers
        self.body: dict[str, Any] = json.loads(response.read())


def send(
    provider: Provider,
    key: str = "key-1",
    body: dict[str, Any] | None = None,
    *,
    authorization: str = f"Bearer {Provider.api_key}",
    path: str = "/emails",
    timeout: float = PATIENCE,
) -> Answer:
    line = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=timeout)
    given = {"Authorization": authorization, "Idempotency-Key": key}
    headers = {name: value for name, value in given.items() if value}
    with contextlib.closing(line):
        line.request("POST", path, json.dumps(body or email()), headers)
        return Answer(line.getresponse())


def test_an_email_is_accepted_under_its_key_and_its_line_tells_what_it_was(
    provider: Provider,
) -> None:
    answer = send(provider)
    assert answer.code == 200
    (call,) = provider.calls()
    assert (call.key, call.accepted, call.code, call.id) == ("key-1", True, 200, answer.body["id"])
    assert (call.recipients, call.subject) == (("buyer@example.org",), "Tickets")
    assert call.message_id == "<one@example.org>"
    assert abs(call.at - time.time()) < 60


def test_a_known_key_gets_the_first_answer_and_makes_no_second_email(provider: Provider) -> None:
    answers = [send(provider).body for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert provider.accepted() == {"key-1": 1}
    assert [call.accepted for call in provider.calls()] == [True, False, False]


def test_beyond_its_window_a_key_makes_another_email(provider: Provider) -> None:
    first = send(provider).body
    provider.remember_keys_for(0)
    assert send(provider).body != first
    assert provider.accepted() == {"key-1": 2}


def test_without_a_key_every_call_makes_an_email(provider: Provider) -> None:
    assert send(provider, key="").body != send(provider, key="").body
    assert provider.accepted() == {"": 2}


def test_one_key_with_another_body_is_a_conflict(provider: Provider) -> None:
    send(provider)
    answer = send(provider, body=email(text="Other words"))
    assert (answer.code, answer.body["name"]) == (409, "invalid_idempotent_request")
    assert provider.accepted() == {"key-1": 1}


def test_a_key_in_progress_is_a_conflict_until_it_is_accepted(provider: Provider) -> None:
    provider.plan(faults.held(2.0))
    slow: list[Answer] = []
    first = threading.Thread(target=lambda: slow.append(send(provider)))
    first.start()
    time.sleep(0.5)
    answer = send(provider)
    assert (answer.code, answer.body["name"]) == (409, "concurrent_idempotent_requests")
    first.join()
    assert send(provider).body == slow[0].body
    assert provider.accepted() == {"key-1": 1}


REFUSALS = [
    (faults.rate_limited(2), 429, "rate_limit_exceeded"),
    (faults.rate_limited("", "daily_quota_exceeded"), 429, "daily_quota_exceeded"),
    (faults.broken(), 500, "internal_server_error"),
    (faults.broken(503), 503, "internal_server_error"),
    (faults.refused(), 422, "validation_error"),
    (faults.refused(403), 403, "validation_error"),
    (faults.other_body(), 409, "invalid_idempotent_request"),
    (faults.in_progress(), 409, "concurrent_idempotent_requests"),
]


@pytest.mark.parametrize(("fault", "code", "name"), REFUSALS, ids=named)
def test_a_refusal_accepts_nothing_and_the_next_call_is_accepted(
    provider: Provider, fault: Fault, code: int, name: str
) -> None:
    provider.plan(fault)
    answer = send(provider)
    assert (answer.code, answer.body["statusCode"], answer.body["name"]) == (code, code, name)
    assert answer.headers.get("Retry-After", "") == fault.retry_after
    assert provider.accepted() == {}
    assert send(provider).code == 200


NO_ANSWER = [
    (faults.lost_answer(), TimeoutError, 1),
    (faults.slow(2.0), TimeoutError, 1),
    (faults.lost_connection(), GONE, 1),
    (faults.no_answer(), TimeoutError, 0),
    (faults.no_connection(), GONE, 0),
]


@pytest.mark.parametrize(("fault", "error", "accepted"), NO_ANSWER, ids=named)
def test_a_call_without_an_answer_was_accepted_or_not_and_its_repetition_makes_one_email(
    provider: Provider, fault: Fault, error: type[OSError], accepted: int
) -> None:
    provider.plan(fault)
    with pytest.raises(error):
        send(provider, timeout=TIMEOUT)
    assert sum(provider.accepted().values()) == accepted
    assert send(provider).code == 200
    assert provider.accepted() == {"key-1": 1}


def test_an_email_is_accepted_after_its_client_has_given_up(provider: Provider) -> None:
    provider.plan(faults.held(TIMEOUT * 2))
    with pytest.raises(TimeoutError):
        send(provider, timeout=TIMEOUT)
    assert provider.accepted() == {}
    assert wait_for(provider.accepted, "the email") == {"key-1": 1}


def test_a_slow_answer_comes_in_time(provider: Provider) -> None:
    provider.plan(faults.slow(0.2))
    began = time.monotonic()
    assert send(provider).code == 200
    assert time.monotonic() - began >= 0.2


def test_an_error_after_acceptance_is_told_apart_by_the_ledger_alone(provider: Provider) -> None:
    provider.plan(faults.accepted_and_broken())
    assert send(provider).code == 500
    assert provider.accepted() == {"key-1": 1}
    assert send(provider).body == {"id": provider.calls()[0].id}


def test_a_client_that_dies_in_the_middle_of_its_call_has_made_none(provider: Provider) -> None:
    with socket.create_connection(("127.0.0.1", provider.port)) as line:
        line.sendall(b'POST /emails HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{"to":')
    send(provider)
    assert len(provider.calls()) == 1


WRONG_CALLS: list[tuple[dict[str, Any], int, str]] = [
    ({"authorization": ""}, 401, "missing_api_key"),
    ({"authorization": "Bearer other"}, 403, "invalid_api_key"),
    ({"key": "k" * 257}, 400, "invalid_idempotency_key"),
    ({"body": {"to": ["buyer@example.org"]}}, 422, "missing_required_field"),
    ({"path": "/email"}, 404, "not_found"),
]


@pytest.mark.parametrize(("wrong", "code", "name"), WRONG_CALLS, ids=named)
def test_a_wrong_call_is_refused_whatever_the_plan(
    provider: Provider, wrong: dict[str, Any], code: int, name: str
) -> None:
    answer = send(provider, **wrong)
    assert (answer.code, answer.body["name"]) == (code, name)
    assert provider.accepted() == {}


def test_faults_follow_the_plan_then_its_weights_and_a_recipient_has_its_own(
    provider: Provider,
) -> None:
    often = [(1.0, faults.broken()), (1.0, ACCEPT)]
    refused = {"nobody@example.org": faults.refused(403)}
    provider.plan(faults.rate_limited(), then=often, recipients=refused, seed=7)
    codes = [send(provider, key=f"key-{number}").code for number in range(21)]
    assert codes[0] == 429
    assert set(codes[1:]) == {200, 500}
    assert send(provider, body=email("nobody@example.org")).code == 403
    provider.plan(faults.rate_limited(), then=often, seed=7)
    again = [send(provider, key=f"more-{number}").code for number in range(21)]
    assert again == codes


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_call_that_is_never_answered_ends_with_the_server(provider: Provider, end: str) -> None:
    provider.plan(faults.no_answer())
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            send(provider)
        except OSError as error:
            ended.append(error)

    client = threading.Thread(target=wait)
    client.start()
    wait_for(provider.calls, "the call")
    getattr(provider, end)()
    client.join(10)
    assert isinstance(ended[0], GONE)


def test_what_was_accepted_before_a_kill_is_known_after_the_next_start(provider: Provider) -> None:
    provider.plan(faults.slow(60), faults.rate_limited())
    client = threading.Thread(target=_lost, args=(provider,))
    client.start()
    wait_for(provider.calls, "the line in the ledger")
    provider.kill()
    client.join(10)
    assert provider.accepted() == {"key-1": 1}
    provider.start()
    assert send(provider).code == 429, "the plan goes on where it was"
    assert send(provider).body == {"id": provider.calls()[0].id}
    assert provider.accepted() == {"key-1": 1}


def _lost(provider: Provider) -> None:
    with contextlib.suppress(*GONE):
        send(provider)


def test_calls_at_the_same_time_make_one_email_for_each_key(provider: Provider) -> None:
    provider.plan(then=[(1.0, ACCEPT), (1.0, faults.lost_connection()), (1.0, faults.broken())])

    def insist(number: int) -> None:
        while True:
            with contextlib.suppress(*GONE):
                if send(provider, key=f"key-{number % 10}").code == 200:
                    return

    clients = [threading.Thread(target=insist, args=(number,)) for number in range(40)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert provider.accepted() == {f"key-{number}": 1 for number in range(10)}
