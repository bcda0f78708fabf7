"""Announcements as the subjects of jobs: named by their event, with how far they have come."""

import re
from collections.abc import Sequence

from django.urls import reverse

from jobs.subjects import About, Family, register
from orders.models import Announcement

PREFIX = "announcement"


def describe(subjects: Sequence[str]) -> dict[str, About]:
    """What was announced of which event, and how many orders have had their turn."""
    numbers = {subject: number for subject in subjects if (number := _number(subject))}
    found = Announcement.objects.select_related("event").in_bulk(list(numbers.values()))
    return {
        subject: _about(found[number]) for subject, number in numbers.items() if number in found
    }


def _number(subject: str) -> int | None:
    found = re.fullmatch(rf"{PREFIX}:([1-9][0-9]{{0,17}})", subject)
    return int(found[1]) if found else None


def _about(announcement: Announcement) -> About:
    return About(
        f"{announcement.event} {announcement.kind}",
        reverse("admin:orders_event_change", args=[announcement.event_id]),
        f"{announcement.told} of {announcement.total} orders",
        "orders.view_event",
    )


def find(text: str) -> list[str]:
    """None: nobody searches for them by a text."""
    return []


def register_announcements() -> None:
    """Let the pages of jobs show announcements."""
    register(Family(prefix=PREFIX, find=find, describe=describe))
