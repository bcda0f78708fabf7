"""Finding orders for staff: by code, email or request id exactly, else by how a name begins."""

import re

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Lower

from orders.models import LastWord, Order, searched

from .subjects import code_in

REQUEST_ID = re.compile(r"(?=.*\d)[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
"""As `jobs.correlation` accepts them; names have no digits, so a search for one asks for no id."""


def search(orders: QuerySet[Order], text: str) -> QuerySet[Order]:
    """Those of `orders` that `text` names; each way but the request id has an index of its own."""
    text = " ".join(text.split())
    exact = _by_code(orders, text)
    if exact is None and "@" in text:
        return orders.alias(low=Lower("email")).filter(low=Lower(Value(text)))
    if exact is None and REQUEST_ID.fullmatch(text):
        exact = orders.filter(request_id=text)
    return exact if exact is not None and exact.exists() else _by_name(orders, text)


def _by_code(orders: QuerySet[Order], text: str) -> QuerySet[Order] | None:
    code = code_in(text)
    return orders.filter(code=code) if code else None


def _by_name(orders: QuerySet[Order], text: str) -> QuerySet[Order]:
    # Lower case by PostgreSQL on both sides: it knows other letters than Python, by its locale.
    begins = searched(Value(text))
    named = orders.alias(name=searched("buyer_name"), last=searched(LastWord("buyer_name")))
    return named.filter(Q(name__startswith=begins) | Q(last__startswith=begins))
