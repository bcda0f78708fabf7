"""Resend: the key is an HTTP header, known for 24 h; hooks are signed as Standard Webhooks."""

from typing import Any

from anymail.backends.resend import EmailBackend, ResendPayload
from anymail.exceptions import AnymailWebhookValidationFailure
from anymail.webhooks.base import AnymailCoreWebhookView
from anymail.webhooks.resend import ResendTrackingWebhookView
from django.http import HttpRequest
from standardwebhooks import Webhook, WebhookVerificationError

from .payloads import KEY


class _Payload(ResendPayload):
    def set_extra_headers(self, headers: Any) -> None:
        """Anymail would put the key into the email, where Resend does not look for it."""
        if key := headers.pop(KEY, None):
            self.headers[KEY] = key
        super().set_extra_headers(headers)


class Mailer(EmailBackend):
    """Resend's API under the message's own key."""

    def build_message_payload(self, message: Any, defaults: Any) -> _Payload:
        """As anymail's, with the key."""
        return _Payload(message, defaults, self)


class Hook(ResendTrackingWebhookView):
    """Anymail's, which would verify by the svix library, by the standard that svix became."""

    secret = ""
    _svix_webhook = None

    def __init__(self, **kwargs: Any) -> None:
        # Past the two classes between, which ask for svix, or warn where neither it nor a password
        # is there.
        AnymailCoreWebhookView.__init__(self, **kwargs)

    def validate_request(self, request: HttpRequest) -> None:
        """Raises AnymailWebhookValidationFailure: not signed by Resend, or more than 5 min ago."""
        names = {f"webhook-{name}": f"svix-{name}" for name in ("id", "timestamp", "signature")}
        signed = {ours: request.headers.get(theirs, "") for ours, theirs in names.items()}
        try:
            Webhook(self.secret).verify(request.body, signed, json_parse=False)
        except (WebhookVerificationError, ValueError):
            raise AnymailWebhookValidationFailure("not signed by Resend") from None


def hook(secret: str) -> Any:
    """The view of its hook; `secret`: the signing secret, `whsec_…`."""
    return Hook.as_view(secret=secret)
