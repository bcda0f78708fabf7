"""Alerts and dashboard: what they name is really exported, what they link to is really there."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django_prometheus.middleware import Metrics
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from jobs.gauges import QueueCollector
from tests.processes import ROOT
from tickets.capacity_plan import ALERTS

RULES = ROOT / "deploy" / "prometheus" / "stagedoor.rules.yml"
EXAMPLE = RULES.with_name("prometheus.yml")
DASHBOARD = ROOT / "deploy" / "grafana" / "stagedoor.json"
OPERATIONS = ROOT / "docs" / "operations.md"
NO_NAME = re.compile(
    r'".*?"|\{.*?\}|\[.*?\]'
    r"|\b(?:by|without|on|ignoring|group_left|group_right) *\(.*?\)"
    r"|\b(?:and|or|unless|bool|offset)\b",
    re.DOTALL,
)
"""What beside numbers and functions is not the name of a series: texts, labels, times, words."""
NAME = re.compile(r"\b[a-z_][\w:]*\b(?! *\()")
SELECTOR = re.compile(r"\b([a-z_][\w:]*)\{(.*?)\}")
LABELS = re.compile(r"\b(?:by|without|on|ignoring) *\((.*?)\)")
SCRAPED = {"up"}
"""What Prometheus itself makes of a scrape."""
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and "REQUIRE_PROMTOOL" not in os.environ,
    reason="no promtool on the path: apt install prometheus",
)


@cache
def exported() -> set[str]:
    """Every series that some process serves."""
    Metrics.get_instance()
    families: Iterator[Metric] = iter([*REGISTRY.collect(), *QueueCollector().describe()])
    return {family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, ())}


def expressions() -> list[str]:
    """Every `expr` of rules and dashboard."""
    rules = re.findall(r"^ +expr: (?:>-\n((?: {10,}.*\n)+)|(.*))", RULES.read_text(), re.MULTILINE)
    found = [folded or plain for folded, plain in rules]
    return [*found, *(target["expr"] for panel in panels() for target in panel["targets"])]


def panels() -> list[Any]:
    """Those that show something."""
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if "targets" in panel]


def recorded() -> dict[str, set[str]]:
    """What the rules record, with its labels."""
    found = re.findall(r"- record: (\S+)\n +expr: >-\n +max by \((\w+)\)", RULES.read_text())
    return {name: {label} for name, label in found}


def labels(name: str) -> set[str]:
    """Those that a series of this name has."""
    queue = {one.name + SUFFIXES[one.type][0]: one for one in QueueCollector().describe()}
    family = queue.get(name) or REGISTRY._names_to_collectors.get(name)
    own = set(getattr(family, "_labelnames", ())) | recorded().get(name, set())
    return own | {"job", "instance"} | ({"le"} if name.endswith("_bucket") else set())


def named(expression: str) -> set[str]:
    """The series in it."""
    return set(NAME.findall(NO_NAME.sub(" ", expression)))


def alerts() -> list[str]:
    return re.findall(r"- alert: (\S+)", RULES.read_text())


class QueueSeries(Collector):
    """The families of the queue, one value each: no server is asked."""

    def collect(self) -> Iterator[Metric]:
        for family in QueueCollector().describe():
            family.add_sample(family.name + SUFFIXES[family.type][0], {}, 1.0)
            yield family


def run(*words: str | Path, page: str = "") -> str:
    """What promtool says; it must be content."""
    done = subprocess.run(
        ["promtool", *words], input=page, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not page or done.stdout + done.stderr == ""
    return done.stdout


def test_rules_and_dashboard_name_only_series_that_are_exported() -> None:
    names = {name for one in expressions() for name in named(one)}
    assert len(names) > 30
    assert names - exported() - recorded().keys() - SCRAPED == set()


def test_rules_and_dashboard_ask_for_labels_that_there_are() -> None:
    for one in expressions():
        for name, matchers in SELECTOR.findall(one):
            asked = set(re.findall(r"(\w+) *(?:=|!)", re.sub(r'".*?"', "", matchers)))
            assert asked
            assert asked - labels(name) == set(), one
        there = {label for name in named(one) for label in labels(name)}
        for told in LABELS.findall(one):
            assert set(re.findall(r"\w+", told)) - there == set(), one


def test_every_series_of_the_queue_is_told_in_the_table() -> None:
    told = set(re.findall(r"`(stagedoor_\w+)", OPERATIONS.read_text()))
    ours = {
        name for name in exported()
        if name.startswith("stagedoor_") and not name.endswith(("_sum", "_count"))
    }  # fmt: skip
    assert {name.removesuffix("_bucket") for name in ours} - told == set()


def test_every_alert_names_a_part_and_links_its_section_of_the_runbook() -> None:
    text = RULES.read_text().replace("annotations: *late", _annotations_late())
    headings = re.findall(r"^#+ (.*)$", OPERATIONS.read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for alert in text.split("- alert: ")[1:]:
        [anchor] = re.findall(r'runbook_url: "\{\{ \$externalLabels\.runbook \}\}#(\S+)"', alert)
        assert anchor in anchors, anchor
        assert re.search(r"(Broken|Too slow) (is|are) ", alert), alert
        assert re.search(r"severity: (page|warning)\b", alert), alert
    assert re.search(r"external_labels:\n(?: +#.*\n)* +runbook: https://\S+\n", EXAMPLE.read_text())


def _annotations_late() -> str:
    found = re.search(r"annotations: &late\n(?: {10,}.*\n)+", RULES.read_text())
    assert found
    return found[0]


def test_every_alert_is_tested_firing_and_silent() -> None:
    tests = RULES.with_name("stagedoor.tests.yml").read_text()
    for alert in alerts():
        fires = rf"alertname: {alert}\n +exp_alerts:"
        assert re.search(fires, tests), f"{alert} is never seen to fire"
        assert re.search(rf"alertname: {alert}, exp_alerts: \[\]", tests), alert


def test_the_alerts_that_capacity_foresees_are_those_of_the_rules() -> None:
    late = re.findall(r'oldest_job_age_seconds\{lane="tickets"\} > (\d+)', RULES.read_text())
    assert [float(age) for age in late] == list(ALERTS.values())


@promtool
def test_the_rules_fire_as_they_should() -> None:
    run("check", "rules", RULES)
    run("test", "rules", RULES.with_name("stagedoor.tests.yml"))


@promtool
def test_the_example_of_a_configuration_is_one() -> None:
    run("check", "config", EXAMPLE)


def test_the_example_scrapes_the_ports_that_the_units_serve() -> None:
    config = EXAMPLE.read_text()
    ports = set(re.findall(r"127\.0\.0\.1:(92\d\d)", config))
    served = {
        match[1].replace("%i", instance)
        for path in (ROOT / "deploy" / "systemd").glob("*.service")
        for match in re.finditer(r"--metrics-port (\S+)", path.read_text())
        for instance in ("1", "2", "3")
    }
    assert ports <= served
    assert {port[:3] for port in served} == {port[:3] for port in ports} == {"920", "921", "922"}


@promtool
def test_every_name_is_as_prometheus_wants_it() -> None:
    both = CollectorRegistry()
    for source in (REGISTRY, QueueSeries()):
        both.register(source)
    page = generate_latest(both).decode()
    ours = "".join(f"{line}\n" for line in page.splitlines() if "stagedoor_" in line)
    run("check", "metrics", page=ours)


@promtool
def test_every_expression_of_the_dashboard_is_one(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:number_{number}", "expr": target["expr"]}
        for number, target in enumerate(t for panel in panels() for t in panel["targets"])
    ]
    file = tmp_path / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in run("check", "rules", file)
    assert len(rules) > 25


def test_the_dashboard_begins_with_the_age() -> None:
    first, *_ = panels()
    assert "oldest_job_age" in first["targets"][0]["expr"]
    assert first["gridPos"]["y"] <= 1
