"""The standing people of the tests: an event on sale, a buyer, the box office, a stranger."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import factory
from django.contrib.auth.models import Group, User
from django.utils import timezone

from orders.models import Event, EventStatus, Stock, TicketType
from orders.services import PlacedOrder, Wish, place_order
from orders.wallclock import instant


class EventFactory(factory.django.DjangoModelFactory):
    """An event on sale in Berlin in 30 days."""

    class Meta:
        model = Event

    slug = factory.Sequence(lambda n: f"event-{n}")
    title = "Nachtkonzert"
    venue = "Kammersaal"
    tz = "Europe/Berlin"
    starts_local = factory.LazyFunction(
        lambda: (datetime.now(UTC).replace(tzinfo=None) + timedelta(days=30)).replace(
            hour=20, minute=0, second=0, microsecond=0
        )
    )
    starts_at = factory.LazyAttribute(lambda event: instant(event.starts_local, event.tz))
    sale_opens_at = factory.LazyFunction(lambda: timezone.now() - timedelta(hours=1))
    sale_closes_at = factory.LazyAttribute(lambda event: event.starts_at - timedelta(hours=1))
    status = EventStatus.ON_SALE
    currency = "EUR"


class TicketTypeFactory(factory.django.DjangoModelFactory):
    """A ticket type of 42.50 with 100 places."""

    class Meta:
        model = TicketType
        skip_postgeneration_save = True  # the capacity changes nothing of it

    event = factory.SubFactory(EventFactory)
    name = factory.Sequence(lambda n: f"Seat {n}")
    price = 4250

    @factory.post_generation
    def capacity(self: TicketType, create: bool, places: int | None, **_: Any) -> None:
        Stock.objects.create(ticket_type=self, capacity=100 if places is None else places)


def new_event(**changes: Any) -> Event:
    """An event on sale, with these columns changed."""
    return cast(Event, EventFactory.create(**changes))


def new_type(capacity: int = 100, **changes: Any) -> TicketType:
    """A ticket type of an event on sale."""
    return cast(TicketType, TicketTypeFactory.create(capacity=capacity, **changes))


def wish(kind: TicketType, number: int = 1, **changes: Any) -> Wish:
    """What a buyer asks for, under a key of its own."""
    content: dict[str, Any] = {
        "event": kind.event,
        "quantities": {kind.pk: number},
        "email": "buyer@example.org",
        "buyer_name": "Ada Lovelace",
        "order_key": secrets.token_hex(16),
    }
    return Wish(**{**content, **changes})


def buy(kind: TicketType, number: int = 1, **changes: Any) -> PlacedOrder:
    """A placed order."""
    return place_order(wish(kind, number, **changes))


def box_office(name: str = "boxoffice") -> User:
    """A member of the box office."""
    user = User.objects.create_user(name, password="x", is_staff=True)
    user.groups.add(Group.objects.get(name="box office"))
    return user


def stranger() -> User:
    """Staff without any permission."""
    return User.objects.create_user("stranger", password="x", is_staff=True)
