"""The two notations of a job: whatever the stream holds is a job or a MalformedJob."""

from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.job import BIGINT_MAX, Job, MalformedJob, args_type_problem, encode_job, parse_job
from jobs.registry import UnknownKind, all_kinds, parse_entry

ENVELOPE: dict[str, int | str] = {"outbox_id": 7, "request_id": "7f3a9c2e", "trace": "4bf9-35"}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)


@dataclass(frozen=True)
class Args:
    order_id: int
    note: str


def entry(**changes: bytes | None) -> list[tuple[bytes, bytes]]:
    """A good entry of `Args` with these fields changed, or left out where None."""
    good = encode_job("example", {"order_id": 4471, "note": "hi"}, ENVELOPE)
    fields = {name.encode(): value.encode() for name, value in good.items()}
    for name, value in changes.items():
        fields.pop(name.encode(), None)
        if value is not None:
            fields[name.encode()] = value
    return list(fields.items())


def test_a_good_entry_is_a_typed_job() -> None:
    job = parse_job(entry(), Args)
    assert job == Job(
        kind="example", args=Args(4471, "hi"), outbox_id=7, request_id="7f3a9c2e", trace="4bf9-35"
    )


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("order_id", None, "is missing"),
        ("outbox_id", None, "is missing"),
        ("kind", None, "is missing"),
        ("order_id", b"", "not a whole number"),
        ("order_id", b"1_0", "not a whole number"),
        ("order_id", b" 1", "not a whole number"),
        ("order_id", b"+1", "not a whole number"),
        ("order_id", b"-0", "not a whole number"),
        ("order_id", b"007", "not a whole number"),
        ("order_id", "٣".encode(), "not a whole number"),
        ("order_id", b"1.5", "not a whole number"),
        ("order_id", b"9223372036854775808", "out of range"),
        ("order_id", b"9" * 900, "out of range"),
        ("order_id", b"1" * 5000, "more than 1024"),
        ("outbox_id", b"0", "out of range"),
        ("outbox_id", b"-1", "out of range"),
        ("note", b"\xff\xfe", "not UTF-8"),
        ("note", b"a\0b", "NUL"),
        ("note", b"x" * 1025, "more than 1024"),
        ("surprise", b"x", "not a field"),
    ],
)
def test_a_bad_field_is_named_with_its_reason(field: str, value: bytes | None, reason: str) -> None:
    with pytest.raises(MalformedJob, match=reason) as caught:
        parse_job(entry(**{field: value}), Args)
    assert field in caught.value.field


def test_a_field_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(MalformedJob, match="more than once"):
        parse_job([*entry(), (b"order_id", b"9")], Args)


def test_an_unknown_kind_is_told_apart_from_a_malformed_job() -> None:
    with pytest.raises(UnknownKind):
        parse_entry(entry(kind=b"from_a_newer_build"))


@given(st.lists(st.tuples(st.binary(max_size=1100), st.binary(max_size=1100)), max_size=12))
def test_any_bytes_are_a_job_or_malformed(fields: list[tuple[bytes, bytes]]) -> None:
    _job_or_refused(fields)


@given(st.data())
def test_a_good_entry_with_any_field_replaced_is_a_job_or_malformed(data: st.DataObject) -> None:
    fields = entry()
    at = data.draw(st.integers(0, len(fields) - 1))
    fields[at] = (fields[at][0], data.draw(st.binary(max_size=1100)))
    _job_or_refused(fields)


def _job_or_refused(fields: list[tuple[bytes, bytes]]) -> None:
    outcome: Job[Args] | str
    try:
        outcome = parse_job(fields, Args)
    except MalformedJob as refused:
        outcome = refused.reason
    assert outcome


@given(st.data())
def test_every_registered_kind_survives_the_round_trip(data: st.DataObject) -> None:
    for kind in all_kinds():
        specs = kind.args_type.__dataclass_fields__.values()
        args: dict[str, Any] = {
            spec.name: data.draw(
                st.integers(-BIGINT_MAX, BIGINT_MAX) if spec.type is int else TEXTS
            )
            for spec in specs
        }
        fields = encode_job(kind.name, args, ENVELOPE)
        job = parse_entry([(name.encode(), value.encode()) for name, value in fields.items()])
        assert job.args == kind.args_type(**args)


@pytest.mark.parametrize(
    ("args_type", "problem"),
    [
        (int, "not a dataclass"),
        (make_dataclass("Thawed", [("order_id", int)]), "not frozen"),
        (make_dataclass("Floating", [("x", float)], frozen=True), "neither int nor str"),
        (make_dataclass("Enveloped", [("kind", str)], frozen=True), "belongs to the envelope"),
    ],
)
def test_arguments_of_another_shape_are_refused(args_type: type, problem: str) -> None:
    assert problem in str(args_type_problem(args_type))
