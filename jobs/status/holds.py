"""Holds of kinds in words."""

from datetime import UTC, datetime

from django.utils import timezone

from .books import HoldSeen

SHOWN = 200
"""Characters kept of a reason: an error may be a page."""


def hold_line(hold: HoldSeen) -> str:
    """`held email_tickets until 20:13:05 UTC by the breaker, 3rd time: ConnectionRefusedError: …`

    A hold that probes says so in the place of its end.
    """
    by = "the breaker" if hold.by_breaker else one_line(hold.by)
    until = "" if hold.probing else f" until {clock(hold.until)}"
    times = f", {_ordinal(hold.times)} time" if hold.times > 1 else ""
    probing = ", tries one job at a time" if hold.probing else ""
    return f"held {hold.kind}{until} by {by}{times}{probing}: {one_line(hold.reason)}"


def clock(moment: datetime) -> str:
    """`20:13:05 UTC` of today, with the date before it of any other day."""
    moment = moment.astimezone(UTC)
    day = "" if moment.date() == timezone.now().astimezone(UTC).date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC"


def one_line(text: str) -> str:
    """Any text as a terminal may show it: an error holds whatever a server answered."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
