"""A job and its two notations: the typed `Job` that handlers get, the flat entry on the stream."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

ENVELOPE = ("kind", "outbox_id", "request_id", "trace")
BIGINT_MAX = 2**63 - 1
ARGS_LIMIT = 1024
"""Bytes of a job's arguments as JSON: ids, never data that the handler can look up (design §3)."""
TEXT_LIMIT = 1024
"""Bytes of one field of an entry at most."""
DECIMAL = re.compile(r"0|-?[1-9][0-9]*")

type Fields = Sequence[tuple[bytes, bytes]]
"""The fields of an entry as they lie on the stream: a name may stand there twice."""
type Reader = Callable[[Mapping[bytes, bytes], str], int | str]


class MalformedJob(ValueError):
    """An entry that is not a job; raised by `parse_job`, with the field and the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Desk(Protocol):
    """What a running job can ask of the worker that runs it."""

    def effects(self) -> AbstractContextManager[None]: ...
    def nothing_to_do(self) -> None: ...
    def compute[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...


@dataclass(frozen=True, kw_only=True)
class Job[A]:
    """A parsed entry: the kind, its typed arguments and where it came from.

    `scheduled_for`: the due time that a schedule fired it for, in UTC; None for any other job. It
    is the outbox row's: the entry does not carry it.
    """

    kind: str
    args: A
    outbox_id: int
    request_id: str
    trace: str
    scheduled_for: datetime | None = None
    desk: Desk | None = None

    def args_by_name(self) -> dict[str, int | str]:
        """The arguments as they stand in the outbox row."""
        return {name: getattr(self.args, name) for name in self.args.__dataclass_fields__}  # type: ignore[attr-defined]

    def effects(self) -> AbstractContextManager[None]:
        """The one transaction in which the job becomes done; see `runner.Run.effects`."""
        return self._at_desk().effects()

    def nothing_to_do(self) -> None:
        """Inside `effects()`: record that the wanted state was there already."""
        self._at_desk().nothing_to_do()

    def compute[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run CPU work outside the worker's process; see `pool.Pool.compute`."""
        return self._at_desk().compute(function, *args, **kwargs)

    def _at_desk(self) -> Desk:
        if self.desk is None:
            raise RuntimeError(f"job {self.outbox_id} ({self.kind}) is not being run by a worker")
        return self.desk


def args_type_problem(args_type: type) -> str | None:
    """Why `args_type` cannot be a kind's arguments, or None: a frozen dataclass of int and str."""
    if not dataclasses.is_dataclass(args_type):
        return "is not a dataclass"
    if not args_type.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return "is not frozen"
    for field in dataclasses.fields(args_type):
        if field.type not in (int, str):
            return f"has the field {field.name!r}, which is neither int nor str"
        if field.name in ENVELOPE:
            return f"has the field {field.name!r}, which belongs to the envelope"
    return None


def encode_job(
    kind: str, args: Mapping[str, int | str], envelope: Mapping[str, int | str]
) -> dict[str, str]:
    """The flat fields of an entry; the inverse of `parse_job` for well-typed args."""
    fields: dict[str, int | str] = {"kind": kind, **args, **envelope}
    return {name: str(value) for name, value in fields.items()}


def parse_kind(fields: Fields) -> str:
    """The kind of an entry. Raises MalformedJob where it has none that can be read."""
    return _text(_unique(fields), "kind")


def parse_outbox_id(fields: Fields) -> int | None:
    """The outbox id of an entry, whatever else is wrong with it; None where it has none."""
    try:
        return _integer(_unique(fields), "outbox_id", least=1)
    except MalformedJob:
        return None


def parse_job[A](fields: Fields, args_type: type[A]) -> Job[A]:
    """Turn an entry into a typed job. Raises MalformedJob, and nothing else, saying which field."""
    found = _unique(fields)
    known, readers = _layout(args_type)  # type: ignore[arg-type]
    for extra in found.keys() - known:
        raise MalformedJob(_printable(extra), "is not a field of this kind")
    values: dict[str, Any] = {name: read(found, name) for name, read in readers}
    return Job(
        kind=_text(found, "kind"),
        args=_made(args_type, values),
        outbox_id=_integer(found, "outbox_id", least=1),
        request_id=_text(found, "request_id"),
        trace=_text(found, "trace"),
    )


@functools.cache
def _layout(args_type: type) -> tuple[frozenset[bytes], tuple[tuple[str, Reader], ...]]:
    """The names of all fields of an entry with these arguments, and how each argument is read."""
    specs = dataclasses.fields(args_type)
    names = frozenset(name.encode() for name in (*ENVELOPE, *(spec.name for spec in specs)))
    return names, tuple((spec.name, _integer if spec.type is int else _text) for spec in specs)


def _made[A](args_type: type[A], values: Mapping[str, Any]) -> A:
    try:
        return args_type(**values)
    except Exception as error:
        raise MalformedJob("args", f"are refused by {args_type.__name__}: {error}") from error


def _unique(fields: Fields) -> Mapping[bytes, bytes]:
    found = dict(fields)
    if len(found) == len(fields):
        return found
    names = [name for name, _ in fields]
    repeated = next(name for name in names if names.count(name) > 1)
    raise MalformedJob(_printable(repeated), "stands there more than once")


def _raw(fields: Mapping[bytes, bytes], name: str) -> bytes:
    try:
        raw = fields[name.encode()]
    except KeyError:
        raise MalformedJob(name, "is missing") from None
    if len(raw) > TEXT_LIMIT:
        raise MalformedJob(name, f"has {len(raw)} bytes, more than {TEXT_LIMIT}")
    return raw


def _text(fields: Mapping[bytes, bytes], name: str) -> str:
    try:
        text = _raw(fields, name).decode()
    except UnicodeDecodeError:
        raise MalformedJob(name, "is not UTF-8") from None
    if "\0" in text:
        raise MalformedJob(name, "contains a NUL")
    return text


def _integer(fields: Mapping[bytes, bytes], name: str, least: int = -BIGINT_MAX) -> int:
    text = _text(fields, name)
    # Canonical decimals only: int() would also take "1_0", " 1" and digits of other scripts.
    if not DECIMAL.fullmatch(text):
        raise MalformedJob(name, f"is not a whole number: {text[:40]!r}")
    if len(text) > 20 or not least <= int(text) <= BIGINT_MAX:
        raise MalformedJob(name, f"is out of range: {text[:40]!r}")
    return int(text)


def _printable(raw: bytes) -> str:
    return ascii(raw[:40].decode(errors="replace"))
