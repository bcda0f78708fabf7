"""Development and a look: what `make run` starts. Never for a real sale.

Addresses and secrets not set in the environment come from the file that a running copy keeps
in `VAR_DIR/env`.
"""

from django.core.exceptions import ImproperlyConfigured

from .base import *  # noqa: F403
from .base import STORAGES, VAR_DIR, cache, database, env, link_keys, logging_config
from .mail import mail_of

env.read_env(VAR_DIR / "env")
try:
    SECRET_KEY = env.str("SECRET_KEY")
    LINK_KEYS = link_keys(env.str("LINK_KEYS"))
    DATABASES = {"default": database(env.str("DATABASE_URL"))}
    REDIS_URL = env.str("REDIS_URL")
    CACHE_URL = env.str("CACHE_URL")
except ImproperlyConfigured as missing:
    raise ImproperlyConfigured(
        f"{missing}, or start `make run` once: development settings take what it writes to "
        f"{VAR_DIR / 'env'}. Where it runs with a VAR_DIR of its own, name the same one."
    ) from missing

DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]", "testserver"])
BASE_URL = env.str("BASE_URL", default="http://127.0.0.1:8000").rstrip("/")
CACHES = {"default": cache(CACHE_URL)}
MAIL_DIR = VAR_DIR / "mail"
MAILERS = {
    "default": {"BACKEND": "stagedoor.mailbox.Mailbox", "OPTIONS": {"folder": str(MAIL_DIR)}}
}
if MAIL_PROVIDER := env.str("MAIL_PROVIDER", default=""):
    _mail = mail_of(MAIL_PROVIDER, env, lambda name, what: env.str(name))
    MAILERS, MAIL_KEY_WINDOW = _mail.mailers, _mail.window
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
WHITENOISE_USE_FINDERS = True
STATIC_ROOT = None  # nothing is collected: files are found where they are
LOGGING = logging_config("readable", words=True)
