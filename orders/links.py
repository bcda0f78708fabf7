"""The secret link of an order: derived, never stored; looked up by its digest (selling.md §4)."""

import base64
import hashlib
import hmac

from django.conf import settings

SECRET_LENGTH = 26
"""Letters of base32, five bits each: the first 130 bits of the HMAC."""


def newest_key() -> int:
    """The id of the key that signs new links."""
    return max(settings.LINK_KEYS)


def secret_of(order_id: int, link_key: int, link_version: int) -> str:
    """The secret of the order's link. Raises KeyError where its key was taken out of LINK_KEYS."""
    message = f"{order_id}:{link_version}".encode()
    digest = hmac.digest(settings.LINK_KEYS[link_key], message, hashlib.sha256)
    return base64.b32encode(digest).decode()[:SECRET_LENGTH]


def digest_of(secret: str) -> bytes:
    """What is stored and looked up: links already mailed survive a change of key."""
    return hashlib.sha256(secret.encode()).digest()
