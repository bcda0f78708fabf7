"""Bare WeasyPrint in processes of its own: as its documentation shows it, and at its best."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Never, override
from urllib.request import OpenerDirector

TICKETS = Path(__file__).resolve().parent.parent / "tickets"


def pool(processes: int) -> Pool:
    """`processes` processes with WeasyPrint loaded and the tickets' fonts, as the product has."""
    return multiprocessing.get_context("spawn").Pool(processes, initializer=_load)


def render_all(workers: Pool, render: Callable[[str], bytes], pages: Sequence[str]) -> list[bytes]:
    """Every page rendered by the next free process."""
    return workers.map(render, pages, chunksize=1)


def _load() -> None:
    # Before the first import: the fonts decide what a render costs, so they have to be the same.
    os.environ["FONTCONFIG_FILE"] = str(TICKETS / "fonts" / "fonts.conf")
    import weasyprint  # noqa: F401


@cache
def _css() -> str:
    return (TICKETS / "ticket.css").read_text(encoding="utf-8")


def by_the_book(page: str) -> bytes:
    """A render as WeasyPrint's first steps teach it."""
    from weasyprint import CSS, HTML
    from weasyprint.text.fonts import FontConfiguration

    fonts = FontConfiguration()
    style = CSS(string=_css(), font_config=fonts)
    return bytes(HTML(string=page).write_pdf(stylesheets=[style], font_config=fonts))


def at_its_best(page: str) -> bytes:
    """A render with fonts, stylesheet and a fetcher without network kept for all pages."""
    from weasyprint import HTML

    fetcher, fonts, style = _kept()
    html = HTML(string=page, base_url="https://tickets.invalid/", url_fetcher=fetcher)
    return bytes(html.write_pdf(stylesheets=[style], font_config=fonts, pdf_identifier=True))


@cache
def _kept() -> tuple[Any, Any, Any]:
    from weasyprint import CSS
    from weasyprint.text.fonts import FontConfiguration
    from weasyprint.urls import URLFetcher

    class ClosedFetcher(URLFetcher):  # type: ignore[misc]
        def __init__(self) -> None:
            OpenerDirector.__init__(self)  # without the system's certificates, 29 ms each time

        @override
        def fetch(self, url: str, headers: dict[str, str] | None = None) -> Never:
            raise ValueError(url)

    fetcher, fonts = ClosedFetcher(), FontConfiguration()
    style = CSS(string=_css(), font_config=fonts, url_fetcher=fetcher)
    return fetcher, fonts, style
