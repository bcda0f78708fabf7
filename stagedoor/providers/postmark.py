"""Postmark: it knows no keys; our Message-ID stays where it is told to keep it."""

from typing import Any

from anymail.backends.postmark import EmailBackend, PostmarkPayload
from anymail.webhooks.postmark import PostmarkTrackingWebhookView

from .payloads import WithoutKey


class _Payload(WithoutKey, PostmarkPayload):
    def set_extra_headers(self, headers: Any) -> None:
        """Without this one Postmark gives the email a Message-ID of its own."""
        headers["X-PM-KeepID"] = "true"
        super().set_extra_headers(headers)


class Mailer(EmailBackend):
    """Postmark's API."""

    def build_message_payload(self, message: Any, defaults: Any) -> _Payload:
        """As anymail's, without the key."""
        return _Payload(message, defaults, self)


class Hook(PostmarkTrackingWebhookView):
    """Anymail's, with the password that it is given."""

    webhook_secret = None


def hook(secret: str) -> Any:
    """The view of its hook; `secret`: `user:password`, part of the address given to Postmark."""
    return Hook.as_view(webhook_secret=secret)
