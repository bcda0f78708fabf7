"""Every page on a telephone; `make screenshots` also keeps its pictures, wide and narrow."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest_django import DjangoDbBlocker

from jobs.testing import drain
from tests.people import box_office, buy, new_event, new_type

from .chromium import NARROW, WIDE
from .conftest import Site, own_rows
from .people import Staff

FOLDER = os.environ.get("SCREENSHOTS")


class Shot(NamedTuple):
    """A page: the picture's name, the address with names of `world`, who looks, the answer."""

    name: str
    path: str
    who: str
    status: int = 200


PAGES = (
    Shot("shop-events", "/", "buyer"),
    Shot("shop-event", "/events/{slug}/", "buyer"),
    Shot("shop-order", "/o/{secret}/", "buyer"),
    Shot("shop-order-waiting", "/o/{waiting_secret}/", "buyer"),
    Shot("shop-nothing-here", "/no-such-page/", "buyer", 404),
    Shot("admin-login", "/admin/login/", "buyer"),
    Shot("admin-index", "/admin/", "office"),
    Shot("admin-events", "/admin/orders/event/", "office"),
    Shot("admin-event", "/admin/orders/event/{event_id}/change/", "office"),
    Shot("admin-capacity", "/admin/orders/event/{event_id}/capacity/", "office"),
    Shot("admin-orders", "/admin/orders/order/", "office"),
    Shot("admin-order", "/admin/orders/order/{order_id}/change/", "office"),
)


class World(NamedTuple):
    """What there is to see, and who looks."""

    names: dict[str, object]
    people: dict[str, Staff]


@pytest.fixture(scope="module")
def transactional_db(site: Site, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The rows of all pages, made once: only looked at."""
    with own_rows(django_db_blocker):
        yield


@pytest.fixture(scope="module")
def world(site: Site, transactional_db: None) -> Iterator[World]:
    """A small sale, and the people who look at its pages."""
    with ExitStack() as windows:
        people = {who: windows.enter_context(site.opened()) for who in ("buyer", "office")}
        people["office"].log_in(box_office())
        yield World(_sale(), people)


def _sale() -> dict[str, object]:
    event = new_event(title="Don’t Panic — Live", slug="dont-panic", venue="Großer Saal")
    stalls, gallery = new_type(event=event, name="Stalls"), new_type(event=event, name="Gallery")
    order = buy(stalls, 2, quantities={stalls.pk: 2, gallery.pk: 1}, buyer_name="Zoë O’Hara")
    drain()
    few = new_type(capacity=2, event__title="Ein sehr langer Titel: Donaudampfschifffahrtsmusik")
    waiting = buy(few, 2)
    return {
        "slug": event.slug,
        "event_id": event.pk,
        "order_id": order.id,
        "secret": order.secret,
        "waiting_secret": waiting.secret,
    }


@pytest.mark.parametrize("shot", PAGES, ids=lambda shot: shot.name)
def test_the_page_fits_a_telephone(world: World, shot: Shot) -> None:
    reader = world.people[shot.who]
    for width in (WIDE, NARROW):
        reader.window.resize(width)
        assert reader.go(shot.path.format(**world.names)) == shot.status
        if FOLDER:
            reader.window.picture(Path(FOLDER, f"{shot.name}-{width}.png"))
    assert reader.fits()
    assert not reader.window.complaints()
