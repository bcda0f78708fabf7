"""Whether places taken, admissions sold and valid tickets agree; mends nothing."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from orders.audit import REFUNDED

from .models import StockCheck

COUNT = f"""
SELECT type.id, type.name, event.title, coalesce(taken, 0), coalesce(sold, 0),
    coalesce(valid, 0), coalesce(waiting, 0)
FROM orders_tickettype AS type
JOIN orders_event AS event ON event.id = type.event_id
LEFT JOIN orders_stock AS stock ON stock.ticket_type_id = type.id
LEFT JOIN (
    SELECT ticket_type_id, sum(number) AS sold,
        sum(number) FILTER (WHERE being_made) AS waiting
    FROM (
        SELECT order_id, ticket_type_id, quantity AS number FROM orders_orderline
        UNION ALL SELECT order_id, ticket_type_id, -1 FROM ({REFUNDED}) AS refunded
    ) AS holds JOIN (
        SELECT id, NOT EXISTS (
            SELECT FROM tickets_ticket WHERE order_id = bought.id AND status = 'valid'
        ) AND EXISTS (
            SELECT FROM jobs_outbox
            WHERE subject = 'order:' || bought.id AND kind = 'render_tickets'
        ) AS being_made
        FROM orders_order AS bought WHERE status = 'placed'
    ) AS placed ON placed.id = order_id
    GROUP BY ticket_type_id
) AS sale ON sale.ticket_type_id = type.id
LEFT JOIN (
    SELECT ticket_type_id, count(*) AS valid FROM tickets_ticket WHERE status = 'valid' GROUP BY 1
) AS ticket ON ticket.ticket_type_id = type.id
WHERE coalesce(taken, 0) <> coalesce(sold, 0)
    OR coalesce(sold, 0) <> coalesce(valid, 0) + coalesce(waiting, 0)
ORDER BY type.id
"""  # noqa: S608 (a constant)
"""One statement, one moment: what is sold in between is in all of its counts or in none."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A ticket type whose counts differ. `waiting`: of the sold, those whose tickets have a job
    that is not done."""

    type_id: int
    type_name: str
    event: str
    taken: int
    sold: int
    valid: int
    waiting: int

    def __str__(self) -> str:
        made = f", {self.waiting} being made" if self.waiting else ""
        return (
            f"{self.type_name} ({self.event}): {self.taken} places taken, {self.sold} sold, "
            f"{self.valid} valid tickets{made}"
        )


def differences() -> list[Difference]:
    """The ticket types whose counts differ now."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT)
        return [Difference(*row) for row in cursor.fetchall()]


def note(found: Sequence[Difference], outbox_id: int) -> None:
    """Inside `effects()`: what was found, for staff and for the series."""
    StockCheck.objects.create(
        places=sum(abs(one.taken - one.sold) for one in found),
        tickets=sum(abs(one.sold - one.valid - one.waiting) for one in found),
        found=[_kept(one) for one in found],
        outbox_id=outbox_id,
    )


def _kept(one: Difference) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "words": str(one)}
