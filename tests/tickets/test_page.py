"""The ticket page: one page a ticket, readable at the door, whatever the buyer is called."""

import hashlib
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pypdfium2
import pytest
import zxingcpp
from pypdf import PdfReader

from tickets.page import Admission, Paper, ticket_html
from tickets.pdf import render_pdf
from tickets.rendering import Rendered
from tickets.tokens import grouped, new_token

ROOT = Path(__file__).parents[2]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"

NAMES_OF_80_LETTERS = {
    "latin": "Ærøskøbing Þórður Łukasz " * 3 + "Ægir ",
    "wide": "W" * 80,
    "greek": "Αλέξανδρος Παπαδόπουλος " * 3 + "Αλέξανδρ",
    "cyrillic": "Святослав Їжакевич Щукин " * 3 + "Борис",
    "vietnamese": "Nguyễn Thị Tường Vyệt " * 3 + "Nguyễn Thị Ấu ",
    "arabic": "محمد عبد الرحمن " * 5,
    "hebrew": "אברהם בן שלמה " * 5 + "אברהם בן ש",
    "devanagari": "कि" * 80,
    "thai": "กำ" * 80,
    "cjk": "山田太郎王小明李" * 10,
    "emoji families": FAMILY * 80,
    "piled marks": ("Z" + "\u0301\u0316\u0323" * 3) * 80,
    "a 200-letter word, cut": ("Donaudampfschifffahrtsgesellschaft" * 6)[:200][:80],
}


def paper(holder: str = "Maria Sørensen", count: int = 1) -> Paper:
    admissions = tuple(
        Admission(
            seq=seq,
            token=new_token(),
            holder=holder,
            type_name="Stalls, row 4",
            price="DKK 345.00",
        )
        for seq in range(1, count + 1)
    )
    return Paper(
        event_title="An Evening with the Chamber Orchestra",
        venue="Koncerthuset, Studio 2, København",
        starts="Sat 12 December 2026, 20:00",
        doors="19:00",
        zone="Central European Time (Europe/Copenhagen)",
        order_code="K7MX2QRD",
        seller="Sold by Stagedoor Events, København",
        language="en",
        issued_at=datetime(2026, 11, 1, 12, 30, tzinfo=UTC),
        admissions=admissions,
    )


def render(page: Paper) -> Rendered:
    return render_pdf(ticket_html(page))


def read(pdf: bytes) -> PdfReader:
    return PdfReader(io.BytesIO(pdf))


def text(pdf: bytes) -> str:
    """Return all text without white space, which depends on where lines are broken."""
    return re.sub(r"\s", "", "".join(page.extract_text() for page in read(pdf).pages))


def symbols(pdf: bytes) -> list[str]:
    """Return what a scanner reads from a picture of each page, at 144 dots an inch."""
    document = pypdfium2.PdfDocument(pdf)
    pictures = [page.render(scale=2).to_pil() for page in document]
    return [code.text for picture in pictures for code in zxingcpp.read_barcodes(picture)]


def tokens_of(page: Paper) -> list[str]:
    return [admission.token for admission in page.admissions]


def test_a_scanner_reads_every_ticket_of_an_order_from_the_picture_of_its_page() -> None:
    page = paper(count=10)
    pdf = render(page).pdf
    assert len(read(pdf).pages) == 10
    assert symbols(pdf) == tokens_of(page)


@pytest.mark.parametrize("holder", NAMES_OF_80_LETTERS.values(), ids=NAMES_OF_80_LETTERS.keys())
def test_a_name_of_80_letters_leaves_the_symbol_readable_and_adds_no_page(holder: str) -> None:
    page = paper(holder, count=2)
    pdf = render(page).pdf
    assert len(read(pdf).pages) == 2
    assert symbols(pdf) == tokens_of(page)


def test_texts_that_are_all_too_long_still_make_one_page_a_ticket() -> None:
    words, word = "Eröffnungsabend mit Sinfonieorchester " * 20, "x" * 500
    for long in (words, word):
        page = paper(long)
        page = replace(page, event_title=long, venue=long, starts=long, doors=long, zone=long)
        admissions = (replace(page.admissions[0], type_name=long),)
        page = replace(page, seller=long, admissions=admissions)
        pdf = render(page).pdf
        assert len(read(pdf).pages) == 1
        assert symbols(pdf) == tokens_of(page)


def test_the_symbol_is_25_modules_at_level_q_and_as_large_as_a_thermal_printer_needs() -> None:
    document = pypdfium2.PdfDocument(render(paper()).pdf)
    code = zxingcpp.read_barcodes(document[0].render(scale=4).to_pil())[0]
    assert str(code.ec_level) == "Q"
    dark_side_mm = (code.position.top_right.x - code.position.top_left.x) / (4 * 72) * 25.4
    assert 1.2 <= dark_side_mm / 25 <= 48 / 33 + 0.02


def test_the_page_is_a6_upright() -> None:
    box = read(render(paper()).pdf).pages[0].mediabox
    assert (round(float(box.width) / 72 * 25.4), round(float(box.height) / 72 * 25.4)) == (105, 148)


def test_staff_read_from_the_top_and_a_door_without_a_scanner_reads_the_code() -> None:
    page = paper(count=4)
    lines = read(render(page).pdf).pages[1].extract_text()
    second = page.admissions[1]
    wanted = ("Chamber", "20:00", "Doors 19:00", "Central European Time", "Koncerthuset")
    sold = ("Stalls, row 4", "Maria Sørensen", "2 of 4", "K7MX2QRD", grouped(second.token))
    places = [lines.index(word) for word in (*wanted, *sold, "Sold by Stagedoor")]
    assert places == sorted(places)
    assert "DKK 345.00" in lines


def test_the_metadata_has_language_title_full_names_and_the_day_of_the_ticket() -> None:
    reader = read(render(paper("W" * 80)).pdf)
    info = reader.metadata
    assert info is not None
    assert str(reader.root_object["/Lang"]) == "en"
    assert info.title == "An Evening with the Chamber Orchestra · K7MX2QRD"
    assert info.subject == "1/1 " + "W" * 80
    assert info.creation_date == info.modification_date == paper().issued_at


@pytest.mark.parametrize(
    "holder",
    [
        "<script>alert(1)</script>",
        '"><img src=file:///etc/passwd>',
        "</bdi></section><style>*{display:none}</style>",
        "{{ paper.seller }}{% now 'Y' %}",
        "&lt;b&gt;",
    ],
)
def test_markup_in_a_name_is_printed_as_text(holder: str) -> None:
    page = paper(holder)
    page = replace(page, event_title=holder, venue=holder, seller=holder, language=holder)
    pdf = render(page).pdf
    assert text(pdf).count(re.sub(r"\s", "", holder)) >= 2
    assert symbols(pdf) == tokens_of(page)


@pytest.mark.parametrize("script", ["latin", "greek", "cyrillic", "vietnamese"])
def test_the_bundled_fonts_cover(script: str) -> None:
    assert render(paper(NAMES_OF_80_LETTERS[script])).missing == ()


def test_one_ticket_weighs_less_than_60_kilobytes() -> None:
    for holder in NAMES_OF_80_LETTERS.values():
        assert len(render(paper(holder)).pdf) < 60_000


def in_another_process(html: str, **environment: str) -> str:
    """Return the sha256 made by a new interpreter that has never heard of Django."""
    program = (
        "import hashlib, sys; from tickets.pdf import render_pdf;"
        "pdf = render_pdf(sys.stdin.buffer.read().decode()).pdf;"
        "assert 'django' not in sys.modules;"
        "print(hashlib.sha256(pdf).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=html.encode(),
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    return done.stdout.decode().strip()


def test_the_same_page_is_the_same_bytes_in_two_other_processes() -> None:
    html = ticket_html(paper("Þórður Ŵ 山", count=3))
    here = hashlib.sha256(render_pdf(html).pdf).hexdigest()
    one = in_another_process(html, PYTHONHASHSEED="1", TZ="Asia/Tokyo", LC_ALL="C")
    two = in_another_process(html, PYTHONHASHSEED="2", TZ="UTC", HOME="/nonexistent")
    assert here == one == two


def test_the_same_moment_in_another_zone_is_the_same_page() -> None:
    page = paper()
    there = page.issued_at.astimezone(timezone(timedelta(hours=9)))
    assert ticket_html(replace(page, issued_at=there)) == ticket_html(page)


def test_a_paper_without_tickets_or_with_a_date_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="admission"):
        ticket_html(replace(paper(), admissions=()))
    with pytest.raises(ValueError, match="zone"):
        ticket_html(replace(paper(), issued_at=paper().issued_at.replace(tzinfo=None)))
