"""The only file that knows Redis: the stream, its consumer group and the consumers' names.

Two clients of the same stream: `RelayStream` (blocking) appends, `WorkerStream` (asyncio) reads
and acknowledges. Both raise `StreamAway` for an outage and `StreamRefused` for what no waiting
mends; neither repeats a command by itself.
"""

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis
import redis.asyncio
from django.conf import settings
from redis import exceptions
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from .job import Fields

OUTAGE_REPLIES = (
    "LOADING", "READONLY", "MISCONF", "OOM", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN",
    "NOREPLICAS", "BUSY ", "TRYAGAIN",
)  # fmt: skip

CREATE_GROUP_FIRST = """
local start = redis.call('EXISTS', KEYS[1]) == 0 and '$' or '0'
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], start, 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
return start
"""

CLAIM_NAME = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

RELEASE_NAME = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class StreamAway(Exception):
    """The stream's server does not serve at present: wait and try again."""


class NoGroup(StreamAway):
    """The stream or its group is gone: make it again, at 0."""


class StreamRefused(Exception):
    """The server refuses this client (password, permission): waiting does not help."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the stream. `fields` is empty where the entry was trimmed under its reader."""

    id: str
    fields: Fields


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
        raise StreamRefused(str(error)) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        raise StreamAway(f"{type(error).__name__}: {error}") from error
    except exceptions.ResponseError as error:
        raise _of_reply(error) from error


def _of_reply(error: exceptions.ResponseError) -> Exception:
    text = str(error)
    if text.startswith("NOGROUP") or "no such key" in text:
        return NoGroup(text)
    if text.startswith(("NOAUTH", "WRONGPASS", "NOPERM")):
        return StreamRefused(text)
    known = isinstance(
        error, exceptions.BusyLoadingError | exceptions.ReadOnlyError | exceptions.OutOfMemoryError
    )
    return StreamAway(text) if known or text.startswith(OUTAGE_REPLIES) else error


def _connection_options(url: str, timeout: float) -> dict[str, Any]:
    # Replies stay bytes: one value that is not UTF-8 would fail its whole batch, for ever.
    return {
        **({} if url.startswith("unix:") else {"socket_keepalive": True}),
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": timeout,
        "socket_connect_timeout": max(settings.REDIS_TIMEOUT, 1.0),
    }


class RelayStream:
    """The relay's side. Safe to use from one thread."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url, retry=Retry(NoBackoff(), 0), **_connection_options(url, settings.REDIS_TIMEOUT)
        )
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]

    def ensure_group(self) -> None:
        """Make the group: at `$` where no stream exists yet, else at 0, to miss nothing."""
        with _translated():
            self._redis.eval(CREATE_GROUP_FIRST, 1, self._stream, self._group)

    def append(self, entries: Sequence[Mapping[str, str]]) -> list[str]:
        """Add the entries in one pipeline and return their ids, in order.

        Raises StreamAway if any was not answered: some may have been added all the same.
        """
        with _translated():
            pipeline = self._redis.pipeline(transaction=False)
            for fields in entries:
                raw: dict[Any, Any] = dict(fields)
                pipeline.xadd(self._stream, raw, maxlen=settings.JOBS["MAXLEN"], approximate=True)
            return [entry_id.decode() for entry_id in pipeline.execute()]

    def ping(self) -> None:
        """Raise StreamAway or StreamRefused unless the server answers."""
        with _translated():
            self._redis.ping()

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()


class WorkerStream:
    """A worker's side: one consumer of the group, under a name that only it may use."""

    def __init__(self, url: str, consumer: str) -> None:
        self.consumer = consumer
        self._token = secrets.token_hex(16)
        self._reader_name = f"reader-{self._token[:12]}"
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]
        self._commands = redis.asyncio.Redis.from_url(
            url,
            retry=AsyncRetry(NoBackoff(), 0),
            **_connection_options(url, settings.REDIS_TIMEOUT),
        )
        self._reader = redis.asyncio.Redis.from_url(
            url,
            retry=AsyncRetry(NoBackoff(), 0),
            client_name=self._reader_name,
            max_connections=1,
            **_connection_options(url, settings.JOBS["BLOCK"] + 5.0),
        )
        for client in (self._commands, self._reader):
            client.set_response_callback("XREADGROUP", cast(Any, _entries_of_reply))

    @property
    def _name_key(self) -> str:
        return f"{self._stream}:consumer:{self.consumer}"

    async def claim_name(self) -> bool:
        """Take or hold the consumer's name for NAME_TTL seconds; False while another has it."""
        milliseconds = int(settings.JOBS["NAME_TTL"] * 1000)
        with _translated():
            return bool(
                await self._commands.eval(CLAIM_NAME, 1, self._name_key, self._token, milliseconds)
            )

    async def release_name(self) -> None:
        """Let the next process have the name at once."""
        with _translated():
            await self._commands.eval(RELEASE_NAME, 1, self._name_key, self._token)

    async def ensure_group(self) -> None:
        """Make the group at 0 if it is missing: done and dead jobs are not run again."""
        with _translated():
            try:
                await self._commands.xgroup_create(self._stream, self._group, id="0", mkstream=True)
            except exceptions.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    async def read_new(self, count: int) -> list[Entry]:
        """Up to `count` (at least 1) entries that nobody was given; waits BLOCK seconds for one."""
        with _translated():
            return await self._read(self._reader, ">", count, settings.JOBS["BLOCK"])

    async def read_pending(self, after: str, count: int) -> list[Entry]:
        """Up to `count` entries after id `after` that are pending for this consumer."""
        with _translated():
            return await self._read(self._commands, after, count, None)

    async def _read(
        self, client: redis.asyncio.Redis, start: str, count: int, block: float | None
    ) -> list[Entry]:
        if count < 1:
            raise ValueError("COUNT 0 means without limit")
        wait = () if block is None else ("BLOCK", int(block * 1000))
        reply: list[Entry] = await _command(client)(
            "XREADGROUP", "GROUP", self._group, self.consumer, "COUNT", count, *wait,
            "STREAMS", self._stream, start,
        )  # fmt: skip
        return reply

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """XACK; may be repeated. Only for entries whose outcome is committed."""
        with _translated():
            await self._commands.xack(self._stream, self._group, *entry_ids)

    async def wake_reader(self) -> None:
        """End a blocking read of this consumer early; it loses nothing, unlike a cancelled one."""
        with _translated():
            for client in await self._commands.client_list():
                if client.get("name") == self._reader_name:
                    await _command(self._commands)("CLIENT", "UNBLOCK", client["id"])

    async def close(self) -> None:
        """Give the connections back."""
        await self._commands.aclose()
        await self._reader.aclose()


def _command(client: redis.asyncio.Redis) -> Callable[..., Awaitable[Any]]:
    return cast("Callable[..., Awaitable[Any]]", client.execute_command)


def _entries_of_reply(reply: Any, **options: Any) -> list[Entry]:
    if not reply:
        return []
    [(_, items)] = reply
    return [Entry(entry_id.decode(), _pairs(flat or [])) for entry_id, flat in items]


def _pairs(flat: Sequence[bytes]) -> Fields:
    return list(zip(flat[::2], flat[1::2], strict=True))
