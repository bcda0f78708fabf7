"""Owns the ticket token: how it is drawn and how people read it aloud."""

import secrets
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base32: no I, L, O or U, so no two letters are taken for each other."""

TOKEN_LENGTH: Final = 26
"""Letters of a token: 26 × 5 bits = 130, above the 128 that ASVS 5.0 (11.5.1) asks of a secret."""

GROUP: Final = 4
"""Letters in a group of the printed code, as many as a person keeps in mind at once."""


def new_token() -> str:
    """Return a fresh secret of 130 random bits as 26 upper-case letters of `ALPHABET`."""
    bits = secrets.randbits(TOKEN_LENGTH * 5)
    return "".join(ALPHABET[bits >> 5 * place & 31] for place in range(TOKEN_LENGTH))


def grouped(token: str) -> str:
    """Return `token` in groups of four letters parted by spaces, the code for people."""
    return " ".join(token[start : start + GROUP] for start in range(0, len(token), GROUP))


def is_token(text: str) -> bool:
    """Return whether `text` has the form of a token; says nothing about whether it was sold."""
    return len(text) == TOKEN_LENGTH and all(letter in ALPHABET for letter in text)


LOOKALIKES: Final = str.maketrans("ILO", "110")


def meant(text: str) -> str:
    """Return `text` with the letters that no token has as the digits they were taken for."""
    return text.translate(LOOKALIKES)
