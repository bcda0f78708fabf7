"""Settings of processes that send as django-anymail does: without the key where Resend looks."""

from stagedoor.settings.testing import *  # noqa: F403
from stagedoor.settings.testing import MAILERS as SENDING

MAILERS = {"default": {**SENDING["default"], "BACKEND": "anymail.backends.resend.EmailBackend"}}
