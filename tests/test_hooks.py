"""What providers post: only what they signed counts, once, and only for the provider in use."""

import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from prometheus_client import REGISTRY
from standardwebhooks import Webhook

from jobs.models import ProcessedJob
from jobs.outbox import enqueue
from jobs.testing import drain
from orders.models import Order
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_type
from tickets.models import Delivery, DeliveryState
from tickets.progress import progress

pytestmark = pytest.mark.django_db(transaction=True)

ID = "0b5c1f60-re"
SIGNING = "whsec_" + base64.b64encode(b"resend signs with this one").decode()
LOGIN = "hooks:a-long-enough-password"
MAILGUN = "mailgun-signing-key"


@pytest.fixture
def sent(mailbox: MailFolder) -> PlacedOrder:
    """An order whose email a provider has accepted under a name of its own."""
    order = buy(new_type())
    drain()
    Delivery.objects.update(provider_id=ID)
    return order


@contextlib.contextmanager
def provider(name: str, secret: str) -> Iterator[None]:
    """The provider in use."""
    with override_settings(MAIL_PROVIDER=name, MAIL_WEBHOOK_SECRET=secret):
        yield


@pytest.fixture
def resend() -> Iterator[None]:
    """Resend is the provider in use."""
    with provider("resend", SIGNING):
        yield


def resend_event(kind: str = "bounced", name: str = ID, at: datetime | None = None) -> bytes:
    bounce = {"bounce": {"message": "The provider sent a hard bounce message"}}
    return json.dumps({
        "type": f"email.{kind}", "created_at": (at or timezone.now()).isoformat(),
        "data": {"email_id": name, "to": ["buyer@example.org"], "headers": [], **bounce},
    }).encode()  # fmt: skip


def post(name: str, body: bytes, **headers: str) -> HttpResponse:
    answer: Any = Client(raise_request_exception=False).post(
        f"/hooks/mail/{name}/", body, content_type="application/json", headers=headers
    )
    return answer  # type: ignore[no-any-return]


def signed(
    body: bytes, secret: str = SIGNING, at: datetime | None = None, name: str = "msg_1"
) -> dict[str, str]:
    """The headers by which Resend proves that it is its own."""
    at = at or datetime.now(UTC)
    signature = Webhook(secret).sign(name, at, body.decode())
    seconds = str(int(at.timestamp()))
    return {"svix-id": name, "svix-timestamp": seconds, "svix-signature": signature}


def state() -> str:
    return Delivery.objects.get(kind="tickets").state


def counted(reason: str = "bounced") -> float:
    return REGISTRY.get_sample_value("stagedoor_bounces_total", {"reason": reason}) or 0.0


def test_an_email_that_came_back_is_bounced_and_everybody_is_told(
    sent: PlacedOrder, resend: None
) -> None:
    before, body = counted(), resend_event()
    assert post("resend", body, **signed(body)).status_code == 200
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.bounce) == (DeliveryState.BOUNCED, "bounced")
    assert delivery.bounced_at is not None
    assert counted() == before + 1
    office = Client()
    office.force_login(box_office())
    page = office.get(reverse("admin:orders_order_change", args=[sent.id])).content.decode()
    assert f"The email bounced at {delivery.bounced_at:%H:%M} UTC" in page
    assert "Correct the address, then resend the email, or call the buyer." in page
    assert "email 1 of the tickets: bounced" in page
    assert progress(Order.objects.get()).state == "bounced"


def test_an_event_that_is_posted_again_changes_nothing(sent: PlacedOrder, resend: None) -> None:
    body = resend_event(at=timezone.now() - timedelta(minutes=2))
    assert post("resend", body, **signed(body)).status_code == 200
    before, number = Delivery.objects.values().get(), counted()
    for name in ("msg_1", "msg_2"):
        later = resend_event()
        assert post("resend", later, **signed(later, name=name)).status_code == 200
    assert post("resend", body, **signed(body)).status_code == 200
    assert (Delivery.objects.values().get(), counted()) == (before, number)


def test_what_bounced_is_not_sent_again_by_the_same_job(
    sent: PlacedOrder, resend: None, mailbox: MailFolder
) -> None:
    body = resend_event()
    post("resend", body, **signed(body))
    with transaction.atomic():
        row = enqueue("email_tickets", order_id=sent.id)
    drain()
    assert ProcessedJob.objects.get(pk=row).result == "nothing to do"
    assert len(mailbox.calls()) == 1
    assert state() == DeliveryState.BOUNCED


OTHER = "whsec_" + base64.b64encode(b"somebody else's secret key").decode()


def forgeries(body: bytes) -> list[dict[str, str]]:
    now, good = datetime.now(UTC), signed(body)
    return [
        {},
        signed(body, OTHER),
        signed(body + b" "),
        signed(body, at=now - timedelta(minutes=6)),
        signed(body, at=now + timedelta(minutes=6)),
        {**good, "svix-id": "msg_2"},
        {**good, "svix-timestamp": "soon"},
        {**good, "svix-signature": "v1,AAAA"},
        {**good, "svix-signature": "no signature"},
        {name: good[name] for name in ("svix-id", "svix-timestamp")},
    ]


@pytest.mark.parametrize("number", range(10))
def test_what_resend_did_not_sign_now_is_refused(
    sent: PlacedOrder, resend: None, number: int
) -> None:
    body = resend_event()
    assert post("resend", body, **forgeries(body)[number]).status_code == 400
    assert state() == DeliveryState.SENT


@pytest.mark.parametrize("kind", ["sent", "delivered", "opened", "delivery_delayed", "of tomorrow"])
def test_other_events_change_nothing(sent: PlacedOrder, resend: None, kind: str) -> None:
    body = resend_event(kind)
    assert post("resend", body, **signed(body)).status_code == 200
    assert state() == DeliveryState.SENT


def test_an_email_that_arrives_after_it_bounced_is_sent_in_whatever_order_that_is_told(
    sent: PlacedOrder, resend: None
) -> None:
    now = timezone.now()
    bounce = resend_event(at=now - timedelta(minutes=2))
    arrival = resend_event("delivered", at=now - timedelta(minutes=1))
    for order in ((bounce, arrival), (arrival, bounce)):
        Delivery.objects.update(state=DeliveryState.SENT, arrived_at=None, bounced_at=None)
        for body in order:
            assert post("resend", body, **signed(body)).status_code == 200
        delivery = Delivery.objects.get()
        assert (delivery.state, delivery.bounced_at, delivery.bounce) == ("sent", None, "")
    assert progress(Order.objects.get()).state == "emailed"
    later = resend_event(at=now)
    assert post("resend", later, **signed(later)).status_code == 200
    assert state() == DeliveryState.BOUNCED


def test_an_email_that_is_not_known_yet_is_to_be_posted_again(
    sent: PlacedOrder, resend: None
) -> None:
    """It may bounce before the commit of its sending."""
    Delivery.objects.update(state=DeliveryState.QUEUED, provider_id="", settled_at=None)
    body = resend_event()
    assert post("resend", body, **signed(body)).status_code == 503
    Delivery.objects.update(state=DeliveryState.SENT, provider_id=ID)
    assert post("resend", body, **signed(body)).status_code == 200
    assert state() == DeliveryState.BOUNCED


def test_an_old_email_that_is_not_known_is_of_somebody_else(
    sent: PlacedOrder, resend: None
) -> None:
    body = resend_event(name="another", at=timezone.now() - timedelta(hours=2))
    assert post("resend", body, **signed(body)).status_code == 200
    assert state() == DeliveryState.SENT


@pytest.mark.parametrize(
    ("name", "secret"), [("postmark", LOGIN), ("smtp", SIGNING), ("resend", ""), ("", "")]
)
def test_the_hook_of_any_but_the_provider_in_use_is_not_there(
    sent: PlacedOrder, name: str, secret: str
) -> None:
    body = resend_event()
    with provider(name, secret):
        for hook in ("resend", "mandrill", "payloads", "smtp"):
            assert post(hook, body, **signed(body)).status_code == 404
    assert state() == DeliveryState.SENT


def test_a_hook_takes_posts_alone(resend: None) -> None:
    assert Client().get("/hooks/mail/resend/").status_code == 405


def login(text: str = LOGIN) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


POSTMARK = {
    "RecordType": "Bounce", "Type": "HardBounce", "ID": 1, "MessageID": ID,
    "Email": "buyer@example.org", "BouncedAt": "2026-11-30T02:00:00Z", "Details": "no such user",
}  # fmt: skip
BREVO = {
    "event": "invalid_email", "email": "buyer@example.org", "message-id": ID,
    "ts_epoch": 1_790_000_000_000,
}  # fmt: skip
SES = {
    "Type": "Notification", "MessageId": "sns-1", "Timestamp": "2026-11-30T02:00:00.000Z",
    "Message": json.dumps({
        "notificationType": "Bounce", "mail": {"messageId": ID, "destination": ["b@example.org"]},
        "bounce": {
            "bounceType": "Permanent", "bounceSubType": "General",
            "bouncedRecipients": [{"emailAddress": "buyer@example.org"}],
        },
    }),
}  # fmt: skip
BY_PASSWORD = {"postmark": POSTMARK, "brevo": BREVO, "ses": SES}
REASONS = {"postmark": "bounced", "brevo": "invalid", "ses": "bounced"}


@pytest.mark.parametrize("name", BY_PASSWORD)
def test_a_hook_with_a_password_wants_it(sent: PlacedOrder, name: str) -> None:
    body = json.dumps(BY_PASSWORD[name]).encode()
    topic = {"x-amz-sns-message-type": "Notification", "x-amz-sns-message-id": "sns-1"}
    with provider(name, LOGIN):
        for wrong in ({}, login("hooks:wrong"), login(LOGIN[:-1]), {"Authorization": "Basic %%"}):
            assert post(name, body, **topic, **wrong).status_code in (400, 401)
        assert state() == DeliveryState.SENT
        assert post(name, body, **topic, **login()).status_code == 200
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.bounce) == (DeliveryState.BOUNCED, REASONS[name])


def mailgun(key: str = MAILGUN) -> bytes:
    told = {"token": "t" * 50, "timestamp": "1790000000"}
    digest = hmac.new(key.encode(), f"{told['timestamp']}{told['token']}".encode(), hashlib.sha256)
    event = {
        "event": "failed", "severity": "permanent", "timestamp": 1_790_000_000.5,
        "recipient": "buyer@example.org", "reason": "bounce",
        "message": {"headers": {"message-id": ID}},
    }  # fmt: skip
    return json.dumps(
        {"signature": {**told, "signature": digest.hexdigest()}, "event-data": event}
    ).encode()


def test_mailgun_signs(sent: PlacedOrder) -> None:
    Delivery.objects.update(provider_id=f"<{ID}>")
    with provider("mailgun", MAILGUN):
        assert post("mailgun", mailgun("another key")).status_code == 400
        assert post("mailgun", b"{}").status_code == 400
        assert state() == DeliveryState.SENT
        assert post("mailgun", mailgun()).status_code == 200
    assert state() == DeliveryState.BOUNCED
