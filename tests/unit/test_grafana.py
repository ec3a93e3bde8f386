"""The dashboard and the alert rules ask for metrics that the server has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import Row
from tests.unit.test_pages import EXPECTATION, TABLE

from streamtable.hosts.server.metrics import Metrics, families
from streamtable.observe.alerts import AlertKind
from streamtable.observe.status import Standing

FOLDER = Path(__file__).parents[2] / "integrations" / "grafana"
DASHBOARD = json.loads((FOLDER / "streamtable.json").read_text(encoding="utf-8"))
RULES = re.findall(r"^ +expr: (.*)$", (FOLDER / "rules.yml").read_text(encoding="utf-8"), re.MULTILINE)
VALUES = {"state": {each.value for each in Standing}, "alert": {each.value for each in AlertKind}}
promtool = shutil.which("promtool")


def rendered() -> list[str]:
    """Return the expressions of the dashboard with values in place of its variables."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    found += [
        re.sub(r"label_values\((\w+), (\w+)\)", r"count by (\2) (\1)", each) for each in variables() if "label_values" in each
    ]
    return [each.replace("$name", ".*").replace("$job", ".*") for each in found]


def variables() -> Iterator[str]:
    yield from (each.get("definition", "") for each in DASHBOARD["templating"]["list"])


def labels() -> dict[str, set[str]]:
    """Return the labels of each metric that the server gives."""
    metrics = Metrics()
    metrics.publish(families([TABLE], ["STALE"], [Row(**EXPECTATION)], 0.0))
    read = text_string_to_metric_families(metrics.page().text)
    return {each.name: {label for sample in each.samples for label in sample.labels} for each in read}


@pytest.mark.parametrize("expression", [*rendered(), *RULES])
def test_each_expression_asks_for_metrics_and_labels_that_exist(expression: str) -> None:
    known = labels()
    asked = re.findall(r"\b((?:streamtable|process)_\w+)(?:\{([^}]*)\})?", expression)
    assert asked, expression
    for metric, matchers in asked:
        assert metric in known, metric
        for label, pattern in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
            assert label in known[metric] | {"job", "instance"}, (metric, label)
            assert set(pattern.split("|")) <= VALUES.get(label, {".*"}), (label, pattern)
    for shown in re.findall(r"by \(([^)]*)\)", expression):
        assert set(shown.split(", ")) <= known[asked[0][0]] | {"job", "instance"}, shown


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    for one, other in combinations([each["gridPos"] for each in panels], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)
    assert all(each["gridPos"]["x"] + each["gridPos"]["w"] <= 24 and each["description"] for each in panels)
    shown = {name for each in rendered() for name in re.findall(r"streamtable_\w+", each)}
    assert {each for each in labels() if each.startswith("streamtable_")} - shown == {"streamtable_cursors", "streamtable_tables"}


@pytest.mark.skipif(promtool is None, reason="promtool is not there; apt-get install prometheus")
def test_prometheus_takes_the_rules_and_each_fires_when_it_should(tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.yml"
    recorded = [f"      - {{record: r:{n}, expr: {json.dumps(each)}}}" for n, each in enumerate(rendered())]
    drawn.write_text("\n".join(["groups:", "  - name: dashboard", "    rules:", *recorded]))
    for command in (["check", "rules", str(drawn)], ["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run([str(promtool), *command], cwd=FOLDER, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = re.findall(r"alertname: (\w+)", (FOLDER / "rules_test.yml").read_text(encoding="utf-8"))
    assert set(tested) == set(re.findall(r"alert: (\w+)$", (FOLDER / "rules.yml").read_text(encoding="utf-8"), re.MULTILINE))
