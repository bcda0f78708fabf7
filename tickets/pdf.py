"""Owns the step from HTML to PDF bytes; runs in a pool process that has neither Django nor network.

The same HTML gives the same bytes in every process and on every day, as long as WeasyPrint, Pango
and HarfBuzz stay the same.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import Any, Final, Never, override
from urllib.request import OpenerDirector

# Before the first import of WeasyPrint, which reads it: without it the machine's own fonts are
# used, and the same ticket has other bytes on the next machine.
os.environ["FONTCONFIG_FILE"] = str(Path(__file__).parent / "fonts" / "fonts.conf")

from weasyprint import CSS, HTML
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import FatalURLFetchingError, URLFetcher

from .rendering import Rendered, RenderRefused

# Never resolved. Without a base, WeasyPrint drops a relative address in silence; with one, it
# comes to the fetcher and is refused aloud.
BASE_URL: Final = "https://tickets.invalid/"

WARM_UP: Final = "<!doctype html><title>warm</title><svg viewBox='0 0 1 1'></svg><p>0<b>0</b>"


class SealedFetcher(URLFetcher):  # type: ignore[misc]
    """Refuses every address: network, file and data alike."""

    def __init__(self) -> None:
        # URLFetcher's own constructor loads the system's certificates, about 29 ms, and installs
        # handlers for http, ftp and file.
        OpenerDirector.__init__(self)

    @override
    def fetch(self, url: str, headers: dict[str, str] | None = None) -> Never:
        """Raise FatalURLFetchingError, the only error that WeasyPrint does not turn into a gap."""
        raise FatalURLFetchingError(f"A ticket asks for {url[:200]!r}.")


class LossWatch(logging.Handler):
    """Collects what WeasyPrint could not draw and would leave out, in this thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.losses: list[str] = []
        self._thread = get_ident()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of `record`, if it comes from the thread that renders."""
        if get_ident() == self._thread:
            self.losses.append(record.getMessage())


def render_pdf(html: str) -> Rendered:
    """Return the PDF of `html`, and what could not be drawn.

    Raises RenderRefused when the page asks for a resource, whatever its address, or when an image,
    such as the QR symbol, could not be drawn.
    """
    try:
        with _nothing_lost():
            return _render(html)
    except FatalURLFetchingError as refusal:
        # It is a BaseException: left alone it would pass every `except Exception` and end the
        # pool process.
        raise RenderRefused(str(refusal)) from None


def warm_up() -> None:
    """Render a tiny page, so that the first buyer does not wait 100 ms for caches to fill."""
    render_pdf(WARM_UP)


def _render(html: str) -> Rendered:
    document = HTML(string=html, base_url=BASE_URL, url_fetcher=_fetcher()).render(
        font_config=_fonts(), stylesheets=[_style()]
    )
    # Without the identifier, which is the hash of the content, there is no /ID in the file.
    pdf = document.write_pdf(pdf_identifier=True)
    return Rendered(pdf=pdf, missing=_missing(document))


@contextmanager
def _nothing_lost() -> Iterator[None]:
    """Raise RenderRefused at the end if a part of the page was left out.

    WeasyPrint swallows every error in an SVG, even MemoryError and our refusal, logs it and goes
    on: a ticket without its symbol would be mailed.
    """
    watch, logger = LossWatch(), logging.getLogger("weasyprint")
    logger.disabled = False  # A logging set-up disables the loggers that it does not name.
    logger.addHandler(watch)
    try:
        yield
    finally:
        logger.removeHandler(watch)
    if watch.losses:
        raise RenderRefused("; ".join(watch.losses)[:500])


def _missing(document: Any) -> tuple[int, ...]:
    """Return the code points without a glyph, known only once the PDF has been written."""
    return tuple(sorted({code for font in document.fonts.values() for code in font.missing}))


@cache
def _fonts() -> FontConfiguration:
    return FontConfiguration()


@cache
def _style() -> CSS:
    source = (Path(__file__).parent / "ticket.css").read_text(encoding="utf-8")
    return CSS(string=source, font_config=_fonts(), url_fetcher=_fetcher(), base_url=BASE_URL)


@cache
def _fetcher() -> SealedFetcher:
    return SealedFetcher()
