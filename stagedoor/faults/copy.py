"""The running copy that faults are played against: its processes, its buyers, its jobs."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db.models import F

from jobs.models import Process
from orders.models import EventStatus, TicketType
from stagedoor.mailbox import DOWN, REFUSING
from stagedoor.place import Place, Refused

from .buyer import Bought, Buyer

PATIENCE = 240.0
"""Seconds; a kind that failed is held for half a minute, a dead worker's jobs may take 90 s."""
LOOK_AGAIN = 0.1
PLACES = 80
"""What the faults sell, with some to spare."""
OURS = "stagedoor.mailbox.Mailbox"


class RunningCopy:
    """The copy in a `Place`. Raises Refused where faults cannot be played safely."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.base = f"http://127.0.0.1:{place.written_environment()['PORT']}"
        if settings.MAILERS["default"]["BACKEND"] != OURS:
            raise Refused("This copy sends its emails to a real provider: nothing is played here.")
        if place.process("redis") is None:
            raise Refused("This copy runs on servers of yours: nothing is played on those.")
        self.buyer = self._buyer()

    @property
    def worker(self) -> str:
        """The name of the worker that is killed."""
        return f"{socket.gethostname()}-1"

    def _buyer(self) -> Buyer:
        on_sale = TicketType.objects.filter(event__status=EventStatus.ON_SALE)
        most = (
            on_sale.select_related("event", "stock")
            .order_by(F("stock__taken") - F("stock__capacity"))
            .first()
        )
        if most is None or most.stock.left < PLACES:
            raise Refused(f"No event of this copy has {PLACES} places left to sell.")
        return Buyer(self.base, most.event.slug, most.pk)

    def await_worker(self) -> None:
        """Wait until the worker that is killed works: after a kill it waits for its name first."""
        wait_for(self._works, f"{self.worker} to work")

    def _works(self) -> bool:
        started = self._place.started_at("worker-1")
        if started is None:
            return False
        since = datetime.fromtimestamp(started, UTC)
        return Process.objects.filter(role="worker", name=self.worker, seen_at__gt=since).exists()

    def signal(self, part: str, number: signal.Signals) -> int:
        """Send a signal to a part of this copy once it runs; the number of its process."""
        pid = wait_for(lambda: self._place.process(part), f"{part} to run")
        # Its file says what runs only as long as the copy does.
        if not self._place.runs():
            raise Refused("The copy has stopped.")
        os.kill(pid, number)
        return pid

    @contextmanager
    def frozen(self, part: str) -> Iterator[None]:
        """A part of this copy does not go on meanwhile."""
        self.signal(part, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                self.signal(part, signal.SIGCONT)

    @contextmanager
    def mail(self, fault: str) -> Iterator[Path]:
        """The development mailbox plays `fault` meanwhile."""
        switch = settings.MAIL_DIR / fault
        switch.parent.mkdir(parents=True, exist_ok=True)
        switch.touch()
        try:
            yield switch
        finally:
            switch.unlink(missing_ok=True)

    def mend(self) -> None:
        """Take back what an earlier show that was killed left behind."""
        for fault in (DOWN, REFUSING):
            (settings.MAIL_DIR / fault).unlink(missing_ok=True)

    def await_state(self, bought: list[Bought], *states: str) -> float:
        """Wait until the pages of these orders say one of `states`; the seconds it took."""
        began = time.monotonic()
        for one in bought:
            wait_for(
                lambda one=one: self.buyer.state(one) in states,  # type: ignore[misc]
                f"order {one.code} to be {' or '.join(states)}",
            )
        return time.monotonic() - began


def wait_for[T](condition: Callable[[], T | None], what: str) -> T:
    """The first true answer of `condition`. Raises Refused after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise Refused(f"Waited {PATIENCE:g} s in vain for {what}; the copy's lines say why.")
        time.sleep(LOOK_AGAIN)
    return answer
