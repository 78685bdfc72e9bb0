"""The background jobs of a cluster in its confs, its readiness and its status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cluster import status, up
from cluster.confs import JOBS, write_confs
from cluster.layout import KINDS, Home, Layout
from cluster.policies import read_cluster_policies
from cluster.ports import PortPicker
from cluster.readiness import answers, read_jobs
from cluster.services import Service
from martlet.conf.options import read_ini

RUNNING = {"job": "object-replicator", "state": "running", "pid": 7, "restarts": 0}
FAILING = {**RUNNING, "state": "failing", "restarts": 4}


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service("background", ("true",), None, status_path=tmp_path / "background.json")


def write(service: Service, pid: int, *jobs: dict[str, Any]) -> None:
    assert service.status_path is not None
    service.status_path.write_text(json.dumps({"format": 1, "pid": pid, "jobs": jobs}))


def test_every_node_has_the_sections_of_its_jobs(tmp_path: Path) -> None:
    home, layout = Home(tmp_path), Layout.create(2).with_ports(8080, PortPicker(taken=8080))
    for directory in home.directories(layout):
        directory.mkdir(parents=True, exist_ok=True)
    write_confs(home, layout, read_cluster_policies(home, ()))
    assert JOBS.keys() == set(KINDS)
    for number, node in enumerate(("node1", "node2")):
        conf = read_ini(home.etc / node / "object-server.conf")
        assert conf.getint("object-replicator", "interval") == 10
        expirer = conf["object-expirer"]  # each node does its part of the work
        assert (expirer["processes"], expirer["process"]) == ("2", str(number))
        assert Path(expirer["internal_client_conf_path"]).exists()


def test_background_jobs_are_ready_when_their_present_process_says_so(service: Service) -> None:
    assert not answers(service, 5)
    write(service, 4, RUNNING)  # of an earlier process
    assert not answers(service, 5)
    write(service, 5, FAILING)
    assert answers(service, 5)
    assert read_jobs(service, 5) == [FAILING]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"jobs": 3, "pid": 5}'])
def test_a_damaged_status_is_none(service: Service, text: str) -> None:
    assert service.status_path is not None
    service.status_path.write_text(text)
    assert read_jobs(service, 5) is None


@pytest.mark.parametrize(
    ("jobs", "state"), [([RUNNING], "ok"), ([RUNNING, FAILING], "job fails"), ([], "ok")]
)
def test_status_is_ok_while_all_jobs_run(
    tmp_path: Path, service: Service, jobs: list[dict[str, Any]], state: str
) -> None:
    home = Home(tmp_path)
    home.run.mkdir()
    (home.run / "background.pid").write_text(str(os.getpid()))
    write(service, os.getpid(), *jobs)
    report = status._service_report(home, service)
    assert (report["state"], report["jobs"], report["port"]) == (state, jobs, None)


def test_status_prints_a_line_for_each_job(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"name": "background", "port": None, "pid": 5, "state": "job fails"}
    status._print_service({**entry, "jobs": [RUNNING, {**FAILING, "pid": None}]})
    head, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["background", "job", "fails", "2", "jobs", "pid", "5"]
    assert first == ["object-replicator", "running", "pid", "7"]
    assert second == ["object-replicator", "failing", "restarts", "4"]


def test_without_background_jobs_nothing_of_them_is_left(tmp_path: Path, service: Service) -> None:
    home = Home(tmp_path)
    home.run.mkdir()
    (home.run / "background.pid").write_text("5")
    front = Service("proxy-server", ("true",), 8080, is_front=True)
    assert up._without_background(home, [front, service]) == [front]
    assert [*home.run.iterdir()] == []
