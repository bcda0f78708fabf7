"""Amazon SES: it knows no keys and gives every email a Message-ID of its own."""

from typing import Any

from anymail.backends.amazon_ses import EmailBackend
from anymail.webhooks.amazon_ses import AmazonSESTrackingWebhookView

from .payloads import KEY


class Mailer(EmailBackend):
    """The API of SES, version 2."""

    def build_message_payload(self, message: Any, defaults: Any) -> Any:
        """As anymail's, without the key: the message is made of all its headers."""
        message.extra_headers.pop(KEY, None)
        return super().build_message_payload(message, defaults)


class Hook(AmazonSESTrackingWebhookView):
    """Anymail's, with the password that it is given."""

    webhook_secret = None


def hook(secret: str) -> Any:
    """The view of its hook; `secret`: `user:password`, part of the address given to Amazon SNS."""
    return Hook.as_view(webhook_secret=secret)
