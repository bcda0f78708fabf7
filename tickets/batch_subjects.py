"""What goes through the orders of an event, as the subject of jobs: its event, how far it is."""

import re
from collections.abc import Sequence
from functools import partial

from django.urls import reverse

from jobs.subjects import About, Family, register
from orders.models import Announcement

from .models import Reminder

type Batched = Announcement | Reminder
KINDS: dict[str, type[Batched]] = {"announcement": Announcement, "reminder": Reminder}


def describe(prefix: str, subjects: Sequence[str]) -> dict[str, About]:
    """What it is of which event, and how many orders have had their turn."""
    numbers = {subject: number for subject in subjects if (number := _number(prefix, subject))}
    rows = KINDS[prefix]._default_manager.filter(pk__in=numbers.values())
    found: dict[int, Batched] = {one.pk: one for one in rows.select_related("event")}
    return {
        subject: _about(found[number]) for subject, number in numbers.items() if number in found
    }


def _number(prefix: str, subject: str) -> int | None:
    found = re.fullmatch(rf"{prefix}:([1-9][0-9]{{0,17}})", subject)
    return int(found[1]) if found else None


def _about(batched: Batched) -> About:
    what = batched.kind if isinstance(batched, Announcement) else "reminder"
    return About(
        f"{batched.event} {what}",
        reverse("admin:orders_event_change", args=[batched.event_id]),
        f"{batched.told} of {batched.total} orders",
        "orders.view_event",
    )


def find(text: str) -> list[str]:
    """None: nobody searches for them by a text."""
    return []


def register_batches() -> None:
    """Let the pages of jobs show them."""
    for prefix in KINDS:
        register(Family(prefix=prefix, find=find, describe=partial(describe, prefix)))
