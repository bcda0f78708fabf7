"""What every environment shares. Values come from the environment through django-environ."""

import logging
import os
import re
from pathlib import Path
from typing import Any

import django_stubs_ext
import environ
from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP
from redis.backoff import NoBackoff
from redis.retry import Retry

from stagedoor import __version__

from .credentials import with_credentials
from .environment import Environment

# Generic base classes such as `ModelAdmin[Event]`, for the type checker, need it at run time.
django_stubs_ext.monkeypatch()
env = Environment()
env.ENVIRON = with_credentials(os.environ)
BASE_DIR = Path(__file__).resolve().parent.parent.parent


def link_keys(text: str) -> dict[int, bytes]:
    """Parse `LINK_KEYS`, e.g. `1:<hex>,2:<hex>`: key id to at least 32 secret bytes each.

    Raises ImproperlyConfigured for anything else. The highest id signs new links.
    """
    pairs = re.findall(r"(\d+):([0-9a-fA-F]{64,})(?:,|$)", text)
    keys = {int(name): bytes.fromhex(value) for name, value in pairs if len(value) % 2 == 0}
    if not keys or len(keys) != text.rstrip(",").count(",") + 1:
        raise ImproperlyConfigured(
            "LINK_KEYS must read `1:<hex of 32 bytes or more>[,2:<hex>…]`, each id once; make a "
            'key with: python -c "import secrets; print(secrets.token_hex(32))"'
        )
    return keys


DEBUG = False
INSTALLED_APPS = [
    "stagedoor",
    "tickets",
    "orders",
    "jobs",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_prometheus",
]
MIDDLEWARE = [
    "stagedoor.middleware.RequestContextMiddleware",
    "stagedoor.metrics_page.MetricsMiddleware",
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "stagedoor.middleware.AnswerOutagesMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "stagedoor.middleware.CountRequestsMiddleware",
]
ROOT_URLCONF = "stagedoor.urls"
WSGI_APPLICATION = "stagedoor.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = True
FORMAT_MODULE_PATH = ["stagedoor.formats"]
USE_TZ = True
CSRF_FAILURE_VIEW = "stagedoor.errors.csrf_failure"
CSRF_COOKIE_HTTPONLY = True
SECURE_CSP = {
    "default-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]

# Servers. A client that repeats XADD by itself doubles entries, one that waits for ever hangs.
REDIS_TIMEOUT = env.float("REDIS_TIMEOUT", default=0.1)
NO_RETRY = Retry(NoBackoff(), 0)


def database(url: str) -> dict[str, Any]:
    """Django's DATABASES entry for `url`: kept connections, health checks, bounds on every wait.

    Each thread of web, relay and worker keeps its connection. A pool would give it back and take
    it again for every request and job: 15 % fewer jobs a second, and 5 s of waiting for a server
    that is away (`make bench`).

    Timeouts in ms: a statement 30 s, a lock 2 s (selling.md §2), idle in a transaction 5 s
    (design §6, a stopped process must not hold its rows).
    """
    bounds = {
        "statement_timeout": env.int("STATEMENT_TIMEOUT_MS", default=30_000),
        "lock_timeout": env.int("LOCK_TIMEOUT_MS", default=2_000),
        "idle_in_transaction_session_timeout": env.int("IDLE_IN_TRANSACTION_MS", default=5_000),
    }
    config = environ.Env.db_url_config(url)
    return {
        **config,
        "ENGINE": "django_prometheus.db.backends.postgresql",
        "CONN_HEALTH_CHECKS": True,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "options": " ".join(f"-c {name}={value}" for name, value in bounds.items()),
            "connect_timeout": 5,
            "keepalives": 1,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            # Keepalives do not watch a connection with something unsent: it would hang for minutes.
            "tcp_user_timeout": 25_000,
            "application_name": env.str("APPLICATION_NAME", default="stagedoor"),
            **config.get("OPTIONS", {}),
        },
    }


def cache(url: str) -> dict[str, Any]:
    """Django's CACHES entry for `url`; a cache that is away costs speed, never a page."""
    return {
        "BACKEND": "stagedoor.cache.ForgivingRedisCache",
        "LOCATION": url,
        "OPTIONS": {
            "socket_timeout": REDIS_TIMEOUT,
            "socket_connect_timeout": REDIS_TIMEOUT,
            "retry": NO_RETRY,
        },
    }


SESSION_ENGINE = "django.contrib.sessions.backends.cached_db"
SESSION_COOKIE_AGE = 12 * 3600

# Files and mail.
VAR_DIR = Path(env.str("VAR_DIR", default=str(BASE_DIR / "var"))).resolve()
STATIC_URL = "/static/"
STATIC_ROOT: Path | None = Path(env.str("STATIC_ROOT", default=str(VAR_DIR / "static")))
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "stagedoor.storage.DurableFileSystemStorage"},
    "tickets": {
        "BACKEND": "stagedoor.storage.DurableFileSystemStorage",
        "OPTIONS": {"location": env.str("TICKET_DIR", default=str(VAR_DIR / "files"))},
    },
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
MEDIA_ROOT = VAR_DIR / "media"
SHOP_NAME = env.str("SHOP_NAME", default="Stagedoor")
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="Stagedoor <tickets@stagedoor.example>")
MAIL_ATTACHMENT_LIMIT = env.int("MAIL_ATTACHMENT_LIMIT", default=7 * 1024 * 1024)
# Seconds for which the provider drops a second message under the same Idempotency-Key.
MAIL_KEY_WINDOW = env.int("MAIL_KEY_WINDOW", default=24 * 3600)
# Whose hook is open, and what it proves itself by; without a secret it is closed.
MAIL_PROVIDER = ""
MAIL_WEBHOOK_SECRET = env.str("MAIL_WEBHOOK_SECRET", default="")
# Emails to all buyers of an event: how many come due in a second, and orders to a commit.
MAIL_BULK_RATE = env.float("MAIL_BULK_RATE", default=10.0)
MAIL_BULK_BATCH = env.int("MAIL_BULK_BATCH", default=100)
if MAIL_BULK_RATE <= 0 or MAIL_BULK_BATCH < 1:
    raise ImproperlyConfigured("MAIL_BULK_RATE and MAIL_BULK_BATCH must be above 0.")

# When buyers are reminded of their event: the hour, on the day before, where the event is.
REMINDER_HOUR = env.int("REMINDER_HOUR", default=10)
if not 0 <= REMINDER_HOUR <= 23:
    raise ImproperlyConfigured("REMINDER_HOUR must be from 0 to 23.")

# Which day it is for staff, and the group whose members are emailed what was sold.
SHOP_ZONE = env.str("SHOP_ZONE", default="UTC")
REPORT_GROUP = env.str("REPORT_GROUP", default="reports")

# Days after which the words and addresses of emails, and lost links, are forgotten.
PERSONAL_DAYS = env.float("PERSONAL_DAYS", default=90.0)
if PERSONAL_DAYS < 1:
    raise ImproperlyConfigured("PERSONAL_DAYS must be 1 or more.")

# Days after the start of an event, and after it was made, for which the PDF of an order is kept.
FILES_DAYS = env.float("FILES_DAYS", default=90.0)
if FILES_DAYS < 1:
    raise ImproperlyConfigured("FILES_DAYS must be 1 or more.")

# Who pays refunds back; see orders.payments.
PAYMENTS = env.str("PAYMENTS", default="orders.payments.Recorded")

# Of "Lost your link?": above it nobody is listened to for a moment, whatever the address.
LOST_LINKS_PER_MINUTE = env.int("LOST_LINKS_PER_MINUTE", default=60)

# The way of a job; every number is design.md's (docs/operations.md has the table).
JOBS: dict[str, Any] = {
    "STREAM": "jobs",
    "GROUP": "workers",
    "DEAD_STREAM": "jobs:dead",
    "DEAD_MAXLEN": env.int("JOBS_DEAD_MAXLEN", default=10_000),
    "MAXLEN": env.int("JOBS_MAXLEN", default=100_000),
    "MARK": env.int("JOBS_MARK", default=80_000),
    "RECONCILE": env.float("JOBS_RECONCILE", default=30.0),
    "RECONCILE_AFTER": env.float("JOBS_RECONCILE_AFTER", default=120.0),
    "RELAY_BATCH": env.int("JOBS_RELAY_BATCH", default=500),
    "RELAY_POLL": env.float("JOBS_RELAY_POLL", default=1.0),
    "BLOCK": env.float("JOBS_BLOCK", default=5.0),
    "HUNG_AFTER": env.float("JOBS_HUNG_AFTER", default=5.0),
    "LEASE": env.float("JOBS_LEASE", default=60.0),
    "LEASE_RENEWAL": env.float("JOBS_LEASE_RENEWAL", default=15.0),
    "RECLAIM": env.float("JOBS_RECLAIM", default=30.0),
    "GRACE": env.float("JOBS_GRACE", default=30.0),
    "UNKNOWN_DELAY": env.float("JOBS_UNKNOWN_DELAY", default=30.0),
    "UNKNOWN_LIMIT": env.float("JOBS_UNKNOWN_LIMIT", default=3600.0),
    "LAG_LIMIT": env.float("JOBS_LAG_LIMIT", default=5.0),
    "NAME_TTL": env.float("JOBS_NAME_TTL", default=20.0),
    "NAME_WAIT": env.float("JOBS_NAME_WAIT", default=25.0),
    "HEARTBEAT": env.float("JOBS_HEARTBEAT", default=10.0),
    "PROBE_TIMEOUT": env.float("JOBS_PROBE_TIMEOUT", default=2.0),
    "TURN_LIMIT": env.float("JOBS_TURN_LIMIT", default=60.0),
    "BACKOFF_MIN": env.float("JOBS_BACKOFF_MIN", default=0.1),
    "BACKOFF_MAX": env.float("JOBS_BACKOFF_MAX", default=5.0),
    "HOLD_MIN": env.float("JOBS_HOLD_MIN", default=30.0),
    "HOLD_MAX": env.float("JOBS_HOLD_MAX", default=600.0),
    "BULK_LATE": env.float("JOBS_BULK_LATE", default=5.0),
    "BULK_OUT": env.int("JOBS_BULK_OUT", default=16),
    "SCHEDULE_POLL": env.float("JOBS_SCHEDULE_POLL", default=10.0),
    "SCHEDULE_FORGET": env.float("JOBS_SCHEDULE_FORGET", default=3600.0),
    "REPLAYS_PER_SECOND": env.float("JOBS_REPLAYS_PER_SECOND", default=20.0),
    "RENDERS_PER_PROCESS": env.int("JOBS_RENDERS_PER_PROCESS", default=500),
    "COMPUTE_MEMORY": env.int("JOBS_COMPUTE_MEMORY", default=1024**3),
    "WARM_UP": ["tickets.pdf.warm_up"],
    "RETENTION_DAYS": env.float("JOBS_RETENTION_DAYS", default=400.0),
    "PROCESSES_KEPT_DAYS": env.float("JOBS_PROCESSES_KEPT_DAYS", default=7.0),
    "PURGE_BATCH": env.int("JOBS_PURGE_BATCH", default=1000),
    "PURGE_SECONDS": env.float("JOBS_PURGE_SECONDS", default=10.0),
    "AUDIT_AFTER": env.float("JOBS_AUDIT_AFTER", default=180.0),
    "AUDIT_PAUSE": env.float("JOBS_AUDIT_PAUSE", default=1.0),
    "OUTLOOK": env.float("JOBS_OUTLOOK", default=5.0),
    "SAMPLES_KEPT": env.float("JOBS_SAMPLES_KEPT", default=7 * 86_400.0),
}
STOP_TIMEOUT = env.float("STOP_TIMEOUT", default=None)
BUILD = env.str("BUILD", default=__version__)
# What a Prometheus on another machine proves itself by to the web part; empty: none may ask.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
FAILPOINTS = False

# No line shows them, and each record would look them up.
logging.logThreads = logging.logProcesses = False
logging.logMultiprocessing = logging.logAsyncioTasks = False  # type: ignore[attr-defined]
LOG_LEVEL = env.str("LOG_LEVEL", default="INFO")
LOG_FORMATS = ("json", "readable")


def logging_config(formatter: str, *, words: bool = False) -> dict[str, Any]:
    """Django's LOGGING: one stream to stderr, each line with request id and trace.

    `words`: the readable lines tell the words of errors, which may quote a buyer. Raises
    ImproperlyConfigured where LOG_FORMAT asks for another formatter that there is not.
    """
    formatter = env.str("LOG_FORMAT", default=formatter)
    if formatter not in LOG_FORMATS:
        raise ImproperlyConfigured(f"LOG_FORMAT must be one of {', '.join(LOG_FORMATS)}.")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"correlation": {"()": "jobs.correlation.CorrelationFilter"}},
        "formatters": {
            "json": {"()": "stagedoor.logs.JsonFormatter"},
            "readable": {"()": "stagedoor.logs.ReadableFormatter", "words": words},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": formatter,
                "filters": ["correlation"],
            },
        },
        "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
        "loggers": {
            "django.request": {"level": "ERROR"},
            "django.server": {"level": "WARNING"},
            "fontTools": {"level": "ERROR"},
            "weasyprint": {"level": "ERROR"},
        },
    }
