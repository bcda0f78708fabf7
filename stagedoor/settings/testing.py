"""The tests: development's settings on private servers, with failpoints that can be armed."""

from .development import *  # noqa: F403
from .development import INSTALLED_APPS as APPS
from .development import JOBS

FAILPOINTS = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [*APPS, "tests.drill"]
# What a test has just done is seen.
JOBS["OUTLOOK"] = 0.0
