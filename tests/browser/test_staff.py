"""Staff before a real browser: the way in, the pages of selling, and what is not for them."""

from jobs.testing import drain
from orders.models import Order
from tests.people import box_office, buy, new_event, new_type, stranger
from tickets.models import Delivery, DeliveryState

from .conftest import LogIn
from .people import Visitor, employee

INLINE = """
const script = document.createElement("script");
script.textContent = "document.title = 'it ran'";
document.body.append(script);
"""


def test_the_box_office_finds_an_order_from_the_index(log_in: LogIn) -> None:
    event = new_event(title="Nachtkonzert")
    order = buy(new_type(event=event, name="Parkett"), 2)
    office = log_in(box_office())
    office.follow("Events")
    office.sees("Nachtkonzert", "2 of 100")
    office.go("/admin/")
    office.follow("Orders")
    office.follow(order.code)
    office.sees(order.code, "Ada Lovelace", "Parkett")


def test_the_list_of_orders_shows_every_column_beside_its_filters(log_in: LogIn) -> None:
    event = new_event(title="Ein sehr langer Titel: Donaudampfschifffahrtsmusik")
    long = "a.very.long.address.of.somebody@mail.of-a-long-name.example.org"
    dear = new_type(event=event, price=123456)
    order = buy(dear, buyer_name="Hubert Wolfeschlegelsteinhausen", email=long)
    Order.objects.filter(pk=order.id).update(status="refunded")
    office = log_in(box_office())
    office.go("/admin/orders/order/")
    hidden = "list => list.scrollWidth - list.clientWidth"
    assert office.window.do(lambda page: page.locator(".results").evaluate(hidden)) == 0


def test_a_page_that_is_not_for_somebody_says_so_in_plain_words(log_in: LogIn) -> None:
    staff = log_in(stranger())
    assert staff.go("/admin/orders/order/") == 403
    staff.sees("Not for you", "You may not see this page.")


def test_a_permission_opens_its_page_and_no_other(log_in: LogIn) -> None:
    staff = log_in(employee("orders.view_event"))
    assert staff.go("/admin/orders/event/") == 200
    assert staff.go("/admin/orders/order/") == 403
    assert staff.post("/admin/orders/event/add/", title="Mine") == 403


def test_an_event_is_put_on_sale_by_keys_alone(log_in: LogIn) -> None:
    new_type(event=new_event(title="Matinee", status="draft"))
    office = log_in(box_office())
    office.go("/admin/orders/event/")
    office.tab_to('checkbox "Select this object for an action - Matinee"')
    office.key("Space")
    office.tab_to('combobox "Action:"', "Shift+Tab")
    office.key("P")  # as one does in a list: Publish
    office.tab_to('button "Run"')
    office.key("Enter")
    office.sees("Matinee was put on sale.")


def test_tickets_are_emailed_once_more_from_the_page_of_the_order(log_in: LogIn) -> None:
    order = buy(new_type())
    drain()
    office = log_in(box_office())
    office.go(f"/admin/orders/order/{order.id}/change/")
    office.press("Resend the email")
    office.sees("The tickets will be emailed to buyer@example.org once more.")
    drain()
    assert Delivery.objects.filter(order_id=order.id, state=DeliveryState.SENT).count() == 2


def test_a_refund_asks_first_and_wants_a_reason(log_in: LogIn) -> None:
    order = buy(new_type())
    drain()
    office = log_in(box_office())
    office.go(f"/admin/orders/order/{order.id}/change/")
    office.follow("Refund…")
    office.press("Refund the chosen tickets")
    office.sees("This field is required.")
    assert Order.objects.get(pk=order.id).is_placed
    office.fill("Reason:", "the show moved")
    office.press("Refund the chosen tickets")
    office.sees("Refunded.", "the show moved")
    assert not {"Resend the email", "Render again"} & set(office.buttons())


def test_the_watch_sees_a_breach_of_the_content_policy(visitor: Visitor) -> None:
    visitor.go("/")
    visitor.window.do(lambda page: page.evaluate(INLINE))
    assert any("content policy: script-src" in told for told in visitor.window.complaints())
    assert visitor.window.do(lambda page: page.title()) != "it ran"
