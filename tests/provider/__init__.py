"""An email provider and a mail server that fail as a test asks for, and know what they accepted.

Each is a process of its own, which writes every call to a ledger on disk before it answers: a test
kills it, or the product, at any moment, and the ledger still tells how many emails a buyer got.

    with Provider(tmp_path / "provider") as provider:
        provider.plan(http.lost_answer(), http.rate_limited(2))  # then all are accepted
        ...  # send to provider.url with provider.api_key
        assert provider.accepted() == {key: 1}

`http` and `smtp` have the faults; `Provider` speaks Resend's API, `MailServer` SMTP.
"""

from . import http, smtp
from .faults import ACCEPT, Fault
from .http import Provider
from .ledger import Call
from .smtp import MailServer

__all__ = ["ACCEPT", "Call", "Fault", "MailServer", "Provider", "http", "smtp"]
