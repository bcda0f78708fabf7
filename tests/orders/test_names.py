"""Names: every script is welcome, what cannot be printed is refused in words that help."""

import random
import time
import unicodedata

import pytest
import regex

from orders.models import Order
from orders.names import NameRefused, clean_name
from tests.people import buy, new_type
from tickets.search import search

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"


def test_a_name_is_trimmed_and_its_white_space_made_one_space() -> None:
    assert clean_name(" \u00a0Ana\t \u2003María\r\n Ruiz\u3000") == "Ana María Ruiz"


def test_two_spellings_of_one_name_become_the_same() -> None:
    assert clean_name("Zoe\u0308") == clean_name("Zo\u00eb") == "Zo\u00eb"


@pytest.mark.parametrize(
    "name",
    [
        "Maria Sørensen",
        "Nguyễn Thị Ánh",
        "Αλέξανδρος",
        "Їжакевич",
        "محمد عبد الله",
        "שלמה בן דוד",
        "हिन्दी",
        "สมชาย",
        "山田太郎",
        "O'Neil-Smith, Jr.",
        "علی\u200cرضا",
        FAMILY,
        "\u200fאברהם\u200e",
        "Ω 3",
    ],
)
def test_a_name_of_any_script_is_kept_as_it_is(name: str) -> None:
    assert clean_name(name) == name


@pytest.mark.parametrize("letter", ["a", "कि", FAMILY, "e\u0331"])
def test_80_letters_as_a_reader_counts_them_are_enough_and_81_too_many(letter: str) -> None:
    assert len(regex.findall(r"\X", clean_name(letter * 80))) == 80
    with pytest.raises(NameRefused, match="81 letters"):
        clean_name(letter * 81)


def test_a_flood_of_marks_is_refused_at_once() -> None:
    flood = "a" + "\u0301\u0316" * 500_000
    started = time.process_time()
    with pytest.raises(NameRefused, match="too long"):
        clean_name(flood)
    assert time.process_time() - started < 1


def test_a_name_that_grows_in_nfc_is_measured_after_it() -> None:
    with pytest.raises(NameRefused, match="too long"):
        clean_name("\ufb2c" * 400)


@pytest.mark.parametrize("name", ["", "   ", "\t\n", "\u200b", "\u200d\u200c", "\u3164", "\u2800"])
def test_an_empty_or_invisible_name_is_refused(name: str) -> None:
    with pytest.raises(NameRefused, match="enter a name"):
        clean_name(name)


@pytest.mark.parametrize("code", [0x00, 0x01, 0x07, 0x0B, 0x1B, 0x1F, 0x7F, 0x85, 0x9F, 0xFFFE])
def test_a_control_character_is_refused(code: int) -> None:
    with pytest.raises(NameRefused, match="control character"):
        clean_name(f"An{chr(code)}a")


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_what_turns_the_text_around_a_name_is_refused(code: int) -> None:
    with pytest.raises(NameRefused, match="turns the text"):
        clean_name(f"An{chr(code)}a")


@pytest.mark.parametrize("code", [0xD800, 0xDFFF])
def test_half_a_surrogate_pair_is_refused(code: int) -> None:
    with pytest.raises(NameRefused, match="broken character"):
        clean_name(f"An{chr(code)}a")


def test_a_refusal_is_a_value_error_that_tells_how_to_mend_the_name() -> None:
    for name in ("", "a" * 81, "a" * 1_001, "a\x00", "a\u202e", "a\ud800"):
        with pytest.raises(ValueError, match=r"[Pp]lease"):
            clean_name(name)


def longest() -> str:
    """80 letters with all the marks that are allowed, too many kinds of them to be compressed."""
    chance = random.Random(7)
    letters = [chr(point) for point in range(0x900, 0x1F000)]
    marks = [mark for mark in letters if unicodedata.category(mark) == "Mn"]
    marks = [mark for mark in marks if not unicodedata.decomposition(mark)]

    def letter() -> str:
        return chr(chance.randrange(0x20000, 0x2A000)) + "".join(chance.sample(marks, 11))

    return "".join(letter() for _ in range(78)) + " Ω"


@pytest.mark.django_db(transaction=True)
def test_the_longest_name_that_is_accepted_can_be_sold_to_and_found() -> None:
    name = clean_name(longest())
    assert len(name.encode()) > 3000
    order = buy(new_type(), buyer_name=name)
    other = buy(new_type(), buyer_name=name.replace(" Ω", "Ω"))
    for text, expected in ((name, {order.id, other.id}), (name[:40], {order.id, other.id}),
                           ("Ω", {order.id})):  # fmt: skip
        found = search(Order.objects.all(), text)
        assert set(found.values_list("pk", flat=True)) == expected
