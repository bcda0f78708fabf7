"""What is raised where an email is not sent, whoever should have sent it."""

from jobs.errors import Discreet

PAUSE = 30.0
"""Seconds until a provider that does not serve is asked again."""


class MailRefused(Discreet):
    """The provider does not want something: the text says its code, and to what."""
