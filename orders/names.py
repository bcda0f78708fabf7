"""Owns what a person may be called: any script, as long as it can be printed and read at a door."""

import unicodedata
from typing import Final

import regex

MAX_GRAPHEMES: Final = 80
"""What a reader counts as letters; fits two lines of a ticket in most scripts."""

MAX_CODE_POINTS: Final = 1_000
"""A family emoji is 7 code points or more, so 80 letters need room; a flood of marks does not."""

_SPACE = regex.compile(r"[\t\r\n\p{Z}]+")
_GRAPHEME = regex.compile(r"\X")
_SURROGATE = regex.compile(r"[\ud800-\udfff]")
_CONTROL = regex.compile(r"[\p{Cc}\p{Noncharacter_Code_Point}]")

# LRE, RLE, PDF, LRO, RLO; LRI, RLI, FSI, PDI. One that is left open turns round the text printed
# after the name. The marks LRM, RLM and ALM cannot, and some names need them.
_DIRECTION = regex.compile(r"[\u202a-\u202e\u2066-\u2069]")

# Zero-width and filler letters only: a ticket that looks as if it had no holder.
_VISIBLE = regex.compile(r"[^\p{Default_Ignorable_Code_Point}\p{Z}\u2800]")


class NameRefused(ValueError):
    """Raised for a name that cannot be printed; its text is shown to the buyer as it is."""


def clean_name(text: str) -> str:
    """Return `text` in NFC, trimmed, each run of spaces, tabs and line ends made one space.

    Joiners (ZWJ, ZWNJ) stay: emoji families and Persian names are spelt with them. Raises
    NameRefused when the name is longer than 80 letters as readers count them, or as `printable`.
    """
    name = printable(text)
    _refuse_long(name)
    return name


def printable(text: str) -> str:
    """Return `text` as `clean_name` does, of any length up to 1,000 code points.

    Raises NameRefused when it is empty or invisible, longer than that, or has a control character,
    NUL, half a surrogate pair, a noncharacter, or one of U+202A to U+202E and U+2066 to U+2069,
    which change the direction of the text around it.
    """
    trimmed = _SPACE.sub(" ", text).strip(" ")
    # Before NFC, whose ordering of combining marks takes quadratic time on a flood of them.
    _refuse_flood(trimmed)
    _refuse_unprintable(trimmed)
    name = unicodedata.normalize("NFC", trimmed)
    _refuse_flood(name)
    return name


def _refuse_flood(name: str) -> None:
    if len(name) > MAX_CODE_POINTS:
        raise NameRefused(f"This name is far too long. Please use at most {MAX_GRAPHEMES} letters.")


def _refuse_unprintable(name: str) -> None:
    if _SURROGATE.search(name):
        raise NameRefused("This name has a broken character. Please delete it and type it again.")
    if not _VISIBLE.search(name):
        raise NameRefused("Please enter a name.")
    if _CONTROL.search(name):
        raise NameRefused(
            "This name has an invisible control character. Please type it rather than paste it."
        )
    if _DIRECTION.search(name):
        raise NameRefused(
            "This name has an invisible character that turns the text around it. "
            "Please type it rather than paste it."
        )


def _refuse_long(name: str) -> None:
    letters = len(_GRAPHEME.findall(name))
    if letters > MAX_GRAPHEMES:
        raise NameRefused(
            f"This name has {letters} letters and a ticket holds {MAX_GRAPHEMES}. Please cut it."
        )
