"""What replays of dead jobs would do: said before anybody clicks, and looked at again when they do.

The handlers' apps know what is done already (`Kind.foresee`); what cannot run at all is known here.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .job import ARGS_LIMIT, Fields, Job, MalformedJob
from .prognosis import Effect, Prognosis
from .purging import retained_since
from .registry import Kind, UnknownKind, kind_named, parse_entry

TOO_OLD = Prognosis(
    Effect.IMPOSSIBLE,
    "cannot be replayed: it is so old that it is not known any more what it has done",
)
SAFE = Prognosis(Effect.SAFE, "not done yet, safe")


@dataclass(frozen=True, slots=True)
class Asked:
    """A dead job whose replay is thought of; `created_at` None: one that would be new."""

    id: int
    kind: str
    args: Any
    created_at: datetime | None = None


def foresee(asked: Sequence[Asked]) -> dict[int, Prognosis]:
    """What a replay of each would do; one look at the database for each kind."""
    found: dict[int, Prognosis] = {}
    known_since = retained_since()
    by_kind: dict[str, list[tuple[int, Any]]] = {}
    for one in asked:
        if one.created_at and one.created_at < known_since:
            found[one.id] = TOO_OLD
            continue
        try:
            job = _of_row(one)
        except (UnknownKind, MalformedJob) as error:
            found[one.id] = impossible(error)
        else:
            by_kind.setdefault(one.kind, []).append((one.id, job.args))
    for kind, jobs in by_kind.items():
        found |= _of_kind(kind_named(kind), jobs)
    return found


def _of_kind(kind: Kind[Any], jobs: Iterable[tuple[int, Any]]) -> dict[int, Prognosis]:
    ids, args = zip(*jobs, strict=True)
    if kind.foresee is None:
        return dict.fromkeys(ids, SAFE)
    return dict(zip(ids, kind.foresee(args), strict=True))


def _of_row(one: Asked) -> Job[Any]:
    job = parsed(one.kind, one.args)
    # "7" for 7 would parse, and then not be the row's own: `effects()` compares them.
    if job.args_by_name() != one.args:
        raise MalformedJob("args", "are not of the types that the kind declares")
    return job


def impossible(error: UnknownKind | MalformedJob) -> Prognosis:
    """The prognosis for what no worker of this build can run."""
    if isinstance(error, UnknownKind):
        text = f"this build does not know the kind {error}"
    else:
        text = f"cannot be replayed: it does not parse: {error}"
    return Prognosis(Effect.IMPOSSIBLE, text)


def parsed(kind: str, args: Any) -> Job[Any]:
    """The job that such an entry would be. Raises UnknownKind or MalformedJob."""
    kind_named(kind)
    if not isinstance(args, Mapping):
        raise MalformedJob("args", f"are a {type(args).__name__}, not names and values")
    for name, value in args.items():
        if type(value) not in (int, str):
            raise MalformedJob(str(name), f"is a {type(value).__name__}, neither int nor str")
    # The relay would not publish it: it would be dead again.
    size = len(json.dumps(dict(args), ensure_ascii=False).encode(errors="replace"))
    if size > ARGS_LIMIT:
        raise MalformedJob("args", f"have {size} bytes, more than {ARGS_LIMIT}")
    return parse_entry(_fields(kind, {str(name): str(value) for name, value in args.items()}))


def _fields(kind: str, args: Mapping[str, str]) -> Fields:
    named = {"kind": kind, "outbox_id": "1", "request_id": "", "trace": ""}
    pairs = [*named.items(), *args.items()]
    return [(name.encode(errors="replace"), text.encode(errors="replace")) for name, text in pairs]
