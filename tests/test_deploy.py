"""Example settings and servers' configurations: in step with the code, and accepted by servers."""

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.db import connection

from stagedoor.embedded import free_port
from stagedoor.settings import base
from stagedoor.settings.mail import PROVIDERS
from tests.jobs import looks
from tests.processes import ROOT, wait_for

DEPLOY = ROOT / "deploy"
OF_PROVIDERS = {
    name for one in PROVIDERS.values() for name in (*one.needs.values(), *one.may.values())
}
OTHERS = {"DEBUG", "DJANGO_SETTINGS_MODULE"}
"""Never set in production."""


def documented() -> set[str]:
    """Variables that the tables of settings name, in their first column."""
    text = (ROOT / "docs" / "operations.md").read_text()
    [section] = re.findall(r"^## Settings$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (.*)\|.*\|$", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", row)} | OF_PROVIDERS


def example() -> dict[str, str]:
    """Variables of the example, commented out or not."""
    text = (DEPLOY / "stagedoor.env.example").read_text()
    return dict(re.findall(r"^#?([A-Z][A-Z0-9_]+)=(.*)$", text, re.MULTILINE))


def read_by_code() -> set[str]:
    """Variables that settings and gunicorn's configuration ask for."""
    files = [*(ROOT / "stagedoor" / "settings").glob("*.py"), DEPLOY / "gunicorn.conf.py"]
    asked = r'(?:env\.\w+|required|environ\.get)\(\s*"([A-Z][A-Z0-9_]+)"'
    return {name for file in files for name in re.findall(asked, file.read_text())}


def test_the_example_has_every_setting_that_the_documentation_names_and_no_other() -> None:
    mentioned = documented() | {"SECRET_KEY_FALLBACKS", "EMAIL_URL", "MAIL_WEBHOOK_SECRET"}
    assert set(example()) == mentioned


def test_every_variable_that_the_code_reads_is_documented() -> None:
    assert read_by_code() - OTHERS <= set(example())


def test_what_the_example_leaves_commented_out_is_the_default() -> None:
    told = {
        name.removeprefix("JOBS_"): float(value)
        for name, value in example().items()
        if name.startswith("JOBS_")
    }
    shipped = defaults()
    assert told == {name: shipped[name] for name in told}
    assert len(told) > 30


def defaults() -> dict[str, Any]:
    """`JOBS` of the base settings, which the tests' own have changed in place."""
    spec = importlib.util.spec_from_file_location("stagedoor.settings.fresh", base.__file__)
    assert spec
    assert spec.loader
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    jobs: dict[str, Any] = fresh.JOBS
    return jobs


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Debian's Redis under both configurations as shipped: the address of each."""
    if shutil.which("redis-server") is None:
        if "REQUIRE_REDIS" in os.environ:
            raise AssertionError("no redis-server on the path: apt install redis-server")
        pytest.skip("no redis-server on the path")
    started: list[subprocess.Popen[bytes]] = []
    addresses = {}
    for name in ("stream", "sessions"):
        port, password = free_port(), secrets.token_hex(16)
        (tmp_path / f"{name}.password").write_text(f"requirepass {password}\n")
        text = (DEPLOY / "redis" / f"{name}.conf").read_text()
        text = text.replace("include /etc/redis", f"include {tmp_path}")
        text = re.sub(r"^port .*", f"port {port}", text, flags=re.MULTILINE)
        text = re.sub(r"^dir .*", f"dir {tmp_path}", text, flags=re.MULTILINE)
        (tmp_path / f"{name}.conf").write_text(text)
        log = (tmp_path / f"{name}.log").open("wb")
        with log:
            command = ["redis-server", str(tmp_path / f"{name}.conf")]
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        addresses[name] = f"redis://:{password}@127.0.0.1:{port}/0"
    yield addresses
    for process in started:
        process.kill()
        process.wait()


def answers(client: redis_client.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis_client.ConnectionError:
        return False


@pytest.mark.django_db(transaction=True)
def test_the_shipped_stream_server_has_nothing_that_the_doctor_warns_of(
    servers: dict[str, str], settings: Any
) -> None:
    with redis_client.Redis.from_url(servers["stream"]) as client:
        wait_for(lambda: answers(client), "the server")
        client.xgroup_create("jobs", "workers", "0", mkstream=True)
    settings.REDIS_URL = servers["stream"]
    code, text, _ = looks.run("doctor")
    about = [line for line in text.splitlines() if "appendonly" in line or "maxmemory" in line]
    assert len(about) == 2
    assert all(line.startswith("ok") for line in about), text
    assert code == 0, text


def test_the_shipped_sessions_server_forgets_rather_than_refuses(servers: dict[str, str]) -> None:
    with redis_client.Redis.from_url(servers["sessions"]) as client:
        wait_for(lambda: answers(client), "the server")
        client.config_set("maxmemory", "3mb")
        for number in range(3000):
            client.set(f"session-{number}", "x" * 2000)
        info: Any = client.info("stats")
    assert info["evicted_keys"] > 0


def test_both_servers_write_where_the_unit_of_debian_lets_them() -> None:
    unit = Path("/lib/systemd/system/redis-server@.service")
    if not unit.exists():
        pytest.skip("not Debian's redis-server")
    writable = re.findall(r"^ReadWritePaths=-?(\S+)", unit.read_text(), re.MULTILINE)
    for name in ("stream", "sessions"):
        text = (DEPLOY / "redis" / f"{name}.conf").read_text()
        [folder] = re.findall(r"^dir (\S+)", text, re.MULTILINE)
        assert any(Path(folder).is_relative_to(allowed) for allowed in writable), folder


@pytest.mark.django_db
def test_the_database_server_knows_every_setting_that_is_asked_of_it() -> None:
    text = (DEPLOY / "postgresql" / "stagedoor.conf").read_text()
    asked = re.findall(r"^(\w+) = ", text, re.MULTILINE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [asked])
        assert sorted(name for (name,) in cursor.fetchall()) == sorted(asked)
    assert len(asked) > 5
