# SPDX-License-Identifier: Apache-2.0
"""A real `martlet-background` whose jobs are scripts of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from martlet.service.child_process import is_alive

# The jobs are argv[1], a JSON object of scripts by name; the rest is the command line.
_COMMAND = """
import functools, json, signal, sys
from replicator import background, supervisor
from replicator.job_process import Pauses
from replicator.jobs import JobKind, read_jobs
for number in (signal.SIGINT, signal.SIGHUP):  # ignored where the tests run under nohup
    signal.signal(number, signal.SIG_DFL)
scripts = json.loads(sys.argv[1])
kinds = [JobKind(name, f"{name}.conf", name, (path,)) for name, path in scripts.items()]
background.read_jobs = functools.partial(read_jobs, kinds=kinds)
# A job that dies at once does so after seconds on a busy machine: it has not run steadily.
supervisor.Pauses = lambda: Pauses(first=0.01, longest=0.1, steady=4.0)
sys.exit(background.main(sys.argv[2:]))
"""


class Background:
    """The jobs of one node below a directory, and their supervisor, once it is started."""

    def __init__(self, directory: Path) -> None:
        self.etc = directory / "etc"
        self.run = directory / "run"
        self.log = directory / "log"
        self.scripts: dict[str, str] = {}
        self.started: list[subprocess.Popen[str]] = []
        self.etc.mkdir()

    def add_job(self, name: str, script: str, is_on: bool = True) -> None:
        """Add a job that runs the lines of shell; ``$1`` is its conf, ``$2`` may be ``--once``."""
        path = self.etc / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.scripts[name] = str(path)
        (self.etc / f"{name}.conf").write_text(f"[{name}]\n" if is_on else "[DEFAULT]\n")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a supervisor; its standard error is added to ``log``."""
        command = [sys.executable, "-c", _COMMAND, json.dumps(self.scripts), str(self.etc)]
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [*command, f"--run={self.run}", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.started.append(process)
        return process

    def status(self) -> dict[str, Any]:
        """Return the status file; an empty document before it is written."""
        try:
            document = json.loads((self.run / "background.json").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return {"jobs": []}
        assert isinstance(document, dict)
        return document

    def job(self, name: str) -> dict[str, Any]:
        """Return the status of one job; empty before there is any."""
        return next((entry for entry in self.status()["jobs"] if entry["job"] == name), {})

    def lines(self, words: str) -> list[str]:
        """Return the lines of the log with these words."""
        return [line for line in self.log.read_text().splitlines() if words in line]

    def close(self) -> None:
        """Kill the supervisors; the kernel ends the jobs."""
        for process in self.started:
            process.kill()
            process.communicate()
        for entry in self.status()["jobs"]:
            if entry["pid"] and is_alive(entry["pid"]):
                os.kill(entry["pid"], 9)
