"""From HTML to bytes: nothing from outside, nothing lost in silence, the same every time."""

import io
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from pypdf import PdfReader
from pypdf.generic import DictionaryObject

from tickets.pdf import render_pdf, warm_up
from tickets.rendering import RenderRefused

PAGE = """<!doctype html><html lang="en"><title>Page</title>
<meta name="dcterms.created" content="2026-11-01T12:30:00Z">
<p style="font-family: Noto Sans">Þórður <b>Ŵ</b> 山 <code style="font-family: Noto Mono">0</code>
<svg viewBox="0 0 9 9"><path d="M1 1H5V5z"/></svg>"""


def fonts_of(pdf: bytes) -> set[str]:
    resources = PdfReader(io.BytesIO(pdf)).pages[0]["/Resources"].get_object()
    assert isinstance(resources, DictionaryObject)
    fonts = resources["/Font"].get_object()
    assert isinstance(fonts, DictionaryObject)
    described = [font.get_object() for font in fonts.values()]
    return {str(one["/BaseFont"]) for one in described if isinstance(one, DictionaryObject)}


@pytest.mark.parametrize(
    "asking",
    [
        "<img src=http://localhost/a.png>",
        "<img src=https://localhost/a.png>",
        "<img src=file:///etc/hostname>",
        "<img src=relative.png>",
        "<img src=//localhost/a.png>",
        "<img src='data:image/png;base64,AAAA'>",
        "<link rel=stylesheet href=http://localhost/a.css>",
        "<link rel=attachment href=file:///etc/hostname>",
        "<style>@import 'http://localhost/a.css'</style>",
        "<style>@font-face{font-family:a;src:url(file:///a.ttf)}</style>",
        "<p style='background:url(http://localhost/a.png)'>a",
        "<svg><image href='http://localhost/a.png' width='9' height='9'/></svg>",
    ],
)
def test_a_page_that_asks_for_anything_from_outside_is_refused(asking: str) -> None:
    with pytest.raises(RenderRefused):
        render_pdf(f"<!doctype html>{asking}")


def test_a_symbol_that_cannot_be_drawn_is_a_failure_and_not_a_ticket_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("weasyprint.svg.SVG.draw", full)
    with pytest.raises(RenderRefused, match="SVG"):
        render_pdf(PAGE)


def test_a_spawned_pool_process_gives_the_same_bytes_and_survives_a_refusal() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=warm_up) as pool:
        assert pool.submit(render_pdf, PAGE).result(timeout=60) == render_pdf(PAGE)
        with pytest.raises(RenderRefused, match="localhost"):
            pool.submit(render_pdf, "<img src=http://localhost/a.png>").result(timeout=60)
        assert pool.submit(render_pdf, PAGE).result(timeout=60) == render_pdf(PAGE)


@pytest.mark.parametrize("letter", ["م", "ש", "क", "ก", "山", "한", "\U0001f600"])
def test_a_letter_without_a_glyph_is_reported_and_no_font_of_the_machine_lends_one(
    letter: str,
) -> None:
    rendered = render_pdf(f"<!doctype html><p>Ana {letter}")
    assert rendered.missing == (ord(letter),)


def test_only_the_bundled_fonts_are_in_the_file() -> None:
    names = {name.split("+")[1] for name in fonts_of(render_pdf(PAGE).pdf)}
    assert names == {"Noto-Sans", "Noto-Sans-Bold", "Noto-Mono"}


def test_the_same_page_is_the_same_bytes_whatever_was_rendered_before() -> None:
    first = render_pdf(PAGE)
    warm_up()
    render_pdf(PAGE.replace("Þórður", "Αλέξανδρος"))
    assert render_pdf(PAGE) == first


def test_the_file_names_itself_by_its_content_and_has_no_date_but_the_page_s() -> None:
    one, two = (PdfReader(io.BytesIO(render_pdf(page).pdf)) for page in (PAGE, PAGE + "more"))
    assert str(one.trailer["/ID"]) != str(two.trailer["/ID"])
    assert one.metadata is not None
    assert str(one.metadata["/CreationDate"]) == "D:20261101123000Z"
    assert "/ModDate" not in one.metadata
