"""From HTML to PDF as callers see it; WeasyPrint is loaded only in the process that renders."""

import time
from dataclasses import dataclass


class RenderRefused(Exception):
    """Raised for a page that asks for anything from outside itself; another try is no use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """A finished file, and the code points, in order, for which no bundled font has a glyph."""

    pdf: bytes
    missing: tuple[int, ...]


def render_pdf(html: str) -> Rendered:
    """The PDF of `html`; see `pdf.render_pdf`. Raises RenderRefused."""
    # WeasyPrint costs 1.5 s and 60 MB: web, relay and the worker's own process do without it.
    from .pdf import render_pdf as render

    return render(html)


def render_timed(html: str) -> float:
    """The seconds of one core that the PDF of `html` takes in this process."""
    began = time.process_time()
    render_pdf(html)
    return time.process_time() - began
