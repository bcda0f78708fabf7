"""The process of `http.Provider`: `python -m tests.provider.resend_api FOLDER PORT`."""

import contextlib
import hashlib
import json
import threading
import time
import uuid
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .faults import Fault, Plan, chosen
from .http import Provider, in_progress, other_body, refused
from .ledger import Call
from .process import HOST, Desk

REQUIRED = ("from", "to", "subject")


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it came."""

    path: str
    authorization: str
    key: str
    body: bytes

    def fields(self) -> dict[str, Any]:
        """The email; empty where the body is none."""
        with contextlib.suppress(ValueError):
            parsed = json.loads(self.body)
            return parsed if isinstance(parsed, dict) else {}
        return {}

    def recipients(self) -> tuple[str, ...]:
        """Of the email; Resend takes one address or a list."""
        given = self.fields().get("to", ())
        return (given,) if isinstance(given, str) else tuple(given)

    def call(self, plan: int, fault: Fault) -> Call:
        """Its line in the ledger, where nothing is accepted."""
        email = self.fields()
        headers = {name.lower(): value for name, value in email.get("headers", {}).items()}
        return Call(
            at=time.time(), plan=plan, fault=fault.name, key=self.key, accepted=False,
            code=_code(fault), recipients=self.recipients(),
            subject=email.get("subject", ""), message_id=headers.get("message-id", ""),
            digest=hashlib.sha256(self.body).hexdigest(),
        )  # fmt: skip


def _code(fault: Fault) -> int:
    return 0 if fault.silent or fault.closes else fault.code or 200


def objection(request: Request) -> Fault | None:
    """What is wrong with a call whatever the plan says, in Resend's names."""
    if request.path != "/emails":
        return refused(404, "not_found")
    if not request.authorization:
        return refused(401, "missing_api_key")
    if request.authorization != f"Bearer {Provider.api_key}":
        return refused(403, "invalid_api_key")
    if len(request.key) > 256:
        return refused(400, "invalid_idempotency_key")
    if not set(REQUIRED) <= set(request.fields()):
        return refused(422, "missing_required_field")
    return None


class Decisions:
    """Decides calls and notes them: a key is accepted once within the window."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._accepted = {call.key: call for call in desk.before if call.accepted and call.key}

    def decide(self, request: Request) -> tuple[Fault, Call]:
        """How `request` is answered, and its line, which is on disk."""
        plan, fault = self._desk.plans.begin()
        fault = objection(request) or chosen(plan, fault, request.recipients())
        if fault.accepts and request.key:
            return self._with_key(request, plan, fault)
        return fault, self._note(request, plan, fault, accepted=fault.accepts)

    def _with_key(self, request: Request, plan: Plan, fault: Fault) -> tuple[Fault, Call]:
        with self._lock:
            busy = request.key in self._under_way
            self._under_way.add(request.key)
        if busy:
            return in_progress(), self._note(request, plan, in_progress(), accepted=False)
        try:
            time.sleep(fault.hold)
            return self._once(request, plan, fault)
        finally:
            with self._lock:
                self._under_way.discard(request.key)

    def _once(self, request: Request, plan: Plan, fault: Fault) -> tuple[Fault, Call]:
        known = self._accepted.get(request.key)
        if known is None or time.time() - known.at >= plan.window:
            call = self._note(request, plan, fault, accepted=True)
            self._accepted[request.key] = call
            return fault, call
        if known.digest != hashlib.sha256(request.body).hexdigest():
            return other_body(), self._note(request, plan, other_body(), accepted=False)
        return fault, self._note(request, plan, fault, accepted=False, name=known.id)

    def _note(
        self, request: Request, plan: Plan, fault: Fault, *, accepted: bool, name: str = ""
    ) -> Call:
        call = request.call(plan.number, fault)
        made = str(uuid.uuid4()) if accepted else name
        call = replace(call, accepted=accepted, id=made)
        self._desk.ledger.write(call)
        return call


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    decisions: Decisions

    def do_POST(self) -> None:
        """Decide, note, and only then answer as the fault says."""
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # its client died in the middle: no call
            self.close_connection = True
            return
        fault, call = self.decisions.decide(self._request(body))
        with contextlib.suppress(OSError):
            self._end(fault, call)

    def _end(self, fault: Fault, call: Call) -> None:
        time.sleep(fault.delay)
        if fault.silent:
            self.connection.recv(1)  # until the client has gone away
        if fault.silent or fault.closes:
            self.close_connection = True
        else:
            self._answer(fault, call)

    def _request(self, body: bytes) -> Request:
        return Request(
            path=self.path,
            authorization=self.headers.get("Authorization", ""),
            key=self.headers.get("Idempotency-Key", ""),
            body=body,
        )

    def _answer(self, fault: Fault, call: Call) -> None:
        body: dict[str, Any] = {"id": call.id}
        if fault.code:
            body = {"statusCode": fault.code, "name": fault.error, "message": fault.name}
        content = json.dumps(body).encode()
        self.send_response(call.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if fault.retry_after:
            self.send_header("Retry-After", fault.retry_after)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """The ledger has it."""


class Server(ThreadingHTTPServer):
    """A call that is never answered keeps no other waiting, and no server from ending."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serve until killed."""
    desk = Desk()
    Handler.decisions = Decisions(desk)
    with Server((HOST, desk.port), Handler) as server:
        desk.open(server.server_address[1])
        server.serve_forever()


if __name__ == "__main__":
    main()
