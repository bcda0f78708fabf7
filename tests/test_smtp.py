"""A mail server that takes its time over every reply does not hold a job for all of them."""

import socketserver
import threading
from collections.abc import Iterator

import pytest
from django.core.mail import EmailMessage

from stagedoor.smtp import Backend

PATIENCE = 1.0
"""Seconds for all replies."""


class Slow(socketserver.StreamRequestHandler):
    """Replies to everything, each time just before a client gives up that waits for one reply."""

    replies: list[str]

    def handle(self) -> None:
        """One connection, until the client goes away."""
        self.replies = self.server.replies = []  # type: ignore[attr-defined]
        over = threading.Event()
        line = b"hello"
        while line and not over.wait(0.6 * PATIENCE):
            self.replies.append(line.decode())
            self.wfile.write(b"220 yes\r\n" if line == b"hello" else b"250 yes\r\n")
            line = self.rfile.readline()


@pytest.fixture
def server() -> Iterator[socketserver.ThreadingTCPServer]:
    """One that is slow."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_all_replies_together_have_the_time_of_one(server: socketserver.ThreadingTCPServer) -> None:
    backend = Backend(
        host="127.0.0.1", port=server.server_address[1], timeout=PATIENCE, alias="default"
    )
    message = EmailMessage("Tickets", "Here", "shop@example.org", ["buyer@example.org"])
    try:
        with pytest.raises(OSError, match="timed out"):
            backend.send_messages([message])
    finally:
        backend.close()
    assert len(server.replies) < 3  # type: ignore[attr-defined]
