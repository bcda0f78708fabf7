"""The tests: development's settings on private servers, with failpoints that can be armed."""

from .development import *  # noqa: F403

FAILPOINTS = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
