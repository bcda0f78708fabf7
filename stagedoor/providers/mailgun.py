"""Mailgun: it knows no keys; hooks are signed."""

from typing import Any

from anymail.backends.mailgun import EmailBackend, MailgunPayload
from anymail.webhooks.mailgun import MailgunTrackingWebhookView

from .payloads import WithoutKey


class _Payload(WithoutKey, MailgunPayload):
    pass


class Mailer(EmailBackend):
    """Mailgun's API."""

    def build_message_payload(self, message: Any, defaults: Any) -> _Payload:
        """As anymail's, without the key."""
        return _Payload(message, defaults, self)


def hook(secret: str) -> Any:
    """The view of its hook; `secret`: the webhook signing key.

    Anymail looks at no signature's age: one that is posted again changes nothing.
    """
    return MailgunTrackingWebhookView.as_view(webhook_signing_key=secret)
