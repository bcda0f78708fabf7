"""What each provider is told: the key in its own form or not at all, a Message-ID, one try."""

import hashlib
import json
import uuid
from importlib import import_module
from typing import Any

import environ
import pytest
from anymail.exceptions import (
    AnymailAPIError,
    AnymailError,
    AnymailRecipientsRefused,
    AnymailUnsupportedFeature,
)
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import mailers
from django.test import override_settings
from requests import Response

from jobs.policy import GiveUp, TryLater
from stagedoor.settings import mail as settings_of
from tickets import http_errors
from tickets.mail import _Message
from tickets.mail_errors import MailRefused

KEY = "tickets/ABCD2345/1/0123456789abcdef"
SECRETS = {"resend": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "mailgun": "signing-key"}
LOGIN = "hooks:a-long-enough-password"
ENVIRONMENT = {
    "MAIL_API_KEY": "key", "MAIL_SENDER_DOMAIN": "shop.example", "MAIL_REGION": "eu-west-1",
    "EMAIL_URL": "smtp+tls://user:pw@mail.example:587",
}  # fmt: skip


def env(monkeypatch: pytest.MonkeyPatch, **changes: str) -> environ.Env:
    """An environment with all that any provider needs."""
    for name in ("MAIL_KEY_WINDOW", "MAIL_TIMEOUT", "MAIL_API_URL", "MAIL_STREAM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**ENVIRONMENT, **changes}.items():
        monkeypatch.setenv(name, value)
    return environ.Env()


def required(name: str, what: str) -> str:
    value = str(environ.Env().str(name, default=""))
    if not value:
        raise ImproperlyConfigured(f"{name} is not set: {what}")
    return value


@pytest.fixture(params=sorted(settings_of.PROVIDERS))
def mailer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each provider's mailer, as production would make it."""
    made = settings_of.mail_of(request.param, env(monkeypatch), required)
    with override_settings(MAILERS=made.mailers):
        yield mailers.default


def message() -> Any:
    made = _Message(
        "Tickets for Zoë", "Your tickets", to=["buyer@example.org"],
        headers={
            "Date": "Mon, 30 Nov 2026 02:00:00 +0000", "Message-ID": "<one@shop.example>",
            "Idempotency-Key": KEY, "Auto-Submitted": "auto-generated",
        },
    )  # fmt: skip
    made.attach_alternative("<p>Your tickets</p>", "text/html")
    made.attach("tickets.pdf", b"%PDF-1.7", "application/pdf")
    made.attach("event.ics", "BEGIN:VCALENDAR", "text/calendar")
    return made


def told(mailer: Any) -> tuple[str, dict[str, str]]:
    """What the provider would be sent, and the headers of HTTP."""
    payload = mailer.build_message_payload(message(), mailer.send_defaults)
    if mailer.esp_name == "Amazon SES":
        mailer.open()
        payload.finalize_payload()
        return payload.params["Content"]["Raw"]["Data"].decode(), {}
    params = payload.get_request_params("https://api.example/")
    return f"{params['data']}{params['files']}", params["headers"]


def test_every_try_is_the_same_bytes(mailer: Any) -> None:
    digests = {hashlib.sha256(told(mailer)[0].encode()).hexdigest() for _ in range(2)}
    assert len(digests) == 1


def test_the_key_goes_out_in_the_providers_own_form_or_not_at_all(mailer: Any) -> None:
    body, headers = told(mailer)
    assert KEY not in body
    assert "Idempotency-Key" not in body
    expected = KEY if mailer.esp_name == "Resend" else None
    assert headers.get("Idempotency-Key") == expected
    if mailer.esp_name == "Brevo":
        sent = json.loads(body.removesuffix("None"))["headers"]["idempotencyKey"]
        assert sent == str(uuid.uuid5(uuid.NAMESPACE_URL, KEY))


def test_every_provider_is_given_the_message_id(mailer: Any) -> None:
    body, _ = told(mailer)
    assert "<one@shop.example>" in body
    if mailer.esp_name == "Postmark":
        assert {"Name": "X-PM-KeepID", "Value": "true"} in json.loads(body[:-4])["Headers"]


def test_a_provider_is_asked_once_and_answers_before_the_job_is_over_time(mailer: Any) -> None:
    if mailer.esp_name == "Amazon SES":
        config = mailer.client_params["config"]
        assert config.retries["total_max_attempts"] == 1
        assert config.connect_timeout + config.read_timeout < 30
    else:
        assert sum(mailer.timeout) < 30


def answer(status: int, body: object = None, **headers: str) -> Response:
    made = Response()
    made.status_code = status
    made.headers.update(headers)
    made._content = json.dumps(body or {}).encode()
    return made


def what_comes_of(mailer: Any, response: Response) -> Any:
    """The error of a call that is answered so, None where the email was accepted."""
    sent = message()
    payload = mailer.build_message_payload(sent, mailer.send_defaults)
    try:
        mailer.raise_for_status(response, payload, sent)
        status = mailer.parse_recipient_status(response, payload, sent)
        sent.anymail_status = type("Status", (), {"status": {s.status for s in status.values()}})
        mailer.raise_for_recipient_status(sent.anymail_status, response, payload, sent)
    except AnymailError as error:
        return error
    return next(iter(status.values()))


def of(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = settings_of.mail_of(name, env(monkeypatch), required)
    with override_settings(MAILERS=made.mailers):
        return mailers.default


def test_brevo_says_duplicate_of_what_it_has_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    known = answer(400, {"code": "duplicate_parameter", "message": "known"})
    found = what_comes_of(of("brevo", monkeypatch), known)
    assert (found.status, found.message_id) == ("sent", None)


@pytest.mark.parametrize(
    ("name", "response", "verdict", "words"),
    [
        ("brevo", answer(400, {"code": "invalid_parameter"}), GiveUp, "400 invalid_parameter"),
        ("brevo", answer(400, {"code": "not_enough_credits"}), TryLater, "our account"),
        ("postmark", answer(401, {"ErrorCode": 10, "Message": "no"}), TryLater, "our account"),
        ("postmark", answer(422, {"ErrorCode": 400, "Message": "no"}), TryLater, "our account"),
        ("postmark", answer(422, {"ErrorCode": 402, "Message": "no"}), GiveUp, "422 402"),
        (
            "postmark",
            answer(422, {"ErrorCode": 406, "Message": "inactive addresses: buyer@example.org. "
                         "Inactive recipients are ones"}),
            GiveUp, "refuses the recipient",
        ),
        ("mailgun", answer(400, {"message": "to: buyer@example.org is no address"}), GiveUp, "400"),
        ("mailgun", answer(404, {"message": "Domain not found: shop"}), TryLater, "our account"),
        ("mailgun", answer(500, "<html>"), TryLater, "does not serve: 500"),
        ("resend", answer(200, ["nonsense"]), TryLater, "cannot be read: 200"),
        ("resend", answer(302), MailRefused, "302"),
    ],
)  # fmt: skip
def test_an_answer_of_a_provider_is_a_verdict_that_quotes_nobody(
    name: str, response: Response, verdict: type[Exception], words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    found = http_errors.verdict_on(what_comes_of(of(name, monkeypatch), response))
    assert type(found) is verdict
    assert words in str(found)
    assert "example" not in str(found)


def aws(status: int, code: str) -> Any:
    """What anymail raises of an error of boto3's."""
    response = {
        "Error": {"Code": code, "Message": "buyer@example.org"},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {"retry-after": "9"}},
    }
    return AnymailAPIError("buyer@example.org", response=response)


@pytest.mark.parametrize(
    ("error", "verdict", "taken"),
    [
        (aws(400, "BadRequestException"), GiveUp, False),
        (aws(400, "MessageRejected"), MailRefused, False),
        (aws(400, "SendingPausedException"), TryLater, False),
        (aws(429, "TooManyRequestsException"), TryLater, False),
        (aws(400, "LimitExceededException"), TryLater, False),
        (aws(403, "InvalidSignatureException"), TryLater, False),
        (aws(503, "ServiceUnavailable"), TryLater, True),
        (AnymailRecipientsRefused(), GiveUp, False),
        (AnymailUnsupportedFeature("x buyer@example.org"), GiveUp, False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:1]),
)
def test_an_error_without_requests_is_a_verdict_too(
    error: AnymailError, verdict: type[Exception], taken: bool
) -> None:
    found = http_errors.verdict_on(error)
    assert type(found) is verdict
    assert "example" not in str(found)
    assert http_errors.surely_not_taken(error) is not taken


WINDOWS = {"resend": 24 * 3600, "brevo": 900, "postmark": 0, "mailgun": 0, "ses": 0, "smtp": 0}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_window_is_the_providers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of.mail_of(name, env(monkeypatch), required).window == WINDOWS[name]


def test_a_window_may_be_set_where_there_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to = env(monkeypatch, MAIL_KEY_WINDOW="60")
    for name in ("resend", "brevo", "smtp"):
        assert settings_of.mail_of(name, set_to, required).window == 60
    with pytest.raises(ImproperlyConfigured, match="postmark knows no keys"):
        settings_of.mail_of("postmark", set_to, required)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("resend", "MAIL_API_KEY"), ("postmark", "MAIL_API_KEY"), ("brevo", "MAIL_API_KEY"),
        ("mailgun", "MAIL_API_KEY"), ("mailgun", "MAIL_SENDER_DOMAIN"), ("ses", "MAIL_REGION"),
        ("smtp", "EMAIL_URL"),
    ],
)  # fmt: skip
def test_what_a_provider_needs_is_named(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{variable} is not set"):
        settings_of.mail_of(name, env(monkeypatch, **{variable: ""}), required)


def test_a_provider_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match="'sendgird', none of smtp, resend, brevo"):
        settings_of.mail_of("sendgird", env(monkeypatch), required)


@pytest.mark.parametrize("name", sorted(settings_of.PROVIDERS))
def test_a_hook_is_made_of_a_secret_that_can_be_one(name: str) -> None:
    secret = SECRETS.get(name, LOGIN)
    assert settings_of.webhook_secret(name, secret) == secret
    assert callable(import_module(f"stagedoor.providers.{name}").hook(secret))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("resend", LOGIN), ("resend", "whsec_"), ("resend", "whsec_c2hvcnQ="),
        ("postmark", "no-colon-but-long-enough"), ("ses", ":a-long-enough-password"),
        ("brevo", "hooks:short"),
    ],
)  # fmt: skip
def test_a_secret_that_cannot_be_one_stops_the_start(name: str, secret: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="MAIL_WEBHOOK_SECRET must"):
        settings_of.webhook_secret(name, secret)
