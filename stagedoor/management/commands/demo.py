"""`manage.py demo`: three events and a staff user, once, for a first look at the product."""

import secrets
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from orders.models import Event, EventStatus, Stock, TicketType
from orders.wallclock import instant

EVENTS = (
    (
        "midsummer", "A Midsummer Night’s Dream", "Globe on the Wharf, London", "Europe/London",
        "GBP", 21, "19:30", (("Stalls", 4250, 300), ("Gallery", 2800, 150), ("Standing", 1000, 80)),
    ),
    (
        "nachtkonzert", "Nachtkonzert: Bach bei Kerzenlicht", "Kammersaal, Berlin", "Europe/Berlin",
        "EUR", 35, "21:00", (("Parkett", 3900, 220), ("Empore", 2400, 90)),
    ),
    (
        "blue-hour", "The Blue Hour Quartet", "Basement 9, New York", "America/New_York",
        "USD", 12, "20:00", (("Table seat", 5500, 60), ("Bar", 3500, 9)),
    ),
)  # fmt: skip
"""Slug, title, venue, zone, currency, days from now, start, (type, price, capacity)s."""


class Command(BaseCommand):
    help = "Load three demo events and a staff user, once. For a look at the product only."

    def handle(self, *args: Any, **options: Any) -> None:
        if Event.objects.exists() or User.objects.exists():
            return
        with transaction.atomic():
            for row in EVENTS:
                _make_event(*row)
            password = secrets.token_urlsafe(12)
            User.objects.create_superuser("staff", "", password)
        self.stdout.write(f"Demo staff user for /admin/: staff, password {password} (shown once)")


def _make_event(
    slug: str, title: str, venue: str, tz: str, currency: str, days: int, clock: str,
    types: tuple[tuple[str, int, int], ...],
) -> None:  # fmt: skip
    now = timezone.now()
    date = (now.astimezone(ZoneInfo(tz)) + timedelta(days=days)).date()
    local = datetime.combine(date, datetime.strptime(clock, "%H:%M").time())  # noqa: DTZ007
    starts_at = instant(local, tz)
    event = Event.objects.create(
        slug=slug, title=title, venue=venue, tz=tz, currency=currency, starts_local=local,
        starts_at=starts_at, sale_opens_at=now, sale_closes_at=starts_at - timedelta(hours=1),
        refunds_until=starts_at - timedelta(days=2), status=EventStatus.ON_SALE,
    )  # fmt: skip
    for sort, (name, price, capacity) in enumerate(types):
        kind = TicketType.objects.create(event=event, name=name, price=price, sort=sort)
        Stock.objects.create(ticket_type=kind, capacity=capacity)
