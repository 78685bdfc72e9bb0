"""Tests in Java: a Maven project, whose outcomes are in the reports that Surefire writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import judges
from suite import Result, read_report

SECONDS_MAX = 1800.0


def run_maven(
    project: Path, environ: Mapping[str, str], selection: Sequence[str] = ()
) -> list[Result]:
    """Return the outcome of each test of a project; what it builds is under `judges.WORK`.

    :param selection: the tests to run, as Surefire takes them: ``Class`` or ``Class#method``.
    :raises RuntimeError: there is no Maven, or the tests cannot be built.
    """
    if shutil.which("mvn") is None:
        raise RuntimeError("mvn is not installed: Debian's packages maven and openjdk-17-jdk")
    built = judges.WORK / f"maven-{project.name}"
    reports = built / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    command = ["mvn", "-B", "-q", "test", f"-DbuildDirectory={built}"]
    if selection:
        command.append(f"-Dtest={','.join(selection)}")
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    found = [result for path in sorted(reports.glob("TEST-*.xml")) for result in read_report(path)]
    if not found:
        raise RuntimeError(f"mvn: {done.stdout.strip()[-500:]}")
    return found
