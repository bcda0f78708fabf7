"""Owns the ticket page: the texts of a ticket, in; the HTML of all pages of an order, out.

Whoever fills in a `Paper` has formatted its money and times already; nothing here looks at a clock,
so the same paper gives the same page.
"""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from tickets.qr import qr_svg
from tickets.tokens import grouped

TEMPLATE_REVISION: Final[int] = 1
"""Raised with every change that changes a page: part of the key of a stored file."""

ROOMY: Final = 44
"""Columns that fit two lines in the large size, measured with average Latin letters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """One ticket of an order: who may enter, as what, and the secret that lets them."""

    seq: int
    token: str
    holder: str
    type_name: str
    price: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Paper:
    """All texts of an order's file, already formatted in the event's zone and the buyer's language.

    `doors` and `zone` may be empty; `language` is a BCP 47 tag; `issued_at` is the file's date.
    """

    event_title: str
    venue: str
    starts: str
    doors: str
    zone: str
    order_code: str
    seller: str
    language: str
    issued_at: datetime
    admissions: tuple[Admission, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """An admission with what the template cannot work out: its symbol, its code, its size."""

    admission: Admission
    number: int
    symbol: SafeString
    code: str
    size: str


def ticket_html(paper: Paper) -> str:
    """Return one A6 page per admission, in their order, as a complete HTML document.

    Raises ValueError for a paper without admissions, a token that is none, or an `issued_at`
    without a zone (its date would depend on the machine).
    """
    if not paper.admissions:
        raise ValueError("A paper needs an admission.")
    cards = [_card(number, one) for number, one in enumerate(paper.admissions, start=1)]
    context = {
        "paper": paper,
        "cards": cards,
        "holders": "; ".join(
            f"{card.number}/{len(cards)} {card.admission.holder}" for card in cards
        ),
        "issued": _w3c(paper.issued_at),
    }
    return render_to_string("tickets/ticket.html", context)


def _card(number: int, admission: Admission) -> Card:
    return Card(
        admission=admission,
        number=number,
        symbol=mark_safe(qr_svg(admission.token)),  # noqa: S308 (numbers only, never a text)
        code=grouped(admission.token),
        size="roomy" if _columns(admission.holder) <= ROOMY else "tight",
    )


def _columns(text: str) -> int:
    """Return the width of `text` in columns: two for a wide letter, none for a combining mark."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else unicodedata.combining(letter) == 0
        for letter in text
    )


def _w3c(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError("issued_at needs a time zone.")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
