"""What jobs are about, in the words of the app that owns it: `jobs` knows no orders."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Allowed(Protocol):
    """A user, as far as permissions go."""

    def has_perm(self, permission: str, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class About:
    """A subject for staff: its name (an order's code), its admin page, its present state.

    `permission` is needed to open the page.
    """

    name: str
    url: str
    state: str
    permission: str

    def seen_by(self, user: Allowed) -> "About":
        """The same, without the page that this person may not open."""
        return self if user.has_perm(self.permission) else dataclasses.replace(self, url="")


@dataclass(frozen=True, slots=True)
class Family:
    """The subjects `<prefix>:<id>`. `find`: the subjects that a searched text names exactly.

    `describe`: those of the subjects that exist, in one look at the database.
    """

    prefix: str
    find: Callable[[str], Sequence[str]]
    describe: Callable[[Sequence[str]], Mapping[str, About]]


_families: dict[str, Family] = {}


def register(family: Family) -> None:
    """Let staff see these subjects. Raises ValueError for a prefix that is taken."""
    if family.prefix in _families:
        raise ValueError(f"there are subjects {family.prefix!r} already")
    _families[family.prefix] = family


def find(text: str) -> list[str]:
    """Every subject that `text` names exactly."""
    return [subject for family in _families.values() for subject in family.find(text)]


def describe(subjects: Sequence[str]) -> dict[str, About]:
    """What is known of these subjects; those of no family, or that are gone, are missing."""
    found: dict[str, About] = {}
    for prefix, family in _families.items():
        own = [subject for subject in subjects if subject.startswith(f"{prefix}:")]
        if own:
            found |= family.describe(own)
    return found
