"""The port of a long-running process: whoever asks it, and however, it and its log stay well."""

import http.client
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.registry import Collector

from jobs import exposition
from jobs.pulse import Pulse
from tests.processes import wait_for

LIMIT = 0.3
"""Seconds that a client has in these tests."""
THREAD = "process_request_thread"


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("stagedoor_some", "Something.", registry=made).set(1)
    return made


@pytest.fixture
def server(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> Iterator[exposition._Server]:
    monkeypatch.setattr(exposition, "READ_TIMEOUT", LIMIT)
    pulse = Pulse(every=60)
    made = exposition._Server("127.0.0.1", 0, registry, lambda: pulse.trouble(60))
    serving = threading.Thread(target=made.serve_forever, args=(0.02,))
    serving.start()
    yield made
    made.shutdown()
    serving.join()
    made.server_close()


def ask(server: exposition._Server, path: str, method: str = "GET") -> tuple[int, bytes, str]:
    """Status, body, and the length that was told."""
    caller = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    caller.request(method, path)
    answer = caller.getresponse()
    return answer.status, answer.read(), answer.headers["Content-Length"]


def connected(server: exposition._Server, said: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.server_port), timeout=10)
    made.sendall(said)
    return made


def threads() -> int:
    return sum(THREAD in one.name for one in threading.enumerate())


def test_a_look_at_the_head_alone_is_answered_as_the_whole(server: exposition._Server) -> None:
    for path, status in (("/metrics", 200), ("/healthz", 200), ("/", 404)):
        whole = ask(server, path)
        assert (whole[0], len(whole[1])) == (status, int(whole[2]))
        assert ask(server, path, "HEAD") == (status, b"", whole[2])


def test_a_loop_that_stands_still_is_ill(
    server: exposition._Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(server, "/healthz")[:2] == (200, b"ok\n")
    monkeypatch.setattr(server, "trouble", lambda: "the loop has not turned for 61 s")
    assert ask(server, "/healthz")[:2] == (503, b"the loop has not turned for 61 s\n")


def test_who_sends_a_request_byte_by_byte_is_cut_off(server: exposition._Server) -> None:
    def drips() -> bool:
        try:
            slow.sendall(b"r")
        except OSError:
            return False
        return True

    with connected(server, b"GET /met") as slow:
        wait_for(lambda: not drips(), "the end of the connection", 10)
        wait_for(lambda: not threads(), "the end of its thread", 10)


def test_no_more_are_served_at_once_than_may_be(
    server: exposition._Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "CLIENTS", 3)
    monkeypatch.setattr(exposition, "READ_TIMEOUT", 60.0)
    silent = [connected(server) for _ in range(3)]
    wait_for(lambda: threads() == 3, "a thread for each")
    with connected(server) as late:
        assert late.recv(1) == b"", "turned away"
    silent.pop().close()
    wait_for(lambda: threads() == 2, "room")
    assert ask(server, "/healthz")[0] == 200
    for one in silent:
        one.close()


def test_who_hangs_up_in_mid_answer_leaves_no_word(
    server: exposition._Server, registry: CollectorRegistry,
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    came, gone = threading.Event(), threading.Event()

    class Slow(Collector):
        def collect(self) -> Any:
            came.set()
            assert gone.wait(10)
            return ()

    registry.register(Slow())
    came.clear()
    caller = connected(server)
    # A reset, not an end: else what is answered would only go unread.
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert came.wait(10)
    caller.close()
    gone.set()
    wait_for(lambda: not threads(), "the end of its thread", 10)
    assert capfd.readouterr().err == ""
    assert caplog.records == []


def test_a_scrape_that_fails_is_a_line_of_log(
    server: exposition._Server, registry: CollectorRegistry,
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    class Broken(Collector):
        def describe(self) -> Any:
            return ()

        def collect(self) -> Any:
            raise ZeroDivisionError

    registry.register(Broken())
    with pytest.raises(http.client.RemoteDisconnected):
        ask(server, "/metrics")
    wait_for(lambda: caplog.records, "a line", 10)
    [line] = caplog.records
    assert (line.levelno, line.name) == (logging.ERROR, "jobs.exposition")
    assert capfd.readouterr().err == ""
