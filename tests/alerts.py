"""Which of the shipped alerts fire, where Prometheus keeps seeing what a process served."""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.processes import ROOT

RULES = ROOT / "deploy" / "prometheus" / "stagedoor.rules.yml"
MINUTES = 5
"""For which it is seen: longer than any alert waits."""


def page(port: int) -> str:
    """What the process that serves this port tells."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def samples(page: str) -> dict[tuple[str, ...], float]:
    """Every value of a page by (name, *label values): `("stagedoor_probe_success", "redis")`."""
    return {
        (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
    }


def age(page: str, lane: str = "tickets") -> float:
    """Seconds that the oldest job of the lane is old."""
    found = samples(page)
    clock = found["stagedoor_clock_timestamp_seconds", "postgresql"]
    return clock - found["stagedoor_oldest_job_timestamp_seconds", lane]


def check_alerts(page: str, folder: Path, *, fires: set[str], silent: set[str]) -> None:
    """Fails unless these fire and those do not. Skips where there need be no promtool."""
    if shutil.which("promtool") is None and "REQUIRE_PROMTOOL" not in os.environ:
        pytest.skip("no promtool on the path: apt install prometheus")
    wanted = [_expectation(name, 1) for name in fires] + [_expectation(name, 0) for name in silent]
    test = {
        "interval": "10s",
        "input_series": list(_series(page)),
        "promql_expr_test": wanted,
    }
    order = {"group_eval_order": ["stagedoor-ages"], "evaluation_interval": "10s"}
    file = folder / "alerts.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], **order, "tests": [test]}))
    done = subprocess.run(
        ["promtool", "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _expectation(alert: str, number: int) -> dict[str, Any]:
    return {
        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": f"{MINUTES}m",
        "exp_samples": [{"labels": "{}", "value": number}] if number else [],
    }


def _series(page: str) -> Iterator[dict[str, str]]:
    for family in text_string_to_metric_families(page):
        for one in family.samples:
            if one.name.startswith("stagedoor_"):
                labels = {**one.labels, "job": "stagedoor-web", "instance": "web"}
                shown = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
                values = " ".join([f"{one.value:f}"] * (MINUTES * 6 + 1))
                yield {"series": f"{one.name}{{{shown}}}", "values": values}
