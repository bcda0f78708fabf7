"""How long a buyer still waits, in words that a buyer can use. Pure."""

import math

SOON, MINUTE, LONGEST = 15.0, 60.0, 5_400.0
"""Seconds; beyond the last one a promise would be no help."""
WAITS = {
    "placed": ("render_tickets", "Your tickets will be ready"),
    "ready": ("email_tickets", "The email goes out"),
}
"""By an order's state: the kind that ends it, and what a buyer calls that."""


def sentence(state: str, seconds: float | None) -> str:
    """`Your tickets will be ready in about 3 minutes.`; empty where nothing can be said."""
    if seconds is None or seconds > LONGEST:
        return ""
    return f"{WAITS[state][1]} {_when(seconds)}."


def _when(seconds: float) -> str:
    if seconds <= SOON:
        return "in a few seconds"
    if seconds <= MINUTE:
        return "within a minute"
    return f"in about {math.ceil(seconds / MINUTE)} minutes"
