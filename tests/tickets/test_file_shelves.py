"""PDFs of events that are long past are deleted, and never one that anybody may still need."""

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone
from redis import Redis

from jobs import purging
from jobs.models import OutboxRow, ProcessedJob, Purge
from jobs.outbox import enqueue
from jobs.shelves import Shelf, shelf_named
from jobs.testing import drain
from orders.models import Event, Order
from orders.services import PlacedOrder, lock_order
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.cuts import Cut
from tests.people import buy, new_event, new_type
from tests.processes import Product
from tests.tickets.sessions import elsewhere
from tests.tickets.tries import try_now
from tickets import file_shelves, files, services
from tickets.models import TicketFile
from tickets.services import Actor, Refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]
STAFF = Actor("carla")
SWEEP = """
from django.utils import timezone
from jobs import purging, shelves
import tickets.handlers
purging.sweep(shelves.shelf_named({!r}), 0, timezone.now())
"""


@pytest.fixture
def order(mailbox: MailFolder) -> PlacedOrder:
    """Emailed; its event was 100 days ago, as its file says, so that another one is the same."""
    placed = buy(new_type(event=new_event()))
    grow_old(placed)
    drain()
    grow_old(placed)
    return placed


def grow_old(placed: PlacedOrder, days: int = 100) -> None:
    then = timezone.now() - timedelta(days=days)
    Event.objects.filter(orders=placed.id).update(starts_at=then)
    TicketFile.objects.filter(order=placed.id).update(made_at=then - timedelta(days=30))


def shelf(name: str) -> Shelf:
    found = shelf_named(name)
    assert found is not None
    return found


def sweep(name: str) -> None:
    assert purging.sweep(shelf(name), 0, timezone.now()) is None


def mark() -> None:
    sweep("files")


def unlink() -> None:
    sweep("deleted files")


type Once = Callable[[str, Callable[[], object]], list[object]]


@pytest.fixture
def once(at_failpoint: Arm) -> Once:
    """Do something when a failpoint is met first; the list that gets its answer."""

    def arm(place: str, deed: Callable[[], object]) -> list[object]:
        left, answers = iter([deed]), list[object]()

        def act(there: str) -> None:
            if there == place and (now := next(left, None)):
                answers.append(now())

        at_failpoint(act)
        return answers

    return arm


def path_of(file: TicketFile) -> Path:
    """Where its content is, or was."""
    return Path(files.ticket_storage().path(f"{file.sha256[:2]}/{file.sha256}.pdf"))


def is_living(file: TicketFile) -> bool:
    file.refresh_from_db()
    return file.deleted_at is None and path_of(file).exists()


def is_deleted(file: TicketFile) -> bool:
    file.refresh_from_db()
    return file.deleted_at is not None and file.name == "" and not path_of(file).exists()


def test_files_go_with_their_time_and_no_others(redis: Redis, order: PlacedOrder) -> None:
    """Also those of refunded orders; a second run finds nothing to do."""
    refunded, lately, made_again = (buy(new_type(event=new_event())) for _ in range(3))
    drain()
    services.refund(refunded.id, "ill", STAFF)
    drain()
    for placed, days in ((refunded, 91), (lately, 89), (made_again, 100)):
        grow_old(placed, days)
    TicketFile.objects.filter(order=made_again.id).update(made_at=timezone.now())
    for _ in range(2):
        with transaction.atomic():
            enqueue("purge")
        drain()
        of = {file.order_id: file for file in TicketFile.objects.all()}
        assert is_deleted(of[order.id])
        assert is_deleted(of[refunded.id])
        assert is_living(of[lately.id])
        assert is_living(of[made_again.id])
    assert Purge.objects.get(shelf="files").rows == 2
    assert Purge.objects.get(shelf="deleted files").rows == 2
    books_are_in_order()


@pytest.mark.parametrize("state", ["due", "dead"])
def test_while_a_job_of_its_order_is_not_done_a_file_lives(order: PlacedOrder, state: str) -> None:
    assert services.resend(order.id, 1, STAFF)
    if state == "dead":
        OutboxRow.objects.update(dead_at=timezone.now())
    file = TicketFile.objects.get()
    mark()
    unlink()
    assert is_living(file)
    OutboxRow.objects.update(dead_at=timezone.now(), discarded_at=timezone.now())
    mark()
    unlink()
    assert is_deleted(file)


def test_an_order_that_somebody_works_with_is_left_to_the_next_run(order: PlacedOrder) -> None:
    file = TicketFile.objects.get()
    with transaction.atomic():
        lock_order(order.id)
        elsewhere(mark)
        assert is_living(file)
    mark()
    unlink()
    assert is_deleted(file)


def _asked_for(order: PlacedOrder) -> None:
    assert services.resend(order.id, 1, STAFF)


def _moved(order: PlacedOrder) -> None:
    Event.objects.update(starts_at=timezone.now() + timedelta(days=7))


@pytest.mark.parametrize("deed", [_asked_for, _moved])
def test_what_is_committed_before_the_order_is_locked_is_seen(
    order: PlacedOrder, deed: Callable[[PlacedOrder], None]
) -> None:
    """Though the batch was read before it, and chosen: one statement would not see it."""

    def choose(keys: list[int], until: datetime) -> list[int]:
        elsewhere(lambda: deed(order))
        file_shelves.lock_orders(keys, until)
        return keys

    late = dataclasses.replace(shelf("files"), choose=choose)
    assert purging.take(late, 0, purging.until_of(late, timezone.now())).rows == 0
    assert is_living(TicketFile.objects.get())


def test_who_asks_for_a_file_while_it_is_marked_is_told_so(order: PlacedOrder, once: Once) -> None:
    def ask() -> None:
        try:
            services.resend(order.id, 1, STAFF)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        asked = once("files.orders_locked", lambda: pool.submit(ask))
        mark()
        [answer] = asked
        assert isinstance(answer, Future)
        with pytest.raises(Refused, match=r"was deleted at .* Render it again first"):
            answer.result(timeout=30)
    assert not OutboxRow.objects.exists()


@pytest.mark.parametrize("place", ["files.orders_locked", "purging.committed", "files.unlinked"])
def test_cut_anywhere_the_next_run_ends_it(
    redis: Redis, order: PlacedOrder, once: Once, place: str
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    def go() -> None:
        for step in (mark, unlink):
            step()

    once(place, die)
    file = TicketFile.objects.get()
    with pytest.raises(KeyboardInterrupt):
        go()
    file.refresh_from_db()
    assert file.name, "it is not forgotten before its content is"
    assert (file.deleted_at is None) == (place == "files.orders_locked")
    assert path_of(file).exists() == (place != "files.unlinked")
    go()
    assert is_deleted(file)
    books_are_in_order()


def test_a_process_that_is_killed_has_spoilt_nothing(
    redis: Redis, order: PlacedOrder, product: Product, tmp_path: Path
) -> None:
    file = TicketFile.objects.get()
    for name, place in (("files", "files.orders_locked"), ("deleted files", "files.unlinked")):
        cut = Cut(place, tmp_path / place)
        cut.was_hit_by(product.command("shell", "-c", SWEEP.format(name), **cut.environment()))
        file.refresh_from_db()
        assert file.name
        sweep(name)
    assert is_deleted(file)
    books_are_in_order()


def test_a_content_that_a_living_file_has_too_stays(order: PlacedOrder) -> None:
    first = TicketFile.objects.get()
    second = TicketFile.objects.get()
    second.pk, second.order_version, second.made_at = None, 2, timezone.now()
    second.save()
    mark()
    unlink()
    first.refresh_from_db()
    assert (first.deleted_at is None, first.name) == (False, "")
    assert is_living(second)


def render_again(order: PlacedOrder) -> TicketFile | None:
    """Run the job; the file that lives then."""
    services.render_again(order.id, STAFF)
    drain()
    return files.newest_file(Order.objects.get(pk=order.id))


def test_a_render_whose_content_is_unlinked_before_it_is_named_makes_it_again(
    redis: Redis, order: PlacedOrder, once: Once
) -> None:
    mark()
    once("runner.before_effects/render_tickets", lambda: elsewhere(unlink))
    assert render_again(order) is None
    assert "deleted since it was made" in OutboxRow.objects.get().last_error
    assert OutboxRow.objects.get().attempts == 0
    assert try_now() is None
    old, new = TicketFile.objects.order_by("pk")
    assert (old.name, old.sha256) == ("", new.sha256)
    assert is_living(new)
    books_are_in_order()


def test_a_content_that_is_about_to_be_named_is_not_unlinked(
    redis: Redis, order: PlacedOrder, once: Once
) -> None:
    mark()
    once("runner.before_commit/render_tickets", lambda: elsewhere(unlink))
    living = render_again(order)
    assert living is not None
    assert is_living(living)
    old = TicketFile.objects.exclude(pk=living.pk).get()
    assert old.name == living.name, "left to the next run"
    unlink()
    assert is_living(living)
    old.refresh_from_db()
    assert old.name == ""
    books_are_in_order()


def test_nobody_names_a_content_while_it_is_unlinked(order: PlacedOrder, once: Once) -> None:
    """Though it is stored anew already."""
    mark()
    answers = once("files.unlinked", lambda: elsewhere(lambda: render_again(order)))
    unlink()
    assert answers == [None]
    assert try_now() is None
    living = files.newest_file(Order.objects.get())
    assert living is not None
    assert is_living(living)


def test_what_the_storage_does_not_let_go_of_is_tried_again(order: PlacedOrder) -> None:
    mark()
    file = TicketFile.objects.get()
    stuck = path_of(file)
    stuck.unlink()
    (stuck / "in the way").mkdir(parents=True)
    with transaction.atomic():
        enqueue("purge_shelf", shelf="deleted files", cursor=0)
    drain()
    row = OutboxRow.objects.get()
    assert (row.attempts, row.dead_at) == (1, None)
    assert "not empty" in row.last_error
    file.refresh_from_db()
    assert file.name
    (stuck / "in the way").rmdir()
    assert try_now() is None
    assert is_deleted(file)


def test_without_the_folder_of_the_files_none_is_thought_to_be_gone(
    order: PlacedOrder, tmp_path: Path
) -> None:
    mark()
    with override_settings(
        STORAGES={
            "tickets": {
                "BACKEND": "stagedoor.storage.DurableFileSystemStorage",
                "OPTIONS": {"location": str(tmp_path / "not mounted")},
            }
        }
    ), pytest.raises(FileNotFoundError, match="TICKET_DIR"):  # fmt: skip
        unlink()
    file = TicketFile.objects.get()
    assert file.name
    path_of(file).unlink()
    unlink()
    assert is_deleted(file), "one that is missing is as good as unlinked"


def test_rendered_again_it_lives_as_long_once_more_and_is_emailed_when_asked_for(
    redis: Redis, order: PlacedOrder, mailbox: MailFolder
) -> None:
    mark()
    unlink()
    with pytest.raises(Refused, match="Render it again first"):
        services.resend(order.id, 1, STAFF)
    living = render_again(order)
    assert living is not None
    assert len(mailbox.messages()) == 1
    mark()
    unlink()
    assert is_living(living)
    assert services.resend(order.id, 1, STAFF)
    drain()
    assert len(mailbox.messages()) == 2
    TicketFile.objects.update(made_at=timezone.now() - timedelta(days=91))
    mark()
    unlink()
    assert is_deleted(living)
    assert TicketFile.objects.count() == 2
    books_are_in_order()


def test_a_resending_that_somebody_typed_is_dead_in_words_and_waits_for_nothing(
    order: PlacedOrder,
) -> None:
    mark()
    with transaction.atomic():
        enqueue("resend_tickets", order_id=order.id, generation=2)
    drain()
    assert "render the tickets again" in OutboxRow.objects.get().dead_reason
    assert not ProcessedJob.objects.filter(kind="resend_tickets").exists()
