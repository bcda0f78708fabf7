"""The shipped configuration under a real nginx: what passes, what is kept back, what is logged."""

import contextlib
import http.client
import http.server
import os
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stagedoor.embedded import free_port
from tests.processes import ROOT, wait_for

SECRET = "/o/JE6ENJF7CRIT76EDCZ7UPHYYXD/"


class Shop(http.server.BaseHTTPRequestHandler):
    """Stands for gunicorn: answers with what it was told about the visitor."""

    def do_GET(self) -> None:
        """Answer a page."""
        status = 503 if self.path == "/away/" else 200
        body = f"{self.command} {self.path}\n{self.headers}".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Take a form."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Door:
    """A running nginx, and the shop behind it."""

    def __init__(self, folder: Path, port: int, shop: http.server.ThreadingHTTPServer) -> None:
        self.folder = folder
        self.port = port
        self.shop = shop

    def ask(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and text of an answer."""
        told = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        told.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=told, timeout=20)
        with contextlib.closing(connection):
            method = "GET" if body is None else "POST"
            connection.request(method, path, body, {"Host": "shop.example", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def answers(self) -> bool:
        """Whether it serves."""
        with contextlib.suppress(OSError):
            return self.ask("/healthz")[0] == 200
        return False

    def logs(self) -> str:
        """All that it has written down."""
        return "".join(path.read_text() for path in self.folder.glob("*.log"))


def configuration(folder: Path, port: int, shop: int) -> str:
    """The shipped one, with this machine's ports and folders."""
    text = (ROOT / "deploy" / "nginx" / "stagedoor.conf").read_text()
    text = re.sub(r"^ *listen .*80;$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *listen \[::\]:443.*$", "", text, flags=re.MULTILINE)
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{shop}")
    text = text.replace("/var/log/nginx", str(folder))
    text = text.replace("/var/lib/stagedoor", str(folder))
    text = text.replace("/opt/stagedoor/current/share/stagedoor", str(ROOT / "deploy"))
    text = re.sub(r"/etc/letsencrypt/live/shop.example/fullchain.pem", f"{folder}/cert.pem", text)
    text = re.sub(r"/etc/letsencrypt/live/shop.example/privkey.pem", f"{folder}/key.pem", text)
    unused = free_port()
    text = text.replace("server {\n\n\n", f"server {{\n    listen 127.0.0.1:{unused};\n", 1)
    places = f"pid {folder}/pid; error_log {folder}/main.log; daemon off; master_process off;\n"
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    scratch = "".join(f"{name}_temp_path {folder}/{name};\n" for name in paths)
    return f"{places}events {{}}\nhttp {{\n{scratch}{text}}}\n"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One for all tests here."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        if "REQUIRE_NGINX" in os.environ:
            raise AssertionError("no nginx on the path: apt install nginx-light")
        pytest.skip("no nginx on the path")
    folder = tmp_path_factory.mktemp("nginx")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))
    subprocess.run([*make, *files], check=True, capture_output=True)
    (folder / "static").mkdir()
    (folder / "static" / "site.1a2b.css").write_text("body {}")
    shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    made = Door(folder, free_port(), shop)
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, made.port, shop.server_address[1]))
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(file)])
    try:
        wait_for(lambda: made.answers() or process.poll() is not None, "nginx")
        assert process.poll() is None, made.logs()
        yield made
    finally:
        process.kill()
        process.wait()
        shop.shutdown()
        shop.server_close()


def test_the_shop_is_told_who_asks_and_not_what_a_visitor_says_of_himself(door: Door) -> None:
    lies = {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "http", "Forwarded": "for=8.8.8.8"}
    _, text = door.ask("/", headers=lies)
    assert "X-Forwarded-For: 127.0.0.1" in text
    assert "X-Forwarded-Proto: https" in text
    assert "Host: shop.example" in text
    assert "8.8.8.8" not in text


def test_the_metrics_are_not_for_the_street_and_static_files_come_from_the_disk(
    door: Door,
) -> None:
    assert door.ask("/metrics")[0] == 404
    assert "GET /metrics" not in door.ask("/metrics")[1]
    assert door.ask("/static/site.1a2b.css") == (200, "body {}")
    assert door.ask("/static/of-an-older-release.css")[1].startswith("GET /static/of-an-older")


def test_a_form_above_the_limits_gets_a_page_of_ours_and_pages_are_not_limited(door: Door) -> None:
    answers = [door.ask("/lost-link/", b"email=a") for _ in range(14)]
    assert [status for status, _ in answers[:10]] == [200] * 10
    refused = [text for status, text in answers if status == 429]
    assert refused
    assert all("The same form never orders twice" in text for text in refused)
    assert {door.ask("/lost-link/")[0] for _ in range(20)} == {200}
    orders = [door.ask("/orders/", b"quantity=1")[0] for _ in range(75)]
    assert orders[:50] == [200] * 50
    assert 429 in orders
    assert door.ask("/orders/", b"x" * 100_000)[0] == 413


def test_the_secret_of_a_link_is_in_no_log_even_where_the_shop_is_away(door: Door) -> None:
    door.ask(f"{SECRET}?from=email")
    wait_for(lambda: "/o/*** HTTP" in door.logs(), "a line of the access log")
    assert SECRET[3:-1] not in door.logs()


def test_a_shop_that_speaks_is_let_speak_and_one_that_does_not_has_a_page(door: Door) -> None:
    status, text = door.ask("/away/")
    assert (status, text.splitlines()[0]) == (503, "GET /away/")
    door.shop.shutdown()
    door.shop.server_close()
    for path in ("/", SECRET):
        status, text = door.ask(path)
        assert status == 502
        assert "The shop does not answer just now" in text
    assert "connect() failed" in door.logs()
    assert SECRET[3:-1] not in door.logs()
