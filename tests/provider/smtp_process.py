"""The process of `smtp.MailServer`: `python -m tests.provider.smtp_process FOLDER PORT`."""

import asyncio
import email
import hashlib
import time
from email import policy
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, Envelope, Session

from .faults import ACCEPT, Fault, Plan, chosen
from .ledger import Call
from .process import HOST, Desk

FOREVER = 24 * 3600.0
"""Seconds; how long a connection may be idle."""


class Talk(SMTP):
    """One connection: what aiosmtpd does, with a fault in the place of one reply."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(
            self, enable_SMTPUTF8=True, hostname="mail.example", timeout=FOREVER,
            loop=asyncio.get_running_loop(),
        )  # fmt: skip
        self._desk = desk
        self._plan = Plan()
        self._fault: Fault | None = None
        """Of the message under way; None once it has happened."""
        self._told = False
        """Whether it has: EHLO and the HELO that follows are one call."""

    async def _handle_client(self) -> None:
        self._begin()
        if not await self._fails("connect"):
            await super()._handle_client()
        elif self.transport is not None:
            self.transport.close()

    def _begin(self) -> None:
        self._plan, self._fault = self._desk.plans.begin()
        self._told = False

    async def smtp_HELO(self, hostname: str) -> None:
        """The same as EHLO: a client falls back to it."""
        if not await self._fails("EHLO"):
            await super().smtp_HELO(hostname)

    async def smtp_EHLO(self, hostname: str) -> None:
        """The first words of the client."""
        if not await self._fails("EHLO"):
            await super().smtp_EHLO(hostname)

    async def smtp_MAIL(self, arg: str | None) -> None:
        """The sender; a message begins."""
        if self._fault is None:
            self._begin()
        if not await self._fails("MAIL"):
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg: str | None) -> None:
        """A recipient, who may have a fault of its own."""
        address = (arg or "").partition("<")[2].partition(">")[0]
        self._fault = chosen(self._plan, self._fault or ACCEPT, [address])
        if not await self._fails("RCPT", recipients=(address,)):
            await super().smtp_RCPT(arg)

    async def smtp_DATA(self, arg: str) -> None:
        """The announcement of the message."""
        if not await self._fails("DATA"):
            await super().smtp_DATA(arg)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """The end of the message: decide, note, and only then reply as the fault says."""
        fault = self._fault or ACCEPT
        self._fault = None
        self._note(fault, envelope)
        await asyncio.sleep(fault.delay)
        await self._instead(fault)
        return "250 accepted" if not fault.code else f"{fault.code} {fault.name}"

    async def _fails(self, phase: str, recipients: tuple[str, ...] = ()) -> bool:
        fault = self._fault
        if fault is None or fault.phase != phase:
            return False
        if not self._told:
            self._desk.ledger.write(_call(self._plan, fault, recipients=recipients))
        self._told = True
        if phase != "EHLO":
            self._fault = None
        await self._instead(fault)
        await self.push(f"{fault.code} {fault.name}")
        return True

    async def _instead(self, fault: Fault) -> None:
        if fault.silent:
            await asyncio.Event().wait()
        if fault.closes and self.transport is not None:
            self.transport.close()
            await asyncio.Event().wait()  # its end cancels this task

    def _note(self, fault: Fault, envelope: Envelope) -> None:
        content = envelope.original_content or b""
        message = email.message_from_bytes(content, policy=policy.default)
        recipients = tuple(envelope.rcpt_tos)
        call = _call(self._plan, fault, recipients=recipients, message=message, content=content)
        self._desk.ledger.write(call)


def _call(
    plan: Plan, fault: Fault, *, recipients: tuple[str, ...] = (),
    message: EmailMessage | None = None, content: bytes = b"",
) -> Call:  # fmt: skip
    name = str(message["Message-ID"] or "") if message else ""
    return Call(
        at=time.time(), plan=plan.number, fault=fault.name, key=name, accepted=fault.accepts,
        code=0 if fault.silent or fault.closes else fault.code or 250, recipients=recipients,
        subject=str(message["Subject"] or "") if message else "", message_id=name,
        digest=hashlib.sha256(content).hexdigest(),
    )  # fmt: skip


async def serve() -> None:
    """Serve until killed."""
    desk = Desk()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Talk(desk), HOST, desk.port)
    desk.open(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
