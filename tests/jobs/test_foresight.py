"""What a replay would do, told of a row as it is: it cannot run, or what its kind foresees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from jobs import foresight
from jobs.foresight import SAFE, Asked, foresee
from jobs.job import Job, MalformedJob
from jobs.prognosis import Effect, Prognosis
from jobs.registry import UnknownKind
from tests.conftest import Register

DONE = Prognosis(Effect.NOTHING, "done at 20:00, nothing will happen")


@dataclass(frozen=True)
class Args:
    number: int
    note: str


@dataclass(frozen=True)
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError("number must be positive")


@pytest.fixture
def asked_for(kind: Register) -> list[list[Any]]:
    """The arguments of each look that the kind `seer` was asked for; `plain` foresees nothing."""
    looks: list[list[Any]] = []

    def look(args: Sequence[Args]) -> list[Prognosis]:
        looks.append(list(args))
        return [DONE if one.number % 2 else SAFE for one in args]

    @kind("seer", foresee=look)
    def seer(job: Job[Args]) -> None: ...

    @kind("plain")
    def plain(job: Job[Args]) -> None: ...

    @kind("positive")
    def positive(job: Job[Positive]) -> None: ...

    return looks


def args(number: Any = 1, note: Any = "x") -> dict[str, Any]:
    return {"number": number, "note": note}


def test_each_kind_looks_once_for_all_its_jobs(asked_for: list[list[Any]]) -> None:
    found = foresee(
        [Asked(7, "seer", args(1)), Asked(8, "plain", args(1)), Asked(9, "seer", args(2))]
    )
    assert found == {7: DONE, 8: SAFE, 9: SAFE}
    assert asked_for == [[Args(1, "x"), Args(2, "x")]]


def test_nothing_asked_is_nothing_said(asked_for: list[list[Any]]) -> None:
    assert foresee([]) == {}
    assert asked_for == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"number": 1}, "note: is missing"),
        ({}, "number: is missing"),
        ({**args(), "more": 1}, "'more': is not a field of this kind"),
        ({**args(), "kind": "plain"}, "'kind': stands there more than once"),
        ({**args(), "outbox_id": 9}, "'outbox_id': stands there more than once"),
        (args("7"), "args: are not of the types that the kind declares"),
        (args(note=7), "args: are not of the types that the kind declares"),
        (args("seven"), "number: is not a whole number: 'seven'"),
        (args("07"), "number: is not a whole number: '07'"),
        (args(2**63), "number: is out of range"),
        (args(True), "number: is a bool, neither int nor str"),
        (args(1.0), "number: is a float, neither int nor str"),
        (args(None), "number: is a NoneType, neither int nor str"),
        (args([1]), "number: is a list, neither int nor str"),
        (args({"a": 1}), "number: is a dict, neither int nor str"),
        (args(note="a\0b"), "note: contains a NUL"),
        (args(note="x" * 2000), "args: have 2025 bytes, more than 1024"),
        (args(note="é" * 510), "args: have 1045 bytes, more than 1024"),
        ([1, 2], "args: are a list, not names and values"),
        ("number", "args: are a str, not names and values"),
        (7, "args: are a int, not names and values"),
        (None, "args: are a NoneType, not names and values"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_parse_cannot_be_replayed_and_says_why(
    wrong: Any, reason: str, asked_for: list[list[Any]]
) -> None:
    """And keeps none of the others from being foreseen."""
    found = foresee([Asked(1, "seer", wrong), Asked(2, "seer", args(1))])
    assert found[1].effect is Effect.IMPOSSIBLE
    assert found[1].text.startswith("cannot be replayed: it does not parse: ")
    assert reason in found[1].text
    assert found[2] == DONE


def test_arguments_that_their_own_class_refuses_cannot_be_replayed(
    asked_for: list[list[Any]],
) -> None:
    found = foresee([Asked(1, "positive", {"number": 0}), Asked(2, "positive", {"number": 1})])
    assert "number must be positive" in found[1].text
    assert found[2] == SAFE


@pytest.mark.parametrize("name", ["of_tomorrow", "", "drop table"])
def test_a_kind_that_this_build_does_not_know_cannot_be_replayed_here(
    name: str, asked_for: list[list[Any]]
) -> None:
    [found] = foresee([Asked(1, name, args())]).values()
    assert found == Prognosis(Effect.IMPOSSIBLE, f"this build does not know the kind {name}")


def test_a_kind_that_foresees_too_few_is_an_error_and_no_wrong_prognosis(kind: Register) -> None:
    @kind("careless", foresee=lambda args: [SAFE])
    def careless(job: Job[Args]) -> None: ...

    with pytest.raises(ValueError, match="shorter"):
        foresee([Asked(1, "careless", args(1)), Asked(2, "careless", args(2))])


def test_what_is_parsed_is_what_a_worker_would_get(asked_for: list[list[Any]]) -> None:
    for numbers in (1, -1, 0, 2**63 - 1):
        assert foresight.parsed("plain", args(numbers, "ä\n")).args == Args(numbers, "ä\n")
    assert foresight.parsed("plain", args("7")).args == Args(7, "x")
    with pytest.raises(UnknownKind):
        foresight.parsed("of_tomorrow", [1])
    with pytest.raises(MalformedJob):
        foresight.parsed("plain", [1])
