"""Who sits before the browser: a visitor, and staff who logged in through the form."""

import re
from collections.abc import Callable

from django.contrib.auth.models import Permission, User
from playwright.sync_api import Locator, expect

from .chromium import Window

PASSWORD = "x"
FITS = """
document.documentElement.scrollWidth <= window.innerWidth
&& [...document.querySelectorAll("input[type=submit]")].every((button) =>
  button.getBoundingClientRect().right <= button.parentElement.getBoundingClientRect().right)
"""


def employee(*permissions: str, name: str = "employee") -> User:
    """A new member of staff with just these permissions, such as `orders.view_event`."""
    user = User.objects.create_user(name, password=PASSWORD, is_staff=True)
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )
    return user


class Visitor:
    """Reads pages, follows links, fills in forms. Each step waits until it can be done."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def go(self, path: str) -> int:
        """Open the page at `path`; the status of the answer."""
        answer = self.window.do(lambda page: page.goto(path))
        assert answer is not None, path
        return answer.status

    def path(self) -> str:
        """Of the page at hand, with its query."""
        return self.window.do(lambda page: re.sub(r"^https?://[^/]+", "", page.url))

    def text(self) -> str:
        """All that can be read on the page."""
        return self.window.do(lambda page: page.locator("body").inner_text())

    def title(self) -> str:
        """Of the page."""
        return self.window.do(lambda page: page.title())

    def main[T](self, act: Callable[[Locator], T]) -> T:
        """Do something in the page's main part: its header and sidebar name the same things."""
        return self.window.do(lambda page: act(page.get_by_role("main")))

    def follow(self, link: str) -> None:
        """Click the link of this name; the first, where there are two."""
        self.main(lambda main: main.get_by_role("link", name=link, exact=True).first.click())

    def press(self, button: str) -> None:
        """Click the button of this name."""
        self.main(lambda main: main.get_by_role("button", name=button, exact=True).click())

    def fill(self, label: str, text: str) -> None:
        """Write `text` into the field with this label."""
        self.main(lambda main: main.get_by_label(label, exact=True).fill(text))

    def choose(self, label: str, option: str) -> None:
        """Choose an option, as it is shown, from the list with this label."""
        self.main(lambda main: main.get_by_role("combobox", name=label).select_option(label=option))

    def fill_in_row(self, header: str, label: str, text: str) -> None:
        """The same in the row of a table with this header."""

        def fill(main: Locator) -> None:
            head = main.page.get_by_role("rowheader", name=header, exact=True)
            main.get_by_role("row").filter(has=head).get_by_label(label).fill(text)

        self.main(fill)

    def search(self, term: str) -> None:
        """Search the admin's list at hand."""
        self.main(
            lambda main: main.get_by_role("searchbox").or_(main.locator("#searchbar")).fill(term)
        )
        self.press("Search")

    def tick(self, label: str) -> None:
        """Tick the box with this label."""
        self.main(lambda main: main.get_by_label(label, exact=True).check())

    def key(self, key: str) -> None:
        """Press one key: `Tab`, `Enter`, `Space`, `a`."""
        self.window.do(lambda page: page.keyboard.press(key))

    def tab_to(self, wanted: str, key: str = "Tab", limit: int = 100) -> None:
        """Press Tab (or Shift+Tab) until the focus is on `wanted`, such as `link "Events"`."""
        passed: list[str] = []
        while wanted not in passed and len(passed) < limit:
            self.key(key)
            passed.append(self.focus())
        assert passed[-1] == wanted, f"not within {limit} steps, only: {passed}"

    def focus(self) -> str:
        """Role and name of what has the focus, as a screen reader says them; empty for nothing."""
        said = self.window.do(
            lambda page: [one.aria_snapshot() for one in page.locator("body :focus").all()]
        )
        found = re.match(r'- (\w+(?: "[^"]*")?)', said[0]) if said else None
        return found[1] if found else ""

    def sees(self, *texts: str) -> None:
        """Wait until each of these can be read in the page's main part."""

        def look(main: Locator) -> None:
            for text in texts:
                expect(main).to_contain_text(text)

        self.main(look)

    def sees_no(self, *texts: str) -> None:
        """Wait until none of these is in the page's main part."""

        def look(main: Locator) -> None:
            for text in texts:
                expect(main).not_to_contain_text(text)

        self.main(look)

    def links(self, name: str) -> int:
        """How many links of this name the page's main part has."""
        return self.main(lambda main: main.get_by_role("link", name=name, exact=True).count())

    def buttons(self) -> list[str]:
        """What sends a form in the page's main part, in order."""
        sending = "button, input[type=submit]"
        return self.main(
            lambda main: [
                button.inner_text() or button.get_attribute("value") or ""
                for button in main.locator(sending).all()
            ]
        )

    def fits(self) -> bool:
        """Whether the page is no wider than its window, and no button than what it stands in."""
        self.window.do(lambda page: page.wait_for_load_state())
        return bool(self.window.do(lambda page: page.evaluate(FITS)))


class Staff(Visitor):
    """A visitor who is logged in to the admin."""

    def log_in(self, user: User) -> None:
        """Through the form, as everybody."""
        self.go("/admin/login/")
        self.fill("Username:", user.username)
        self.fill("Password:", PASSWORD)
        self.press("Log in")
        self.window.do(lambda page: page.wait_for_url("**/admin/"))

    def run_on_all(self, action: str) -> None:
        """On one of the admin's lists: choose what is on the page and run the action."""
        self.tick("Select all objects on this page for an action")
        self.choose("Action:", action)
        self.press("Run")

    def post(self, path: str, **form: str) -> int:
        """Send a form that no page has shown, with this session and token; the status."""
        fields: dict[str, str | float | bool] = {
            "csrfmiddlewaretoken": self.window.cookie("csrftoken"), **form,
        }  # fmt: skip
        return self.window.do(
            lambda page: page.request.post(path, form=fields, max_redirects=0).status
        )
