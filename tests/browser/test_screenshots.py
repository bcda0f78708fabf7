"""Every page on a telephone; `make screenshots` also keeps its pictures, wide and narrow."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from jobs import holds, processes, replay, schedule_deeds
from jobs.models import Process, ProcessedJob, Sample
from jobs.replay import Deed
from jobs.schedule import declared
from jobs.scheduler import step
from jobs.testing import drain
from orders import announcements
from orders.announcements import When
from orders.models import Order, TicketType
from orders.services import PlacedOrder
from orders.wallclock import instant
from tests.people import box_office, buy, new_event, new_type
from tickets import door, services
from tickets.door import Door
from tickets.models import Bounce, Delivery, DeliveryState
from tickets.services import Actor

from . import buried
from .chromium import NARROW, WIDE
from .conftest import Site, own_rows
from .people import PASSWORD, Staff, employee

FOLDER = os.environ.get("SCREENSHOTS")
WIDTHS = (WIDE, NARROW) if FOLDER else (NARROW,)
LONG = "no glyph for U+1F984 in the holder’s name, " * 6


def nothing(reader: Staff) -> None:
    """The page as it comes."""


def on_all(action: str) -> Callable[[Staff], None]:
    """Run `action` on all of a list: the page that asks first."""
    return lambda reader: reader.run_on_all(action)


def pressing(button: str) -> Callable[[Staff], None]:
    """Press one button."""
    return lambda reader: reader.press(button)


def in_the_dark(reader: Staff) -> None:
    """As it looks where the reader's system is dark."""
    reader.window.do(lambda page: page.emulate_media(color_scheme="dark"))


def following(link: str) -> Callable[[Staff], None]:
    """Follow one link."""
    return lambda reader: reader.follow(link)


def giving_back(reader: Staff) -> None:
    """Choose two of the tickets, to read what they come to."""
    reader.follow("Give tickets back")
    for ticket in ("1: Stalls Zoë O’Hara", "3: Gallery Zoë O’Hara"):
        reader.tick(ticket)
    reader.press("Continue")


def on_to(page: str) -> Callable[[Staff], object]:
    """Go to a page below the one at hand."""
    return lambda reader: reader.go(reader.path() + page)


def scanning(code: str) -> Callable[[Staff], None]:
    """Type `code` where the cursor is, and Enter, as a scanner does."""

    def scan(reader: Staff) -> None:
        reader.window.do(lambda page: page.keyboard.type(code))
        reader.key("Enter")
        reader.window.do(lambda page: page.locator(".answer").wait_for())

    return scan


def scanning_the_next(reader: Staff) -> None:
    """A ticket that nobody went in with yet."""
    scanning(f"NACHT234 {next(UNUSED)}")(reader)
    reader.press("Let in")
    reader.window.do(lambda page: page.locator(".answer.valid").wait_for())


UNUSED = itertools.count(1)


class Shot(NamedTuple):
    """A page: the picture's name, the address with names of `world`, who looks; what is done there
    first, and the status of the answer."""

    name: str
    path: str
    who: str
    first: Callable[[Staff], object] = nothing
    status: int = 200


PAGES = (
    Shot("shop-events", "/", "buyer"),
    Shot("shop-event", "/events/{slug}/", "buyer"),
    Shot("shop-order", "/o/{secret}/", "buyer"),
    Shot("shop-order-waiting", "/o/{waiting_secret}/", "buyer"),
    Shot("shop-resend", "/o/{secret}/", "buyer", following("Send it again")),
    Shot("shop-holder", "/o/{secret}/", "buyer", following("Change the name on ticket 1")),
    Shot("shop-lost-link", "/lost-link/", "buyer"),
    Shot("shop-lost-link-wrong", "/lost-link/", "buyer", pressing("Email me my links")),
    Shot("shop-lost-link-asked", "/lost-link/?asked", "buyer"),
    Shot("shop-refund", "/o/{secret}/", "buyer", following("Give tickets back")),
    Shot("shop-refund-confirm", "/o/{secret}/", "buyer", giving_back),
    Shot("shop-refund-closed", "/o/{waiting_secret}/", "buyer", on_to("refund/")),
    Shot("shop-order-part", "/o/{part_secret}/", "buyer"),
    Shot("shop-order-bounced", "/o/{bounced_secret}/", "buyer"),
    Shot("shop-order-cancelled", "/o/{cancelled_secret}/", "buyer"),
    Shot("shop-nothing-here", "/no-such-page/", "buyer", status=404),
    Shot("admin-login", "/admin/login/", "buyer"),
    Shot("admin-index", "/admin/", "office"),
    Shot("admin-events", "/admin/orders/event/", "office"),
    Shot("admin-event", "/admin/orders/event/{event_id}/change/", "office"),
    Shot("admin-capacity", "/admin/orders/event/{event_id}/capacity/", "office"),
    Shot("admin-orders", "/admin/orders/order/", "office"),
    Shot("admin-order", "/admin/orders/order/{order_id}/change/", "chief"),
    Shot("admin-order-waiting", "/admin/orders/order/{waiting_id}/change/", "office"),
    Shot("admin-order-part", "/admin/orders/order/{part_id}/change/", "office"),
    Shot("admin-refund", "/admin/orders/order/{order_id}/refund/", "office"),
    Shot(
        "admin-refund-wrong",
        "/admin/orders/order/{order_id}/refund/",
        "office",
        pressing("Refund the chosen tickets"),
    ),
    Shot("admin-event-move", "/admin/orders/event/{event_id}/move/", "office"),
    Shot(
        "admin-event-move-wrong",
        "/admin/orders/event/{event_id}/move/",
        "office",
        pressing("Move the event and tell the buyers"),
    ),
    Shot("admin-event-cancel", "/admin/orders/event/{event_id}/cancel/", "office"),
    Shot("admin-event-moved", "/admin/orders/event/{moved_id}/change/", "office"),
    Shot("admin-order-bounced", "/admin/orders/order/{bounced_id}/change/", "office"),
    Shot("admin-order-uncertain", "/admin/orders/order/{uncertain_id}/change/", "office"),
    Shot("admin-event-cancelled", "/admin/orders/event/{cancelled_id}/change/", "office"),
    Shot("admin-event-onlooker", "/admin/orders/event/{event_id}/change/", "looker"),
    Shot("doors", "/door/", "office"),
    Shot("door", "/door/{slug}/", "office"),
    Shot("door-valid", "/door/{slug}/", "office", scanning_the_next),
    Shot("door-name", "/door/{slug}/", "office", scanning("NACHT234 7")),
    Shot("door-used", "/door/{slug}/", "office", scanning("NACHT234 8")),
    Shot("door-other", "/door/dont-panic/", "office", scanning("ANDERS23")),
    Shot("door-unknown", "/door/{slug}/", "office", scanning("a poem")),
    Shot("admin-index-of-all", "/admin/", "chief"),
    Shot("jobs-dead", "/admin/jobs/deadjob/", "chief"),
    Shot("jobs-dead-none", "/admin/jobs/deadjob/?q=nothing", "chief"),
    Shot("jobs-safe", "/admin/jobs/deadjob/{safe_id}/change/", "chief"),
    Shot("jobs-onlooker", "/admin/jobs/deadjob/{safe_id}/change/", "onlooker"),
    Shot("jobs-done-already", "/admin/jobs/deadjob/{done_id}/change/", "chief"),
    Shot("jobs-twice", "/admin/jobs/deadjob/{twice_id}/change/", "chief"),
    Shot("jobs-twice-asks", "/admin/jobs/deadjob/{twice_id}/change/", "chief", pressing("Replay")),
    Shot("jobs-broken", "/admin/jobs/deadjob/{broken_id}/change/", "chief"),
    Shot("jobs-correct", "/admin/jobs/deadjob/{broken_id}/correct/", "chief"),
    Shot(
        "jobs-correct-wrong", "/admin/jobs/deadjob/{broken_id}/correct/", "chief", pressing("Check")
    ),
    Shot("jobs-refused", "/admin/jobs/deadjob/-{refused_id}/change/", "chief"),
    Shot("jobs-refused-kind", "/admin/jobs/deadjob/-{refused_id}/correct/", "chief"),
    Shot("jobs-finished", "/admin/jobs/deadjob/{finished_id}/change/", "chief"),
    Shot(
        "jobs-replay-many", "/admin/jobs/deadjob/", "chief", on_all("Replay the selected dead jobs")
    ),
    Shot(
        "jobs-discard-many",
        "/admin/jobs/deadjob/",
        "chief",
        on_all("Discard the selected dead jobs"),
    ),
    Shot("jobs-batch", "/admin/jobs/deadjob/batch/{batch_id}/", "chief"),
    Shot("jobs-batch-over", "/admin/jobs/deadjob/batch/{over_id}/", "chief"),
    Shot("jobs-kinds", "/admin/jobs/kindhold/", "chief"),
    Shot("schedules", "/admin/jobs/scheduledrun/", "chief"),
    Shot("schedule", "/admin/jobs/scheduledrun/one/?name=reminders", "chief"),
    Shot("schedule-paused", "/admin/jobs/scheduledrun/one/?name=sales_summary", "chief"),
    Shot("schedule-run", "/admin/jobs/scheduledrun/run/?name=sales_summary", "chief"),
    Shot("schedule-onlooker", "/admin/jobs/scheduledrun/one/?name=sales_summary", "office"),
    Shot("queue", "/admin/jobs/sample/", "chief"),
    Shot("queue-dark", "/admin/jobs/sample/?hours=1", "chief", in_the_dark),
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
    """A sale of which some went wrong, and the people who look at its pages."""
    staff = {
        "office": box_office(),
        "chief": User.objects.create_superuser("chief", password=PASSWORD),
        "onlooker": employee("jobs.view_deadjob", name="onlooker"),
        "looker": employee("orders.view_event", "orders.view_tickettype", name="looker"),
    }
    _night()
    _by_the_clock()
    # What is still on its way comes last: the others run every job there is.
    names = _sale() | _at_the_door() | _came_back() | _cancelled()
    names |= _dead_jobs() | _moved() | _waiting()
    with ExitStack() as windows:
        people = {who: windows.enter_context(site.opened()) for who in ("buyer", *staff)}
        for who, user in staff.items():
            people[who].log_in(user)
        yield World(names, people)


def _night() -> None:
    """Three hours of samples: a sale that one worker was too few for, and a gap in them."""
    minute = timezone.now().replace(second=0, microsecond=0)
    for ago in (*range(100), *range(110, 180)):
        rush = max(0.0, 1 - abs(ago - 60) / 25)
        number = int(20 + 100 * rush)
        Sample.objects.create(
            minute=minute - timedelta(minutes=ago), redis=True, depth={},
            ages={"oldest": 620 * rush, "not_paused": 620 * rush}, workers=1, slots=8, busy=8,
            finished={"render_tickets": [number, 3.9]}, done=number, relays=1, schedulers=1,
        )  # fmt: skip
    processes.say_alive("worker", "box-office-1", "8 of 8 slots busy", 8, 8)
    processes.say_alive("relay", "box-office", "relaying")
    processes.say_alive("scheduler", "box-office", "5 schedules")
    # All pictures take longer than a process may be silent.
    Process.objects.update(seen_at=timezone.now() + timedelta(hours=1))


def _by_the_clock() -> None:
    """Schedules that fired, missed due times, were run by hand; one is paused."""
    now, schedules = timezone.now(), declared()
    for minutes in (100, 95, 90, 50, 45, 0):
        step(schedules, "box-office", now - timedelta(minutes=minutes))
    [summary] = [one for one in schedules if one.name == "sales_summary"]
    with transaction.atomic(durable=True):
        schedule_deeds.run_now(summary, now - timedelta(minutes=3), "carla")
        schedule_deeds.pause("sales_summary", "nobody reads it while the house is closed", "carla")
    drain()


def _sale() -> dict[str, object]:
    soon = timezone.now() + timedelta(days=7)
    event = new_event(
        title="Don’t Panic — Live", slug="dont-panic", venue="Großer Saal", refunds_until=soon
    )
    stalls, gallery = new_type(event=event, name="Stalls"), new_type(event=event, name="Gallery")
    order = buy(stalls, 2, quantities={stalls.pk: 2, gallery.pk: 1}, buyer_name="Zoë O’Hara")
    part = buy(stalls, 3)
    drain()
    services.refund(part.id, "cannot come", Actor("the buyer"), seqs=[2])
    drain()
    return {
        "part_secret": part.secret,
        "part_id": part.id,
        "slug": event.slug,
        "event_id": event.pk,
        "order_id": order.id,
        "secret": order.secret,
        "done_id": buried.bury(buried.email_of(order)),
    }


def _waiting() -> dict[str, object]:
    few = new_type(capacity=2, event__title="Ein sehr langer Titel: Donaudampfschifffahrtsmusik")
    order = buy(few, 2)
    return {"waiting_id": order.id, "waiting_secret": order.secret}


def _at_the_door() -> dict[str, object]:
    kind = TicketType.objects.select_related("event").get(name="Stalls")
    crowd = buy(kind, 8, buyer_name="Zoë O’Hara")
    other = buy(new_type(event__title="Ein ganz anderer Abend"))
    for order, code in ((crowd, "NACHT234"), (other, "ANDERS23")):
        Order.objects.filter(pk=order.id).update(code=code)
    drain()
    door.scan(kind.event, "NACHT234 8", Door(by="anna", key="first", asked=True))
    return {}


def _moved() -> dict[str, object]:
    kind = new_type(event__title="Matinee")
    for _ in range(3):
        buy(kind)
    local = kind.event.starts_local + timedelta(days=7)
    to = When(
        starts_local=local, starts_fold=None, starts_at=instant(local, kind.event.tz),
        doors_minutes=60,
    )  # fmt: skip
    assert announcements.move(kind.event.pk, to, announcements.Deed(seen=0, by="carla"))
    return {"moved_id": kind.event.pk}


def _came_back() -> dict[str, object]:
    order = buy(new_type(event__title="Soirée"))
    drain()
    Delivery.objects.filter(order_id=order.id).update(
        state=DeliveryState.BOUNCED, bounced_at=timezone.now(), bounce=Bounce.INVALID
    )
    return {"bounced_id": order.id, "bounced_secret": order.secret}


def _cancelled() -> dict[str, object]:
    kind = new_type(event__title="Kindertheater")
    order = buy(kind)
    drain()
    deed = announcements.Deed(seen=0, by="carla", reason="the singer is ill")
    assert announcements.cancel(kind.event.pk, deed)
    drain()
    return {"cancelled_id": kind.event.pk, "cancelled_secret": order.secret}


def _dead_jobs() -> dict[str, object]:
    kind = new_type()
    over = _replayed([buried.bury(buried.render_of(buy(kind))) for _ in range(3)])
    drain()
    twice = buy(kind)
    drain()
    _begun_two_days_ago(twice)
    rows = [buried.render_of(buy(kind)) for _ in range(7)]
    found: dict[str, object] = {
        "over_id": over,
        "finished_id": ProcessedJob.objects.filter(kind="render_tickets").latest("pk").pk,
        "uncertain_id": twice.id,
        "twice_id": buried.bury(buried.email_of(twice)),
        "safe_id": buried.bury(rows[0], f"ValueError: {LONG}"),
        "broken_id": buried.not_parsing(rows[1], order_id="seven"),
        "refused_id": buried.refuse((b"what", b"\xff\xfe"), (b"order_id", b"7")),
        "batch_id": _replayed([buried.bury(row) for row in rows[2:]]),
    }
    buried.bury(rows[2])
    holds.pause("email_tickets", 1800, "the provider moves house", "operator")
    holds.trip("drill_fail", buried.ERROR)
    return found


def _replayed(outbox_ids: list[int]) -> int | None:
    """The batch in which these were made due again."""
    return replay.replay(outbox_ids, timezone.now(), Deed("operator"), together=True).batch


def _begun_two_days_ago(order: PlacedOrder) -> None:
    """Nobody knows whether the order's email was sent, and the provider forgot its key."""
    two_days_ago = timezone.now() - timedelta(days=2)
    Delivery.objects.filter(order_id=order.id).update(
        state=DeliveryState.UNCERTAIN, first_try_at=two_days_ago, called_at=two_days_ago,
        settled_at=None,
    )  # fmt: skip


@pytest.mark.parametrize("shot", PAGES, ids=lambda shot: shot.name)
def test_the_page_fits_a_telephone(world: World, shot: Shot) -> None:
    reader = world.people[shot.who]
    for width in WIDTHS:
        reader.window.resize(width)
        assert reader.go(shot.path.format(**world.names)) == shot.status
        shot.first(reader)
        if FOLDER:
            reader.window.picture(Path(FOLDER, f"{shot.name}-{width}.png"))
    assert reader.fits()
    assert not reader.window.complaints()
