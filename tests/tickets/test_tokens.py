"""Tokens: unguessable, unmistakable, and what a QR symbol is drawn from."""

import pytest

from tickets.qr import qr_svg
from tickets.tokens import ALPHABET, grouped, is_token, new_token


def test_a_token_is_26_letters_of_an_alphabet_without_look_alikes() -> None:
    token = new_token()
    assert len(token) == 26
    assert set(token) <= set(ALPHABET)
    assert len(ALPHABET) == 32
    assert not set(ALPHABET) & set("ILOU")


def test_all_130_bits_are_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def all_ones(bits: int) -> int:
        asked.append(bits)
        return (1 << bits) - 1

    monkeypatch.setattr("secrets.randbits", all_ones)
    assert new_token() == "Z" * 26
    assert asked == [130]


def test_a_thousand_tokens_are_a_thousand_different_ones() -> None:
    assert len({new_token() for _ in range(1_000)}) == 1_000


def test_people_read_a_token_in_groups_of_four() -> None:
    assert grouped("0123456789ABCDEFGHJKMNPQRS") == "0123 4567 89AB CDEF GHJK MNPQ RS"


def test_what_is_not_a_token_gets_no_symbol() -> None:
    for text in ("", "A" * 25, "A" * 27, "a" * 26, "L" * 26, '"><script>' + "A" * 16):
        assert not is_token(text)
        with pytest.raises(ValueError, match="token"):
            qr_svg(text)


def test_a_symbol_is_one_black_path_in_25_modules_and_a_quiet_zone_of_4() -> None:
    svg = qr_svg("0123456789ABCDEFGHJKMNPQRS")
    assert 'viewBox="0 0 33 33"' in svg
    assert svg.count("<path") == 1
    assert 'shape-rendering="crispEdges"' in svg
    assert 'd="M4 4' in svg
    assert "NaN" not in svg
    assert svg == qr_svg("0123456789ABCDEFGHJKMNPQRS")
