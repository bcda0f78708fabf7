"""A worker's side of the stream: one consumer of the group, under a name that only it may use."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis.asyncio
from django.conf import settings
from redis import exceptions

from .connection import Entry, StreamHung, async_client, command, entries_of_items, translated
from .scripts import CLAIM_NAME, RELEASE_NAME, SET_IDLE


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """One step through the group's pending list.

    `cursor` is where the next step starts, `0-0` at the end; `trimmed` are ids that were pending
    and are no longer on the stream.
    """

    cursor: str
    entries: list[Entry]
    trimmed: list[str]


@dataclass(frozen=True, slots=True)
class Leases:
    """Which entries were not this worker's any more, and which are gone from the stream."""

    lost: list[str]
    trimmed: list[str]


class WorkerStream:
    """Raises StreamAway for an outage, StreamRefused for what no waiting mends."""

    def __init__(self, url: str, consumer: str) -> None:
        self.consumer = consumer
        self._token = secrets.token_hex(16)
        self._reader_name = f"reader-{self._token[:12]}"
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]
        self._name_key = f"{self._stream}:consumer:{consumer}"
        self._commands = async_client(url, settings.REDIS_TIMEOUT)
        # Longer than its BLOCK and never infinite: a half-open connection would hang for ever.
        self._reader = async_client(
            url,
            settings.JOBS["BLOCK"] + settings.JOBS["HUNG_AFTER"],
            client_name=self._reader_name,
            max_connections=1,
        )
        for client in (self._commands, self._reader):
            client.set_response_callback("XREADGROUP", cast(Any, _entries_of_reply))
            client.set_response_callback("XAUTOCLAIM", cast(Any, lambda reply, **_: reply))

    async def claim_name(self) -> bool:
        """Take or hold the consumer's name for NAME_TTL seconds; False while another has it."""
        milliseconds = int(settings.JOBS["NAME_TTL"] * 1000)
        with translated():
            return bool(
                await self._commands.eval(CLAIM_NAME, 1, self._name_key, self._token, milliseconds)
            )

    async def release_name(self) -> None:
        """Let the next process have the name at once."""
        with translated():
            await self._commands.eval(RELEASE_NAME, 1, self._name_key, self._token)

    async def ensure_group(self) -> None:
        """Make the group at 0 if it is missing: done and dead jobs are not run again."""
        with translated():
            try:
                await self._commands.xgroup_create(self._stream, self._group, id="0", mkstream=True)
            except exceptions.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    async def read_new(self, count: int, block: float) -> list[Entry]:
        """Up to `count` (at least 1) entries that nobody was given; waits for `block` seconds.

        At most for BLOCK seconds. Raises StreamHung where no answer came at all.
        """
        # BLOCK 0 means without end to the server.
        block = max(0.001, min(block, settings.JOBS["BLOCK"]))
        with translated():
            try:
                return await self._read(self._reader, ">", count, block)
            except exceptions.TimeoutError as error:
                raise StreamHung(f"no answer to a blocking read: {error}") from error

    async def read_pending(self, after: str, count: int) -> list[Entry]:
        """Up to `count` entries after id `after` that are pending for this consumer."""
        with translated():
            return await self._read(self._commands, after, count, None)

    async def _read(
        self, client: redis.asyncio.Redis, start: str, count: int, block: float | None
    ) -> list[Entry]:
        wait = () if block is None else ("BLOCK", int(block * 1000))
        reply: list[Entry] = await command(client)(
            "XREADGROUP", "GROUP", self._group, self.consumer, "COUNT", _positive(count), *wait,
            "STREAMS", self._stream, start,
        )  # fmt: skip
        return reply

    async def reclaim(self, cursor: str, count: int) -> Reclaimed:
        """Take over up to `count` entries that were idle for LEASE seconds, from `cursor` on."""
        milliseconds = int(settings.JOBS["LEASE"] * 1000)
        with translated():
            after, items, *trimmed = await command(self._commands)(
                "XAUTOCLAIM", self._stream, self._group, self.consumer, milliseconds, cursor,
                "COUNT", _positive(count),
            )  # fmt: skip
        gone = [entry_id.decode() for entry_id in trimmed[0]] if trimmed else []
        return Reclaimed(after.decode(), entries_of_items(items), gone)

    async def renew(self, entry_ids: Sequence[str]) -> Leases:
        """Start the lease of these entries anew, as far as they are this worker's own.

        Raises NameLost where another process goes by this name.
        """
        return await self._set_idle(0, entry_ids)

    async def hand_back(self, entry_ids: Sequence[str]) -> Leases:
        """Let anybody reclaim these entries at once, as far as they are this worker's own."""
        return await self._set_idle(int(settings.JOBS["LEASE"] * 1000) + 1, entry_ids)

    async def _set_idle(self, milliseconds: int, entry_ids: Sequence[str]) -> Leases:
        with translated():
            found: Any = await self._commands.eval(
                SET_IDLE, 2, self._stream, self._name_key,
                self._group, self.consumer, self._token, milliseconds, *entry_ids,
            )  # fmt: skip
        lost, trimmed = ([entry_id.decode() for entry_id in ids] for ids in found)
        return Leases(lost, trimmed)

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """XACK; may be repeated. Only for entries whose outcome is committed."""
        with translated():
            await self._commands.xack(self._stream, self._group, *entry_ids)

    async def wake_reader(self) -> None:
        """End a blocking read of this consumer early; it loses nothing, unlike a cancelled one."""
        with translated():
            for client in await self._commands.client_list():
                if client.get("name") == self._reader_name:
                    await command(self._commands)("CLIENT", "UNBLOCK", client["id"])

    async def ping(self) -> None:
        """Raise StreamAway or StreamRefused unless the server answers."""
        with translated():
            await self._commands.ping()

    async def close(self) -> None:
        """Give the connections back."""
        await self._commands.aclose()
        await self._reader.aclose()


def _positive(count: int) -> int:
    if count < 1:
        raise ValueError("COUNT 0 means without limit")
    return count


def _entries_of_reply(reply: Any, **options: Any) -> list[Entry]:
    if not reply:
        return []
    [(_, items)] = reply
    return entries_of_items(items)
