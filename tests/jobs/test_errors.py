"""Errors as text: short, storable, and without anybody's address."""

import pytest

from jobs.errors import ERROR_LIMIT, TRACEBACK_LIMIT, error_line, storable, traceback_text


class Unspeakable(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "text",
    [
        "refused by <buyer@example.org>: no such user",
        'refused by <"john smith"@example.org>',
        "refused by <o'brien@example.org>",
        "GET /send?to=buyer%40example.org",
        "redis://:buyer@example.org:6379",
        "x" * (ERROR_LIMIT - 3) + "buyer@example.org",
        " " * (ERROR_LIMIT - 3) + "buyer@example.org",
    ],
)
def test_no_address_is_left_of_an_error(text: str) -> None:
    for found in (storable(text), error_line(ValueError(text)), traceback_text(ValueError(text))):
        assert "example" not in found
        for part in ("buyer", "john", "brien"):
            assert part not in found


def test_no_address_is_left_where_a_traceback_is_cut() -> None:
    error = ValueError("buyer@example.org" + "y" * (TRACEBACK_LIMIT - 12))
    assert "buyer" not in traceback_text(error)
    assert "example" not in traceback_text(error)


@pytest.mark.parametrize("text", ["a" * 5_000_000, "é" * 5000, "\0" * 3000, "\ud800" * 3000])
def test_a_text_of_any_kind_is_cut_to_bytes_that_postgresql_takes(text: str) -> None:
    found = error_line(ValueError(text))
    assert len(found.encode()) <= ERROR_LIMIT
    assert "\0" not in found
    assert len(traceback_text(ValueError(text)).encode()) <= TRACEBACK_LIMIT


def test_an_error_that_cannot_tell_its_text_is_named_all_the_same() -> None:
    assert error_line(Unspeakable()).startswith("Unspeakable: ")
    assert "Unspeakable" in traceback_text(Unspeakable())
