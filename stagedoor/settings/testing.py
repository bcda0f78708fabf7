"""The tests: development's settings on private servers, with failpoints that can be armed."""

from .development import *  # noqa: F403
from .development import INSTALLED_APPS as APPS

FAILPOINTS = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [*APPS, "tests.drill"]
