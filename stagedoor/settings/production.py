"""Production: refuses to start without real addresses and real secrets."""

from django.core.exceptions import ImproperlyConfigured

from .base import *  # noqa: F403
from .base import cache, database, env, link_keys, logging_config
from .mail import SMTP, mail_of, webhook_secret

LOOK = "For a look at the product use `make run`, for a command beside it `make manage CMD=…`."


def required(name: str, what: str) -> str:
    """The environment variable `name`; raises ImproperlyConfigured that says what it is for."""
    value = env.str(name, default="")
    if not value:
        raise ImproperlyConfigured(f"{name} is not set: {what} {LOOK}")
    return str(value)


SECRET_KEY = required("SECRET_KEY", "50 or more random characters.")
if len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 5:
    raise ImproperlyConfigured("SECRET_KEY must have 50 or more random characters.")
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])
LINK_KEYS = link_keys(required("LINK_KEYS", "the keys of order links, `1:<64 hex digits>`."))
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[])
BASE_URL = required("BASE_URL", "the shop's public address, e.g. https://shop.example.").rstrip("/")
if not BASE_URL.startswith("https://"):
    raise ImproperlyConfigured("BASE_URL must start with https:// in production.")
if not ALLOWED_HOSTS or "*" in ALLOWED_HOSTS:
    raise ImproperlyConfigured("ALLOWED_HOSTS must name the shop's host names, without `*`.")

DATABASES = {
    "default": database(required("DATABASE_URL", "PostgreSQL, postgres://user:pw@host/db."))
}
REDIS_URL = required("REDIS_URL", "the stream's server, redis://:pw@host:6379/0.")
CACHE_URL = required("CACHE_URL", "sessions and cache: another server or logical database.")
if CACHE_URL == REDIS_URL:
    raise ImproperlyConfigured(
        "CACHE_URL must differ from REDIS_URL: a cache may evict, the stream not."
    )
CACHES = {"default": cache(CACHE_URL)}

MAIL_PROVIDER = env.str("MAIL_PROVIDER", default=SMTP)
_mail = mail_of(MAIL_PROVIDER, env, required)
MAILERS, MAIL_KEY_WINDOW = _mail.mailers, _mail.window
if MAIL_PROVIDER != SMTP:
    MAIL_WEBHOOK_SECRET = webhook_secret(
        MAIL_PROVIDER,
        required("MAIL_WEBHOOK_SECRET", "what the provider proves by that a bounce is its own."),
    )

SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
LOGGING = logging_config("json")
