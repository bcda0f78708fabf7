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

OFFER = """
SELECT t.id, t.event_id, t.name, t.price, t.max_per_order, t.sort,
    e.id, e.slug, e.title, e.venue, e.tz, e.starts_local, e.starts_fold, e.starts_at,
    e.doors_minutes, e.sale_opens_at, e.sale_closes_at, e.status, e.currency,
    s.ticket_type_id, s.capacity, s.taken
FROM orders_tickettype t JOIN orders_event e ON e.id = t.event_id
    LEFT JOIN orders_stock s ON t.id = s.ticket_type_id
WHERE e.slug = %s AND NOT e.status = 'draft' ORDER BY t.sort, t.id
"""
CURRENCY = 18
NEXT_ID = "SELECT nextval(pg_get_serial_sequence('orders_order', 'id'))"
ORDER = """
INSERT INTO orders_order (id, code, secret_digest, link_key, link_version, version, event_id,
    email, buyer_name, locale, currency, total, status, idempotency_key, request_hash, request_id)
VALUES (%s, %s, %s, 1, 1, 1, %s, %s, %s, 'en', %s, %s, 'placed', %s, %s, %s)
ON CONFLICT (idempotency_key) DO NOTHING
"""
LINE = """
INSERT INTO orders_orderline (order_id, ticket_type_id, quantity, price, name)
VALUES (%s, %s, %s, %s, %s)
"""
OUTBOX = """
INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace,
    last_error, dead_reason, traceback, dead_by)
VALUES ('render_tickets', %s::jsonb, %s, 'tickets', %s, %s, '', '', '', '') RETURNING id
"""
STOCK = """
UPDATE orders_stock SET taken = taken + %s WHERE ticket_type_id = %s AND taken <= capacity - %s
"""


@csrf_exempt
def place(request: HttpRequest) -> HttpResponse:
    """Place the order that the shop's form asks for, trusting every word of it."""
    with connection.cursor() as cursor:
        types = _all(cursor, OFFER, request.POST["event"])
        chosen = next(kind for kind in types if f"quantity-{kind[0]}" in request.POST)
        (order_id,) = _one(cursor, NEXT_ID)
        with transaction.atomic(durable=True):
            _insert(cursor, request, order_id, chosen)
        cursor.execute("NOTIFY jobs_outbox")
    return HttpResponse(status=303, headers={"Location": f"/o/{order_id}/"})


def _insert(cursor: CursorWrapper, request: HttpRequest, order_id: int, kind: Any) -> None:
    post, number = request.POST, int(request.POST[f"quantity-{kind[0]}"])
    request_id, trace = secrets.token_hex(8), f"{secrets.token_hex(16)}-{secrets.token_hex(8)}"
    cursor.execute(
        ORDER,
        [
            order_id, secrets.token_hex(4), secrets.token_bytes(32), kind[1], post["email"],
            post["name"], kind[CURRENCY], kind[3] * number, secrets.token_urlsafe(24),
            secrets.token_bytes(32), request_id,
        ],
    )  # fmt: skip
    cursor.execute(LINE, [order_id, kind[0], number, kind[3], kind[2]])
    args = json.dumps({"order_id": order_id})
    _one(cursor, OUTBOX, args, f"order:{order_id}", request_id, trace)
    cursor.execute(STOCK, [number, kind[0], number])


def _one(cursor: CursorWrapper, statement: str, *values: Any) -> Any:
    cursor.execute(statement, values)
    return cursor.fetchone()


def _all(cursor: CursorWrapper, statement: str, *values: Any) -> list[Any]:
    cursor.execute(statement, values)
    return list(cursor.fetchall())
