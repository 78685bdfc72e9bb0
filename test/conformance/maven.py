"""Tests in Java: a Maven project, whose outcomes are in the reports that Surefire writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import judges
from suite import Result, read_report

_SECONDS_MAX = 1800.0
NEEDED = "Maven and a JDK 17 are needed (Debian: maven, openjdk-17-jdk-headless)"


def is_installed() -> bool:
    """Whether the machine has Maven and a compiler, which the judges do not install."""
    return all(shutil.which(program) for program in ("mvn", "javac"))


def run_maven(
    project: Path, environ: Mapping[str, str], selection: Sequence[str] = ()
) -> list[Result]:
    """Return the outcome of each test of a project; what it builds is under `judges.WORK`.

    :param selection: the tests to run, as Surefire takes them: ``Class`` or ``Class#method``.
    :raises RuntimeError: there is no Maven, or the tests cannot be built.
    """
    if not is_installed():
        raise RuntimeError(NEEDED)
    made = judges.WORK / f"maven-{project.name}"
    reports = made / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)  # of classes that are gone
    shutil.rmtree(made / "test-classes", ignore_errors=True)
    made.mkdir(parents=True, exist_ok=True)
    # The status of Maven then tells only whether the tests ran.
    command = ["mvn", "-B", "-Dstyle.color=never", "-Dmaven.test.failure.ignore=true"]
    command += [f"-DbuildDirectory={made}"]
    command += [f"-Dtest={','.join(selection)}"] if selection else []
    said = made / "output.txt"
    with said.open("wb") as output:
        done = subprocess.run(
            [*command, "test"],
            cwd=project,
            env={**os.environ, **environ},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=_SECONDS_MAX,
        )
    if done.returncode:
        raise RuntimeError(f"mvn test: {_errors(said.read_text(errors='replace'))}; see {said}")
    found = [result for report in sorted(reports.glob("*.xml")) for result in read_report(report)]
    if not found:
        raise RuntimeError(f"mvn test: there are no reports; see {said}")
    return found


def _errors(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return " ".join(lines)[:500] or output[-500:]
