"""A buyer who orders over HTTP, as a browser would."""

import http.cookiejar
import json
import re
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass

HIDDEN = re.compile(r'name="(\w+)" value="([^"]*)"')


@dataclass(frozen=True)
class Bought:
    """An order that was answered with success: its page, and the seconds until the answer."""

    page: str
    seconds: float

    @property
    def code(self) -> str:
        """The code of the order, for people."""
        return self.page.rstrip("/").rpartition("/")[2]


class Buyer:
    """Keeps cookies, follows redirects."""

    def __init__(self, base: str, slug: str, ticket_type: int) -> None:
        self._base = base
        self._slug = slug
        self._field = f"quantity-{ticket_type}"
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(cookies)

    def form(self, tickets: int) -> bytes:
        """The order form, filled in."""
        hidden = dict(HIDDEN.findall(self.read(f"{self._base}/events/{self._slug}/")))
        typed = {"name": "Ada Lovelace", "email": "ada@example.org", self._field: str(tickets)}
        return urllib.parse.urlencode({**hidden, **typed}).encode()

    def send(self, form: bytes) -> Bought:
        """Press the button."""
        began = time.monotonic()
        with self._opener.open(f"{self._base}/orders/", form, timeout=30) as answer:
            return Bought(str(answer.url), time.monotonic() - began)

    def order(self, tickets: int = 1) -> Bought:
        """Fill in the form and send it."""
        return self.send(self.form(tickets))

    def state(self, bought: Bought) -> str:
        """What the page of the order says: placed, ready, emailed, delayed, …"""
        return str(json.loads(self.read(f"{bought.page}status/"))["state"])

    def read(self, address: str) -> str:
        """A page of the shop."""
        with self._opener.open(address, timeout=30) as answer:
            return str(answer.read().decode())
