"""Staff at the door and staff that moves or cancels an event, before a real browser."""

from django.contrib.auth.models import Group

from jobs.testing import drain
from orders.models import Event
from tests.people import box_office, buy, new_event, new_type
from tickets.models import Scan, Ticket
from tickets.tokens import grouped

from .conftest import LogIn
from .people import Staff, employee


def scans(staff: Staff, code: str) -> None:
    """As a keyboard scanner: letters wherever the cursor is, then Enter."""
    # A page that is still being loaded hears no key.
    staff.window.do(lambda page: page.wait_for_load_state())
    staff.window.do(lambda page: page.keyboard.type(code))
    staff.key("Enter")


def test_people_are_let_in_by_a_scanner_without_a_mouse(log_in: LogIn) -> None:
    event = new_event(title="Nachtkonzert", slug="nacht")
    buy(new_type(event=event, name="Parkett"), 2)
    drain()
    first, second = Ticket.objects.order_by("seq")
    user = employee(name="anna")
    user.groups.add(Group.objects.get(name="door"))
    anna = log_in(user)
    anna.go("/door/")
    anna.follow("Nachtkonzert")
    anna.sees("0 of 2 in")
    scans(anna, first.token)
    anna.sees("Valid", "Ada Lovelace", "Parkett", "1 of 2 in")
    assert anna.title().startswith("Valid")
    scans(anna, grouped(first.token).lower())
    anna.sees("Used at", "let in by anna")
    scans(anna, f"{second.order.code} 2")
    anna.sees("Ask for the name", "Ada Lovelace", "1 of 2 in")
    anna.press("Let in")
    anna.sees("Valid", "2 of 2 in")
    assert anna.focus().startswith("textbox")
    # Wherever somebody has clicked meanwhile.
    anna.window.do(lambda page: page.get_by_role("heading", name="The last scans").click())
    scans(anna, "nonsense")
    anna.sees("No such ticket")
    assert anna.fits()


def test_codes_that_come_faster_than_answers_are_each_answered(log_in: LogIn) -> None:
    event = new_event(slug="nacht")
    buy(new_type(event=event), 2)
    drain()
    first, second = Ticket.objects.order_by("seq")
    anna = log_in(employee("tickets.scan_ticket"))
    anna.go("/door/nacht/")
    # At one go: no key may be lost.
    keys = [first.token, second.token, "nonsense"]
    scans(anna, "\n".join(keys))
    anna.sees("No such ticket", "2 of 2 in", "Valid")
    anna.sees_no("Used", "Checking")
    assert Scan.objects.count() == 3
    # Nothing was gone to: the way back leads out of the door, to no form that is sent again.
    anna.window.do(lambda page: page.reload())
    anna.sees("2 of 2 in")
    assert Scan.objects.count() == 3


def test_an_answer_that_does_not_come_is_no_valid_ticket(log_in: LogIn) -> None:
    event = new_event(slug="nacht")
    buy(new_type(event=event), 1)
    drain()
    token = Ticket.objects.get().token
    anna = log_in(employee("tickets.scan_ticket"))
    anna.go("/door/nacht/")
    scans(anna, token)
    anna.sees("Valid", "1 of 1 in")
    anna.window.do(lambda page: page.context.set_offline(True))
    scans(anna, token)
    anna.sees("No answer", "It is not known whether this ticket is good.")
    assert anna.title() == "No answer"
    anna.window.do(lambda page: page.context.set_offline(False))
    assert len(anna.window.complaints()) >= 1
    scans(anna, token)
    anna.sees("Used at")


def test_without_scripts_the_door_answers_too(log_in: LogIn) -> None:
    event = new_event(slug="nacht")
    buy(new_type(event=event), 1)
    drain()
    anna = log_in(employee("tickets.scan_ticket"))
    anna.window.do(lambda page: page.route("**/door*.js", lambda route: route.fulfill(body="")))
    anna.go("/door/nacht/")
    scans(anna, Ticket.objects.get().token)
    anna.sees("Valid", "1 of 1 in")
    assert anna.focus().startswith("textbox")


def test_an_event_is_moved_from_its_page(log_in: LogIn) -> None:
    kind = new_type(event=new_event(title="Nachtkonzert"))
    buy(kind)
    office = log_in(box_office())
    office.go(f"/admin/orders/event/{kind.event.pk}/change/")
    office.follow("Move the event…")
    office.sees("1 order")
    office.fill("Starts:", "2031-05-01T20:00")
    office.fill("Words to the buyers:", "The heating is broken.")
    office.press("Move the event and tell the buyers")
    office.sees("is moved to the new time", "Told 0 of 1 buyer")
    assert f"{Event.objects.get().starts:%Y-%m-%d %H:%M}" == "2031-05-01 20:00"


def test_an_event_is_cancelled_from_its_page_with_a_reason(log_in: LogIn) -> None:
    kind = new_type(event=new_event(title="Nachtkonzert"))
    buy(kind)
    office = log_in(box_office())
    office.go(f"/admin/orders/event/{kind.event.pk}/change/")
    office.follow("Cancel the event…")
    office.sees("1 order", "€42.50")
    office.press("Cancel the event, refund €42.50")
    office.sees("This field is required.")
    assert Event.objects.get().status == "on_sale"
    office.fill("Reason:", "the singer is ill")
    office.press("Cancel the event, refund €42.50")
    office.sees("it is not sold any more", "0 of 1 order refunded")
    assert Event.objects.get().status == "cancelled"
