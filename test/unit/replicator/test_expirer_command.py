"""The expirer's command reads Swift's two kinds of conf, and refuses a bad one in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from replicator.expirer import command
from replicator.expirer.command import _Conf, load_expirer, run_once
from replicator.expirer.passes import Figures
from replicator.expirer.queue import QueueError

SECTION = "[object-expirer]\n"
SERVER = "[DEFAULT]\nswift_dir = /elsewhere\nbind_port = 6200\nnode_timeout = 3\n"
SERVER += "[pipeline:main]\npipeline = object-server\n[app:object-server]\nuse = egg:swift#object\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read"),
        ("[elsewhere]\n", r"no section \[object-expirer\]"),
        ("[DEFAULT]\nport = 1\n" + SECTION, "unknown option 'port'"),
        (SECTION + "speed = 1\n", "unknown option 'speed'"),
        (SECTION + "interval = 0\n", "interval must be above 0"),
        (SECTION + "delay_reaping_a/b/c = 1\n", "is not of the form"),
        (SECTION + "internal_client_conf_path = /not/there.conf\n", "/not/there.conf"),
        (SERVER + SECTION + "internal_client_conf_path = /not/there.conf\n", "/not/there.conf"),
        (SECTION + "[pipeline:main]\npipeline = nothing\n", "object-expirer.conf"),
    ],
)
def test_a_bad_conf_is_a_sentence(tmp_path: Path, text: str | None, sentence: str) -> None:
    path = tmp_path / "object-expirer.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_expirer(path)
    assert "\n" not in str(caught.value)


def test_the_options_of_an_object_server_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "object-server.conf"
    path.write_text(SERVER + SECTION + "node_timeout = 4\ninterval = 5\n")
    found = _Conf.read(path)
    assert found.defaults == {"swift_dir": "/elsewhere"}
    assert found.values == {"node_timeout": "4", "interval": "5"}
    assert not found.has_proxy


def test_a_conf_of_its_own_may_have_the_proxy(tmp_path: Path) -> None:
    path = tmp_path / "object-expirer.conf"
    path.write_text(SECTION)
    assert not _Conf.read(path).has_proxy
    path.write_text(SECTION + "[pipeline:main]\npipeline = proxy-server\n")
    assert _Conf.read(path).has_proxy


class Scripted:
    """An expirer whose pass ends like this."""

    def __init__(self, found: Figures | None) -> None:
        self.found = found

    def run_once(self) -> Figures:
        if self.found is None:
            raise QueueError("GET /v1/.expiring_objects was answered 503")
        return self.found


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (Figures(deleted=3, waiting=1, gone=1, invalid=1), 0),
        (Figures(deleted=3, failed=1), 1),
        (Figures(unread=1), 1),
    ],
)
def test_the_exit_status_tells_of_failures(
    found: Figures, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_once(Scripted(found), as_json=True) == status  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == found.as_dict()


def test_a_queue_out_of_reach_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_once(Scripted(None)) == 1  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "cannot be read: GET /v1/.expiring_objects was answered 503" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "--processes"),
        (["x.conf", "--json"], 2, "--json needs --once"),
        (["x.conf", "twice"], 2, "invalid choice"),
        (["/not/there.conf", "once"], 1, "cannot read /not/there.conf"),
    ],
)
def test_the_command_line(arguments: list[str], status: int, said: str) -> None:
    program = [sys.executable, "-m", command.__name__, *arguments]
    done: Any = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
