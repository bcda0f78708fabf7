"""Production: refuses to start without real addresses and real secrets."""

from django.core.exceptions import ImproperlyConfigured

from .base import *  # noqa: F403
from .base import cache, database, env, link_keys, logging_config

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

_mail = env.email_url_config(
    required("EMAIL_URL", "the mail server, e.g. smtp+tls://user:pw@host:587.")
)
SMTP = "django.core.mail.backends.smtp.EmailBackend"
MAILERS = {
    "default": {
        # Ours tells a loss before the message, which took nothing, from one in the middle of it.
        "BACKEND": _mail["EMAIL_BACKEND"].replace(SMTP, "stagedoor.smtp.Backend"),
        "OPTIONS": {
            "host": _mail["EMAIL_HOST"] or "localhost",
            "port": _mail["EMAIL_PORT"] or 25,
            "username": _mail["EMAIL_HOST_USER"] or "",
            "password": _mail["EMAIL_HOST_PASSWORD"] or "",
            "use_tls": _mail.get("EMAIL_USE_TLS", False),
            "use_ssl": _mail.get("EMAIL_USE_SSL", False),
            "timeout": 20,
        },
    },
}

# SMTP knows no keys; some providers' SMTP gateways do.
MAIL_KEY_WINDOW = env.int("MAIL_KEY_WINDOW", default=0)

SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
LOGGING = logging_config("json")
