"""The page of metrics has each metric, and alerts and dashboard use no other."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from source_tree import ROOT

from martlet.metrics.families import FAMILIES

OBJECT_SERVER = Path(
    os.environ.get("MARTLET_OBJECT_SERVER") or ROOT / "build/bin/martlet-object-server"
)
ALERTS = ROOT / "etc" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "etc" / "grafana-dashboard.json"
SUFFIXES = re.compile(r"(?<=_seconds)_(bucket|sum|count)$")


def of_the_object_server() -> dict[str, list[str]]:
    """Name -> labels."""
    command = [str(OBJECT_SERVER), "--print-metrics"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for line in lines:
        name, _, labels = line.partition(" ")
        found[name] = re.findall(r"\w+", labels)
    return found


def known() -> dict[str, list[str]]:
    ours = {name: list(labels) for name, (_, labels, _) in FAMILIES.items()}
    return ours | of_the_object_server()


def expressions() -> list[str]:
    found = re.findall(r"^\s+expr: (.*?)^\s+for:", ALERTS.read_text("utf-8"), re.M | re.S)
    board = json.loads(DASHBOARD.read_text("utf-8"))
    return found + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_page_has_each_metric_with_its_labels() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (ROOT / "doc" / "metrics.md").read_text("utf-8").splitlines()
        if line.startswith("| `martlet_")
    ]
    shown = {row[0].strip("`"): [label for label in row[2].split(", ") if label] for row in rows}
    assert shown == known()
    ours, theirs = set(FAMILIES), set(of_the_object_server())
    for name, services, *_ in rows:
        assert ("O" in services.split()) == (name.strip("`") in theirs), name
        assert bool({"A", "C", "P"} & set(services.split())) == (name.strip("`") in ours), name


def test_both_languages_give_a_metric_the_same_labels() -> None:
    theirs = of_the_object_server()
    assert {n: list(FAMILIES[n][1]) for n in FAMILIES if n in theirs} == {
        n: labels for n, labels in theirs.items() if n in FAMILIES
    }


def test_no_label_hides_one_of_prometheus() -> None:
    """Prometheus gives each metric a job and an instance."""
    for name, labels in known().items():
        assert not {"job", "instance"} & set(labels), name


def test_expressions_use_known_metrics() -> None:
    used = {SUFFIXES.sub("", word) for e in expressions() for word in re.findall(r"martlet_\w+", e)}
    assert len(used) > 15
    assert used <= known().keys()


def test_grafana_would_read_each_field_of_the_dashboard() -> None:
    board = json.loads(DASHBOARD.read_text("utf-8"))
    register_default_plugins()  # the kinds of panels, and Prometheus' queries
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert differences(board, read) == []
    board["panels"][0]["fieldConfig"]["defaults"]["unitt"] = "s"
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert differences(board, read) == [".panels.0.fieldConfig.defaults.unitt"]


def differences(written: Any, read: Any, place: str = "") -> list[str]:
    """The places of what is written and was not read; defaults may be added."""
    if type(written) is not type(read):
        return [place]
    if isinstance(written, list):
        if len(written) != len(read):
            return [place]
        written, read = dict(enumerate(written)), dict(enumerate(read))
    if not isinstance(written, dict):
        return [] if written == read else [place]
    found = []
    for name, value in written.items():
        inner = f"{place}.{name}"
        found += differences(value, read[name], inner) if name in read else [inner]
    return found


def test_each_alert_names_a_page_that_exists() -> None:
    pages = re.findall(r"runbook: (\S+)", ALERTS.read_text("utf-8"))
    assert len(pages) == ALERTS.read_text("utf-8").count("- alert:")
    assert [page for page in pages if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("service", ["account", "container", "object", "proxy"])
def test_a_service_is_scraped_at_the_port_of_its_sample(service: str) -> None:
    sample = (ROOT / "etc" / f"{service}-server.conf-sample").read_text("utf-8")
    port = re.search(r"^(?:# )?bind_port = (\d+)", sample, re.M)
    assert port
    jobs = (ROOT / "etc" / "prometheus.yml").read_text("utf-8").split("- job_name: ")
    [job] = [text for text in jobs if text.startswith(f"martlet-{service}\n")]
    assert re.findall(r":(\d{4})\b", job) == [port[1]] * 3
