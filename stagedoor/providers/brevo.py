"""Brevo: the key is a UUID among the email's headers, known for half an hour at most."""

import contextlib
import uuid
from typing import Any

from anymail.backends.brevo import BrevoPayload, EmailBackend
from anymail.message import AnymailRecipientStatus
from anymail.webhooks.brevo import BrevoTrackingWebhookView

from .payloads import KEY

KNOWN = "duplicate_parameter"
"""How Brevo answers a second call under a key: the first one was accepted."""


class _Payload(BrevoPayload):
    def set_extra_headers(self, headers: Any) -> None:
        """Brevo takes this one out of the email; only a UUID will do."""
        if key := headers.pop(KEY, None):
            headers["idempotencyKey"] = str(uuid.uuid5(uuid.NAMESPACE_URL, key))
        super().set_extra_headers(headers)


class Mailer(EmailBackend):
    """Brevo's API under the message's own key."""

    def build_message_payload(self, message: Any, defaults: Any) -> _Payload:
        """As anymail's, with the key."""
        return _Payload(message, defaults, self)

    def raise_for_status(self, response: Any, payload: Any, message: Any) -> None:
        """An email that is known is no error."""
        if not _is_known(response):
            super().raise_for_status(response, payload, message)

    def parse_recipient_status(self, response: Any, payload: Any, message: Any) -> Any:
        """Of one that is known Brevo does not tell again what it calls it."""
        if _is_known(response):
            sent = AnymailRecipientStatus(message_id=None, status="sent")
            return {recipient.addr_spec: sent for recipient in payload.all_recipients}
        return super().parse_recipient_status(response, payload, message)


def _is_known(response: Any) -> bool:
    if response.status_code == 400:
        with contextlib.suppress(ValueError, AttributeError):
            return bool(response.json().get("code") == KNOWN)
    return False


class Hook(BrevoTrackingWebhookView):
    """Anymail's, with the password that it is given."""

    webhook_secret = None


def hook(secret: str) -> Any:
    """The view of its hook; `secret`: `user:password`, part of the address given to Brevo."""
    return Hook.as_view(webhook_secret=secret)
