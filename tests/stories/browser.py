"""A buyer's browser on the product's real web part."""

import http.cookiejar
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Browser:
    """A buyer's browser: keeps cookies, follows redirects, sends forms."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def get(self, path: str) -> tuple[str, bytes]:
        """The address where it ended, and the body."""
        with self.opener.open(urllib.parse.urljoin(self.base, path)) as answer:
            return answer.url, answer.read()

    def form(self, slug: str, **fields: str) -> bytes:
        """Fill in the order form; what it sends."""
        _, page = self.get(f"/events/{slug}/")
        hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.decode()))
        return urllib.parse.urlencode({**hidden, "event": slug, **fields}).encode()

    def send(self, form: bytes, headers: Mapping[str, str] = NO_HEADERS) -> str:
        """Send the form; the address where it leads."""
        request = urllib.request.Request(f"{self.base}/orders/", form, dict(headers))
        with self.opener.open(request) as answer:
            return str(answer.url)
