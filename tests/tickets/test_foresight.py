"""What a replay would do is said truly, and for thousands at once in few looks."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.prognosis import Effect, Prognosis
from jobs.registry import kind_named
from jobs.testing import drain
from orders.models import Order, OrderStatus
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets import services
from tickets.handlers import OrderArgs, ResendArgs
from tickets.models import Delivery, DeliveryState, TicketFile
from tickets.paying import RefundArgs
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 24 * 3600


def foresee(kind: str, *args: Any) -> Sequence[Prognosis]:
    known = kind_named(kind).foresee
    assert known is not None
    return known(args)


def of_email(order: PlacedOrder) -> Prognosis:
    [found] = foresee("email_tickets", OrderArgs(order.id))
    return found


@pytest.fixture
def sent(made: PlacedOrder) -> PlacedOrder:
    """An order whose email was sent."""
    drain()
    return made


def begun(
    order: PlacedOrder, hours: float, state: str = DeliveryState.QUEUED, tries: int = 1
) -> None:
    drain()
    at = timezone.now() - timedelta(hours=hours)
    Delivery.objects.update(
        state=state, first_try_at=at, called_at=at if tries else None, tries=tries, settled_at=None
    )


def test_an_email_that_was_sent_is_not_sent_again(sent: PlacedOrder) -> None:
    found = of_email(sent)
    settled = Delivery.objects.get().settled_at
    assert settled is not None
    assert found.effect is Effect.NOTHING
    assert found.text == (
        f"already done at {settled:%H:%M} UTC: the provider accepted it under this key, "
        "nothing will happen"
    )


def test_an_email_that_was_never_begun_is_safe(made: PlacedOrder) -> None:
    assert of_email(made) == Prognosis(Effect.SAFE, "not done yet, safe")


def test_a_try_within_the_window_is_safe(made: PlacedOrder) -> None:
    begun(made, 3)
    found = of_email(made)
    assert found.effect is Effect.SAFE
    assert found.text == (
        "a try began 3 h ago under this key and the provider drops a second one: safe"
    )


@pytest.mark.parametrize("hours", [23.1, 24, 30, 24 * 30])
def test_a_try_older_than_the_window_may_send_twice(made: PlacedOrder, hours: float) -> None:
    begun(made, hours)
    found = of_email(made)
    assert found.effect is Effect.MAY_REPEAT
    assert found.text.endswith("older than the provider's 24 h window: may send twice")


@override_settings(MAIL_KEY_WINDOW=0)
def test_where_the_provider_knows_no_keys_what_it_may_have_taken_may_send_twice(
    made: PlacedOrder,
) -> None:
    begun(made, 0.1, DeliveryState.UNCERTAIN)
    assert of_email(made) == Prognosis(
        Effect.MAY_REPEAT,
        "a try began 6 min ago, the mail server, which knows no keys, may have taken it: "
        "may send twice",
    )


@pytest.mark.parametrize("window", [0, DAY])
def test_what_the_provider_refused_is_safe_however_long_ago(made: PlacedOrder, window: int) -> None:
    begun(made, 24 * 5, tries=0)
    with override_settings(MAIL_KEY_WINDOW=window):
        assert of_email(made) == Prognosis(
            Effect.SAFE, "a try began 5 d ago and the provider did not take it: safe"
        )


@pytest.mark.parametrize("state", [DeliveryState.QUEUED, DeliveryState.UNCERTAIN])
@pytest.mark.parametrize("window", [0, DAY])
def test_an_email_whose_tickets_were_resent_meanwhile_is_nothing(
    made: PlacedOrder, state: str, window: int
) -> None:
    begun(made, 48, state)
    services.resend(made.id, 1, Actor("boxoffice"))
    services.resend(made.id, 2, Actor("boxoffice"))
    drain()
    Delivery.objects.filter(generation=2).update(state=state, settled_at=None)
    at = Delivery.objects.get(generation=3).settled_at
    assert at is not None
    overtaken = Prognosis(
        Effect.NOTHING, f"email 3 was sent at {at:%H:%M} UTC: nothing will happen"
    )
    with override_settings(MAIL_KEY_WINDOW=window):
        assert of_email(made) == overtaken
        second, third = foresee("resend_tickets", ResendArgs(made.id, 2), ResendArgs(made.id, 3))
    assert second == overtaken
    assert third.text.startswith("already done")


def test_a_later_email_that_was_not_sent_is_no_reason_to_do_nothing(made: PlacedOrder) -> None:
    begun(made, 1)
    services.resend(made.id, 1, Actor("boxoffice"))
    assert of_email(made).effect is Effect.SAFE


def test_a_refund_is_no_later_email_of_the_tickets(sent: PlacedOrder) -> None:
    services.refund(sent.id, "moved", Actor("boxoffice"))
    drain()
    Order.objects.update(status=OrderStatus.PLACED, version=1)
    Delivery.objects.filter(kind="tickets").update(state=DeliveryState.QUEUED)
    assert of_email(sent).effect is Effect.SAFE


@pytest.mark.parametrize("generation", [-1, 0, 3, 999, 2**31, 2**62])
def test_a_resending_that_nobody_can_have_asked_for_cannot_be_replayed(
    sent: PlacedOrder, generation: int
) -> None:
    found, next_one = foresee(
        "resend_tickets", ResendArgs(sent.id, generation), ResendArgs(sent.id, 2)
    )
    assert found == Prognosis(
        Effect.IMPOSSIBLE, f"nobody asked for email {generation} of this order: the newest is 1"
    )
    assert next_one.effect is Effect.SAFE


def test_an_order_that_is_not_placed_is_sent_nothing(made: PlacedOrder) -> None:
    Order.objects.update(status=OrderStatus.CANCELLED)
    for kind, args in (
        ("email_tickets", OrderArgs(made.id)),
        ("resend_tickets", ResendArgs(made.id, 2)),
        ("render_tickets", OrderArgs(made.id)),
        ("refund_order", OrderArgs(made.id)),
    ):
        [found] = foresee(kind, args)
        assert found.effect is Effect.NOTHING
        assert "the order is cancelled, not" in found.text


def test_an_email_without_a_file_is_nothing(mailbox: MailFolder) -> None:
    order = buy(new_type())
    assert of_email(order).effect is Effect.NOTHING


def test_an_order_that_is_not_there_cannot_be_replayed() -> None:
    for kind in ("email_tickets", "render_tickets", "refund_order"):
        [found] = foresee(kind, OrderArgs(404))
        assert found.effect is Effect.IMPOSSIBLE


def test_a_render_is_nothing_once_tickets_and_file_are_there(sent: PlacedOrder) -> None:
    waiting = buy(new_type())
    done, due = foresee("render_tickets", OrderArgs(sent.id), OrderArgs(waiting.id))
    made_at = TicketFile.objects.get().made_at
    assert (done.effect, due.effect) == (Effect.NOTHING, Effect.SAFE)
    assert done.text == f"already done at {made_at:%H:%M} UTC: nothing will happen"
    Order.objects.filter(pk=sent.id).update(version=2)
    [changed] = foresee("render_tickets", OrderArgs(sent.id))
    assert changed.effect is Effect.SAFE


def test_each_generation_and_kind_is_foreseen_by_its_own_delivery(sent: PlacedOrder) -> None:
    services.resend(sent.id, 1, Actor("boxoffice"))
    second, first = foresee("resend_tickets", ResendArgs(sent.id, 2), ResendArgs(sent.id, 1))
    assert (second.effect, first.effect) == (Effect.SAFE, Effect.NOTHING)
    services.refund(sent.id, "moved", Actor("boxoffice"))
    [refund] = foresee("refund_order", OrderArgs(sent.id))
    assert refund.effect is Effect.SAFE
    drain()
    [refund] = foresee("refund_order", OrderArgs(sent.id))
    assert refund.effect is Effect.NOTHING


def test_each_refund_is_foreseen_by_its_own_number(sent: PlacedOrder) -> None:
    order = buy(new_type(), 3)
    drain()
    for seq in (1, 2):
        services.refund(order.id, "cannot come", Actor("boxoffice"), seqs=[seq])
    asked = [RefundArgs(order.id, number) for number in (1, 2, 3, 0)]
    assert [one.effect for one in foresee("email_refund", *asked)] == [
        Effect.SAFE, Effect.SAFE, Effect.IMPOSSIBLE, Effect.IMPOSSIBLE,
    ]  # fmt: skip
    drain()
    Delivery.objects.filter(kind="refund", generation=1).update(state=DeliveryState.QUEUED)
    first, second, *_ = foresee("email_refund", *asked)
    # The second one tells of another refund: the first one is still to be told of.
    assert (first.effect, second.effect) == (Effect.SAFE, Effect.NOTHING)


@pytest.mark.parametrize(
    ("kind", "looks"),
    [
        ("email_tickets", 3),
        ("render_tickets", 3),
        ("resend_tickets", 6),
        ("refund_order", 3),
        ("email_refund", 4),
        ("pay_refund", 3),
    ],
)
def test_five_thousand_are_foreseen_in_few_looks(kind: str, looks: int) -> None:
    orders = [buy(new_type()) for _ in range(3)]
    numbers = [orders[number % 3].id + number // 3 * 1000 for number in range(5000)]
    args = kind_named(kind).args_type
    more = () if args is OrderArgs else (2,)
    many = [args(pk, *more) for pk in numbers]
    with CaptureQueriesContext(connection) as asked:
        found = foresee(kind, *many)
    assert len(found) == 5000
    assert len(asked) <= looks
