"""Kinds: which handler, argument type and policy each name selects."""

import dataclasses
import enum
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .job import Fields, Job, args_type_problem, parse_job, parse_kind
from .policy import Policy
from .prognosis import Prognosis


class UnknownKind(LookupError):
    """No handler of this build goes by that name; raised by `kind_named` and `parse_entry`."""


class Lane(enum.StrEnum):
    """What a kind's jobs may delay: nothing delays tickets."""

    TICKETS = "tickets"
    BULK = "bulk"


type Foresee[A] = Callable[[Sequence[A]], Sequence[Prognosis]]
type Consent[A] = Callable[[Sequence[A]], None]


@dataclass(frozen=True, kw_only=True)
class Kind[A]:
    """One registered kind.

    `subject`: what its jobs are about, a template over their arguments. `outside`: the service
    whose answers they wait for: it gets a share of a worker's slots (`shares`). `foresee`: what
    replays of jobs with these arguments would do. `consent`: called, once for all of them, in the
    transaction of a replay that may do something twice and that a person asked for all the same.
    `then`: the kind of which each of its jobs enqueues one; predictions count it in.
    """

    name: str
    args_type: type[A]
    policy: Policy
    handle: Callable[[Job[A]], None]
    subject: str = ""
    lane: Lane = Lane.TICKETS
    outside: str = ""
    foresee: Foresee[A] | None = None
    consent: Consent[A] | None = None
    then: str = ""

    def subject_of(self, args: Mapping[str, object]) -> str:
        """What a job with these arguments is about, e.g. `order:4471`."""
        return self.subject.format_map(args)

    def checked_args(self, args: Mapping[str, object]) -> dict[str, int | str]:
        """`args` if they are exactly this kind's, each of its type; raises TypeError otherwise."""
        wanted = {spec.name: spec.type for spec in dataclasses.fields(self.args_type)}  # type: ignore[arg-type]
        if args.keys() != wanted.keys():
            raise TypeError(f"{self.name} takes {sorted(wanted)}, not {sorted(args)}")
        for name, value in args.items():
            if type(value) is not wanted[name]:
                raise TypeError(f"{self.name}: {name} must be {wanted[name]}, not {type(value)}")
        return typing.cast("dict[str, int | str]", dict(args))


_kinds: dict[str, Kind[Any]] = {}


def handler[A](
    name: str,
    *,
    policy: Policy | None = None,
    subject: str = "",
    lane: Lane = Lane.TICKETS,
    outside: str = "",
    foresee: Foresee[A] | None = None,
    consent: Consent[A] | None = None,
    then: str = "",
) -> Callable[[Callable[[Job[A]], None]], Callable[[Job[A]], None]]:
    """Register the decorated function as the handler of the kind `name`; see `Kind`.

    Its parameter is annotated `Job[Args]`, Args being a frozen dataclass of int and str next to
    it. `subject`, e.g. `order:{order_id}`, may name its arguments. Raises TypeError for any other
    signature, ValueError for a name that is taken or a subject that names anything else.
    """

    def register(function: Callable[[Job[A]], None]) -> Callable[[Job[A]], None]:
        if name in _kinds:
            raise ValueError(f"the kind {name!r} has a handler already: {_kinds[name].handle}")
        args_type = _declared_args(function)
        if problem := args_type_problem(args_type):
            raise TypeError(f"{args_type.__name__}, the arguments of {name!r}, {problem}")
        _refuse_other_names(subject, args_type)
        _kinds[name] = Kind(
            name=name, args_type=args_type, policy=policy or Policy(), handle=function,
            subject=subject, lane=lane, outside=outside, foresee=foresee, consent=consent,
            then=then,
        )  # fmt: skip
        return function

    return register


def _refuse_other_names(subject: str, args_type: type) -> None:
    try:
        subject.format_map({spec.name: 1 for spec in dataclasses.fields(args_type)})
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"the subject {subject!r} must name {args_type.__name__}'s own") from error


def _declared_args(function: Callable[..., None]) -> type:
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    declared = [typing.get_args(hint) for hint in hints.values() if typing.get_origin(hint) is Job]
    if len(declared) != 1 or len(hints) != 1:
        raise TypeError(f"{function.__qualname__} must take one parameter annotated Job[Args]")
    return typing.cast(type, declared[0][0])


def kind_named(name: str) -> Kind[Any]:
    """The kind `name`. Raises UnknownKind."""
    try:
        return _kinds[name]
    except KeyError:
        raise UnknownKind(name) from None


def all_kinds() -> Iterator[Kind[Any]]:
    """Every registered kind, by name."""
    return iter(sorted(_kinds.values(), key=lambda kind: kind.name))


def forget_kind(name: str) -> None:
    """Take a kind back: for tests that registered one."""
    del _kinds[name]


def parse_entry(fields: Fields) -> Job[Any]:
    """Turn an entry into the typed job of its kind. Raises MalformedJob or UnknownKind."""
    return parse_job(fields, kind_named(parse_kind(fields)).args_type)
