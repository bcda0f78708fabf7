"""Orders as the subjects of jobs: found by their code, described in a few words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Max, Q
from django.urls import reverse

from jobs.subjects import About, Family, register
from orders.models import Order
from orders.services import CODE_ALPHABET

from .models import WITH_TICKETS, Delivery, DeliveryState, TicketFile, TicketStatus
from .times import clock

PREFIX = "order"
CODE_LENGTH = 8


def code_in(text: str) -> str | None:
    """The order code that `text` is, however it was typed: `abcd-2345`, `ABCD 2345`."""
    code = re.sub(r"[\s\-‐-―_.]", "", text).upper()
    return code if len(code) == CODE_LENGTH and set(code) <= set(CODE_ALPHABET) else None


def subject_of(order_id: int) -> str:
    """What jobs about the order carry."""
    return f"{PREFIX}:{order_id}"


def find(text: str) -> list[str]:
    """The order of that code."""
    code = code_in(text)
    found = Order.objects.filter(code=code).values_list("pk", flat=True) if code else []
    return [subject_of(pk) for pk in found]


def describe(subjects: Sequence[str]) -> dict[str, About]:
    """Code, admin page and present state of those orders that exist."""
    numbers = {subject: number for subject in subjects if (number := _number(subject))}
    facts = _facts(numbers.values())
    return {
        subject: About(
            facts[number].code,
            reverse("admin:orders_order_change", args=[number]),
            facts[number].in_words(),
            "orders.view_order",
        )
        for subject, number in numbers.items()
        if number in facts
    }


def _number(subject: str) -> int | None:
    found = re.fullmatch(rf"{PREFIX}:([1-9][0-9]{{0,17}})", subject)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class _Facts:
    code: str
    status: str
    tickets: int
    file: bool
    sent_at: datetime | None

    def in_words(self) -> str:
        number = f"{self.tickets} ticket{'' if self.tickets == 1 else 's'}"
        told = [self.status, number if self.tickets else "no tickets"]
        told += ["file ready"] if self.file else []
        told += [f"email sent {clock(self.sent_at)}"] if self.sent_at else []
        return ", ".join(told)


def _facts(numbers: Iterable[int]) -> Mapping[int, _Facts]:
    orders = Order.objects.filter(pk__in=list(numbers))
    valid = Q(tickets__status=TicketStatus.VALID)
    counted = list(orders.annotate(number=Count("tickets", filter=valid)))
    with_file = _with_file(counted)
    sent = _sent(counted)
    return {
        order.pk: _Facts(
            order.code, order.status, order.number, order.pk in with_file, sent.get(order.pk)
        )
        for order in counted
    }


def _with_file(orders: Iterable[Order]) -> set[int]:
    living = TicketFile.objects.filter(order__in=orders, deleted_at=None)
    current = living.filter(order_version=F("order__version"))
    return set(current.values_list("order_id", flat=True))


def _sent(orders: Iterable[Order]) -> dict[int, datetime]:
    sent = Delivery.objects.filter(
        order__in=orders, kind__in=WITH_TICKETS, state=DeliveryState.SENT
    )
    return dict(sent.values_list("order_id").annotate(last=Max("settled_at")))


def register_orders() -> None:
    """Let the pages of jobs show orders."""
    register(Family(prefix=PREFIX, find=find, describe=describe))
