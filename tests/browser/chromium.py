"""One Chromium in a thread of its own, and its windows, which remember what went wrong in them."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    Response,
    expect,
    sync_playwright,
)

WIDE, NARROW = 1280, 320
"""Widths of a desk's screen and of the smallest telephone, in CSS pixels."""
HEIGHT = 900
PATIENCE_MS = 10_000
POLICY_WATCH = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
  `content policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
LEFT_BY_THE_PAGE = "net::ERR_ABORTED"
"""How a request ends that a click on the next link overtook: nobody's fault."""


class Chromium:
    """The system's Chromium without a screen; `do()` is the door to it.

    It has a thread of its own. Playwright's sync API leaves an event loop running in the thread
    that uses it, and Django takes such a thread for an asynchronous one: it refuses every query
    there (SynchronousOnlyOperation), and where DJANGO_ALLOW_ASYNC_UNSAFE forbids that, it opens a
    second connection that no fixture knows and that nobody closes; `asyncio.run()` of any later
    test would refuse, too. In its own thread, the tests' thread stays what it is everywhere else.
    """

    def __init__(self, binary: str) -> None:
        self._thread = ThreadPoolExecutor(1, "chromium")
        self._playwright, self._browser = self.do(lambda: _launch(binary))

    def do[T](self, act: Callable[[], T]) -> T:
        """Run `act` in Chromium's thread; its answer, or its error, here."""
        return self._thread.submit(act).result()

    def window(self, address: str, width: int) -> "Window":
        """A new window with cookies of its own, for the site at `address`."""

        def open_page() -> Page:
            context = self._browser.new_context(
                base_url=address, viewport={"width": width, "height": HEIGHT},
                locale="en-GB", timezone_id="UTC", reduced_motion="reduce",
            )  # fmt: skip
            context.set_default_timeout(PATIENCE_MS)
            context.add_init_script(POLICY_WATCH)
            return context.new_page()

        return Window(self, self.do(open_page))

    def end(self) -> None:
        """Close it and end its thread."""
        self.do(self._browser.close)
        self.do(self._playwright.stop)
        self._thread.shutdown()


def _launch(binary: str) -> tuple[Playwright, Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    playwright = sync_playwright().start()
    # Chromium refuses to start with its sandbox as root, as whom most gates run.
    sandbox = os.geteuid() != 0
    return playwright, playwright.chromium.launch(executable_path=binary, chromium_sandbox=sandbox)


class Window:
    """One page, and whatever went wrong in it."""

    def __init__(self, chromium: Chromium, page: Page) -> None:
        self._chromium = chromium
        self._page = page
        self._complaints: list[str] = []
        chromium.do(self._watch)

    def do[T](self, act: Callable[[Page], T]) -> T:
        """Run `act` on the page; playwright's waiting applies, also that of its `expect()`."""
        return self._chromium.do(lambda: act(self._page))

    def complaints(self) -> list[str]:
        """Errors in scripts, breaches of the content policy, requests that failed; once."""
        self.do(lambda page: page.evaluate("0"))  # what was said before this answer has arrived
        found, self._complaints[:] = self._complaints[:], []
        return found

    def cookie(self, name: str) -> str:
        """The value of a cookie, also of one that no script may read. Raises KeyError."""
        cookies = self.do(lambda page: page.context.cookies())
        return {cookie["name"]: cookie["value"] for cookie in cookies}[name]

    def close(self) -> None:
        """Close it and forget its cookies."""
        self.do(lambda page: page.context.close())

    def resize(self, width: int) -> None:
        """Make it so many CSS pixels wide."""
        self.do(lambda page: page.set_viewport_size({"width": width, "height": HEIGHT}))

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        self.do(lambda page: page.screenshot(path=file, full_page=True))

    def _watch(self) -> None:
        self._page.on("console", self._on_console)
        self._page.on("pageerror", lambda error: self._complain(f"script: {error}"))
        self._page.on("response", self._on_response)
        self._page.on("requestfailed", self._on_failure)

    def _complain(self, text: str) -> None:
        self._complaints.append(f"{text} (on {self._page.url})")

    def _on_console(self, message: ConsoleMessage) -> None:
        # Each answer with an error is said here as well: those are judged by their status.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self._complain(f"console: {message.text}")

    def _on_response(self, response: Response) -> None:
        # A page may be refused: tests ask for that. What a page itself asks for may not.
        limit = 500 if response.request.is_navigation_request() else 400
        if response.status >= limit:
            self._complain(f"{response.status} for {response.url}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != LEFT_BY_THE_PAGE:
            self._complain(f"{request.failure} for {request.url}")
