"""Development's settings with the benchmarks' app, addresses and clock; logs as in production."""

from stagedoor.settings.development import *  # noqa: F403
from stagedoor.settings.development import INSTALLED_APPS as APPS
from stagedoor.settings.development import MIDDLEWARE as STACK
from stagedoor.settings.development import logging_config

INSTALLED_APPS = [*APPS, "benchmarks"]
MIDDLEWARE = ["benchmarks.timing.TimingMiddleware", *STACK]
ROOT_URLCONF = "benchmarks.urls"
LOGGING = logging_config("json")
