"""`POST /orders/` as a bare view: the shop's SQL statements, and nothing else of the shop.

No form, no checks, no ids, no log line; the rows that it leaves behind are the same.
"""

import json
import secrets
from typing import Any

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

EVENT = """
SELECT id, slug, title, venue, tz, starts_local, starts_fold, starts_at, doors_minutes,
    sale_opens_at, sale_closes_at, status, currency
FROM orders_event WHERE NOT status = 'draft' AND slug = %s ORDER BY starts_at LIMIT 1
"""
TYPES = """
SELECT t.id, t.event_id, t.name, t.price, t.max_per_order, t.sort,
    s.ticket_type_id, s.capacity, s.taken
FROM orders_tickettype t LEFT JOIN orders_stock s ON t.id = s.ticket_type_id
WHERE t.event_id = %s ORDER BY t.sort, t.id
"""
CHOSEN = TYPES.replace("ORDER BY", "AND t.id IN (%s) ORDER BY")
NEXT_ID = "SELECT nextval(pg_get_serial_sequence('orders_order', 'id'))"
ORDER = """
INSERT INTO orders_order (id, code, secret_digest, link_key, link_version, version, event_id,
    email, buyer_name, locale, currency, total, status, idempotency_key, request_hash, request_id)
VALUES (%s, %s, %s, 1, 1, 1, %s, %s, %s, 'en', %s, %s, 'placed', %s, %s, %s)
ON CONFLICT (idempotency_key) DO NOTHING
"""
LINE = """
INSERT INTO orders_orderline (order_id, ticket_type_id, quantity, price, name)
VALUES (%s, %s, %s, %s, %s) RETURNING id
"""
OUTBOX = """
INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, created_at, due_at,
    available_at, attempts, starts, last_error, dead_reason, traceback, dead_by)
VALUES ('render_tickets', %s::jsonb, %s, 'tickets', %s, %s, statement_timestamp(),
    statement_timestamp(), statement_timestamp(), 0, 0, '', '', '', '') RETURNING id
"""
STOCK = """
UPDATE orders_stock SET taken = taken + %s WHERE ticket_type_id = %s AND taken <= capacity - %s
"""


@csrf_exempt
def place(request: HttpRequest) -> HttpResponse:
    """Place the order that the shop's form asks for, trusting every word of it."""
    with connection.cursor() as cursor:
        event = _one(cursor, EVENT, request.POST["event"])
        types = _all(cursor, TYPES, event[0])
        wanted = next(kind for kind in types if f"quantity-{kind[0]}" in request.POST)
        chosen = _one(cursor, CHOSEN, event[0], wanted[0])
        (order_id,) = _one(cursor, NEXT_ID)
        with transaction.atomic(durable=True):
            _insert(cursor, request, order_id, event, chosen)
        cursor.execute("NOTIFY jobs_outbox")
    return HttpResponse(status=303, headers={"Location": f"/o/{order_id}/"})


def _insert(
    cursor: CursorWrapper, request: HttpRequest, order_id: int, event: Any, kind: Any
) -> None:
    post, number = request.POST, int(request.POST[f"quantity-{kind[0]}"])
    request_id, trace = secrets.token_hex(8), f"{secrets.token_hex(16)}-{secrets.token_hex(8)}"
    cursor.execute(
        ORDER,
        [
            order_id, secrets.token_hex(4), secrets.token_bytes(32), event[0], post["email"],
            post["name"], event[12], kind[3] * number, secrets.token_urlsafe(24),
            secrets.token_bytes(32), request_id,
        ],
    )  # fmt: skip
    _one(cursor, LINE, order_id, kind[0], number, kind[3], kind[2])
    args = json.dumps({"order_id": order_id})
    _one(cursor, OUTBOX, args, f"order:{order_id}", request_id, trace)
    cursor.execute(STOCK, [number, kind[0], number])


def _one(cursor: CursorWrapper, statement: str, *values: Any) -> Any:
    cursor.execute(statement, values)
    return cursor.fetchone()


def _all(cursor: CursorWrapper, statement: str, *values: Any) -> list[Any]:
    cursor.execute(statement, values)
    return list(cursor.fetchall())
