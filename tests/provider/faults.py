"""What goes wrong with one call, and the plan that says with which one."""

import json
import os
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """How one call goes; the functions of `http` and `smtp` make them."""

    name: str
    """As it is called in the ledger."""
    accepts: bool = True
    """Whether the email is taken (HTTP: where its key is not known already)."""
    silent: bool = False
    """Instead of an answer: nothing, until the client or the server goes away."""
    closes: bool = False
    """Instead of an answer: the connection is closed."""
    hold: float = 0.0
    """HTTP: seconds before the email is taken; its key is "in progress" meanwhile."""
    delay: float = 0.0
    """Seconds between the ledger and the answer."""
    code: int = 0
    """Of the answer, where it is not "accepted"."""
    error: str = ""
    """HTTP: the provider's name of the error."""
    retry_after: str = ""
    """HTTP: the header."""
    phase: str = "message"
    """SMTP: where it happens; "message" is the end of DATA."""


ACCEPT = Fault("accept")


@dataclass(frozen=True, slots=True)
class Plan:
    """Which fault the next call meets: its recipient's, the next step, or one of `then`."""

    number: int = 1
    steps: tuple[Fault, ...] = ()
    then: tuple[tuple[float, Fault], ...] = ((1.0, ACCEPT),)
    """Weights and faults of the calls after the steps."""
    recipients: Mapping[str, Fault] = field(default_factory=dict)
    seed: int = 0
    window: float = 0.0
    """HTTP: seconds for which a key is known."""

    def fault(self, place: int) -> Fault:
        """What call `place` of this plan meets, from 0."""
        if place < len(self.steps):
            return self.steps[place]
        chance = random.Random(f"{self.seed}:{place}")
        weights = [weight for weight, _ in self.then]
        return chance.choices([fault for _, fault in self.then], weights)[0]

    def write(self, path: Path) -> None:
        """Put this plan in the place of the one at `path`."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self)))
        os.replace(draft, path)


def read_plan(path: Path) -> Plan:
    """The plan at `path`."""
    stored: dict[str, Any] = json.loads(path.read_text())
    changed = {
        "steps": tuple(Fault(**one) for one in stored["steps"]),
        "then": tuple((weight, Fault(**one)) for weight, one in stored["then"]),
        "recipients": {to: Fault(**one) for to, one in stored["recipients"].items()},
    }
    return Plan(**{**stored, **changed})


class Planned:
    """In a server: hands out the steps of the plan. Safe between threads."""

    def __init__(self, path: Path, used: Mapping[int, int]) -> None:
        """`used`: how many calls each plan has met before this process started."""
        self._path = path
        self._used = dict(used)
        self._lock = threading.Lock()

    def begin(self) -> tuple[Plan, Fault]:
        """The plan as it is now and its next fault, for a call that begins."""
        with self._lock:
            plan = read_plan(self._path)
            place = self._used.get(plan.number, 0)
            self._used[plan.number] = place + 1
        return plan, plan.fault(place)


def chosen(plan: Plan, fault: Fault, recipients: Sequence[str]) -> Fault:
    """`fault`, or the one that the plan has for one of `recipients`."""
    return next((plan.recipients[one] for one in recipients if one in plan.recipients), fault)
