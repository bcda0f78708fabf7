"""Which provider sends the emails, and what it needs; values come from the environment."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

CONNECT_TIMEOUT = 5.0
"""Seconds; with MAIL_TIMEOUT it must stay below the 30 s that an email's job has."""
DJANGO_SMTP = "django.core.mail.backends.smtp.EmailBackend"
# Ours tells a loss before the message, which took nothing, from one in the middle of it.
OUR_SMTP = "stagedoor.smtp.Backend"

type Required = Callable[[str, str], str]
"""The value of a variable; raises ImproperlyConfigured that says what it is for."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """`window`: seconds for which it drops a second message under a key; 0: it knows no keys.

    `needs`, `may`: options of its mailer, and the variables that they come from.
    """

    needs: Mapping[str, str]
    may: Mapping[str, str] = field(default_factory=dict)
    window: int = 0


PROVIDERS = {
    "resend": Provider(
        window=24 * 3600, needs={"api_key": "MAIL_API_KEY"}, may={"api_url": "MAIL_API_URL"}
    ),
    # Half an hour says its documentation now, a quarter said its changelog before.
    "brevo": Provider(
        window=15 * 60, needs={"api_key": "MAIL_API_KEY"}, may={"api_url": "MAIL_API_URL"}
    ),
    "postmark": Provider(
        needs={"server_token": "MAIL_API_KEY"},
        may={"message_stream": "MAIL_STREAM", "api_url": "MAIL_API_URL"},
    ),
    "mailgun": Provider(
        needs={"api_key": "MAIL_API_KEY", "sender_domain": "MAIL_SENDER_DOMAIN"},
        may={"api_url": "MAIL_API_URL"},
    ),
    "ses": Provider(
        needs={"region_name": "MAIL_REGION"}, may={"endpoint_url": "MAIL_API_URL"}
    ),
}  # fmt: skip
SMTP = "smtp"
PURPOSES = {
    "MAIL_API_KEY": "the provider's API key (Postmark: server token).",
    "MAIL_SENDER_DOMAIN": "the domain that Mailgun sends for.",
    "MAIL_REGION": "the region of Amazon SES, e.g. eu-west-1; its keys come as AWS_… variables.",
}


@dataclass(frozen=True)
class Mail:
    """Django's MAILERS, and MAIL_KEY_WINDOW."""

    mailers: dict[str, Any]
    window: int


def mail_of(provider: str, env: environ.Env, required: Required) -> Mail:
    """How the provider of that name is called. Raises ImproperlyConfigured."""
    if provider == SMTP:
        # Some providers' SMTP gateways know keys.
        return Mail({"default": _smtp(env, required)}, env.int("MAIL_KEY_WINDOW", default=0))
    if provider not in PROVIDERS:
        names = ", ".join([SMTP, *PROVIDERS])
        raise ImproperlyConfigured(f"MAIL_PROVIDER is {provider!r}, none of {names}.")
    backend = f"stagedoor.providers.{provider}.Mailer"
    options = _options(PROVIDERS[provider], env, required)
    if provider == "ses":
        options = {"client_params": _aws(options)}
    return Mail({"default": {"BACKEND": backend, "OPTIONS": options}}, _window(provider, env))


def _options(provider: Provider, env: environ.Env, required: Required) -> dict[str, Any]:
    needed = {name: required(key, PURPOSES[key]) for name, key in provider.needs.items()}
    given = {name: env.str(key, default="") for name, key in provider.may.items()}
    timeout = env.float("MAIL_TIMEOUT", default=20.0)
    # Of each connection and of each read.
    timeouts = {"timeout": (min(CONNECT_TIMEOUT, timeout), timeout)}
    return {**needed, **{name: value for name, value in given.items() if value}, **timeouts}


def _aws(options: dict[str, Any]) -> dict[str, Any]:
    connect, read = options.pop("timeout")
    # It repeats a call by itself, twice by default: how often is the policy's to say.
    retries = {"total_max_attempts": 1}
    config = {"retries": retries, "connect_timeout": connect, "read_timeout": read}
    return {**options, "config": config}


def _window(provider: str, env: environ.Env) -> int:
    known = PROVIDERS[provider].window
    window: int = env.int("MAIL_KEY_WINDOW", default=known)
    if window and not known:
        raise ImproperlyConfigured(f"MAIL_KEY_WINDOW is set, but {provider} knows no keys.")
    return window


def _smtp(env: environ.Env, required: Required) -> dict[str, Any]:
    config = env.email_url_config(
        required("EMAIL_URL", "the mail server, e.g. smtp+tls://user:pw@host:587.")
    )
    return {
        "BACKEND": config["EMAIL_BACKEND"].replace(DJANGO_SMTP, OUR_SMTP),
        "OPTIONS": {
            "host": config["EMAIL_HOST"] or "localhost",
            "port": config["EMAIL_PORT"] or 25,
            "username": config["EMAIL_HOST_USER"] or "",
            "password": config["EMAIL_HOST_PASSWORD"] or "",
            "use_tls": config.get("EMAIL_USE_TLS", False),
            "use_ssl": config.get("EMAIL_USE_SSL", False),
            "timeout": env.float("MAIL_TIMEOUT", default=20.0),
        },
    }


def webhook_secret(provider: str, text: str) -> str:
    """`text`, if it can be what the provider's hook is protected by; else ImproperlyConfigured."""
    if provider == "resend" and not _is_signing_secret(text):
        raise ImproperlyConfigured("MAIL_WEBHOOK_SECRET must be Resend's signing secret, whsec_….")
    if provider in ("postmark", "brevo", "ses") and not _is_login(text):
        raise ImproperlyConfigured(
            "MAIL_WEBHOOK_SECRET must read `user:password`, the password of 16 letters or more."
        )
    return text


def _is_signing_secret(text: str) -> bool:
    try:
        return len(base64.b64decode(text.removeprefix("whsec_"), validate=True)) >= 16
    except binascii.Error:
        return False


def _is_login(text: str) -> bool:
    name, _, password = text.partition(":")
    return bool(name) and len(password) >= 16
