# SPDX-License-Identifier: Apache-2.0
"""`make audit` reports its findings, and never treats an unreachable database as a clean result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

PINS = sorted(path.name for path in ROOT.glob("constraints*.txt"))
UNREACHABLE = "echo 'no such host' >&2; exit 1"


def package(**about: object) -> str:
    """Return a fake pip-audit that knows one package."""
    known = {"dependencies": [{"name": "left-pad", "version": "1.0", **about}]}
    return f"echo '{json.dumps(known)}'"


SAFE = package(vulns=[])
VULNERABLE = package(vulns=[{"id": "CVE-1", "fix_versions": ["1.1"]}]) + "; exit 1"


def audit(directory: Path, pip_audit: str, govulncheck: str) -> tuple[int, str]:
    for name, line in (("pip-audit", pip_audit), ("govulncheck", govulncheck)):
        (directory / name).write_text(f"#!/bin/sh\n{line}\n")
        (directory / name).chmod(0o755)
    command = [sys.executable, str(ROOT / ".ci" / "audit"), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_nothing_is_known(tmp_path: Path) -> None:
    status, said = audit(tmp_path, SAFE, "echo 'No vulnerabilities found.'")
    assert status == 0
    names = [*PINS, "object-server/go.mod"]
    assert said.splitlines() == [f"{name}: no vulnerability is known" for name in names]


def test_vulnerabilities_are_listed(tmp_path: Path) -> None:
    status, said = audit(tmp_path, VULNERABLE, "echo 'Vulnerability #1: GO-1'; exit 3")
    assert status == 1
    assert said.count("VULNERABLE\n  left-pad 1.0: CVE-1, fixed in 1.1\n") == len(PINS)
    assert said.endswith("object-server/go.mod: VULNERABLE\n  Vulnerability #1: GO-1\n")


@pytest.mark.parametrize(
    ("pip_audit", "govulncheck", "status", "unchecked"),
    [
        (UNREACHABLE, UNREACHABLE, 2, len(PINS) + 1),
        (SAFE, UNREACHABLE, 2, 1),
        (UNREACHABLE, "exit 0", 2, len(PINS)),
        (VULNERABLE, UNREACHABLE, 1, 1),
    ],
)
def test_an_unreachable_database_is_not_nothing_found(
    tmp_path: Path, pip_audit: str, govulncheck: str, status: int, unchecked: int
) -> None:
    done, said = audit(tmp_path, pip_audit, govulncheck)
    assert done == status
    assert said.count("NOT CHECKED: no such host\n") == unchecked


def test_a_package_that_was_passed_over_is_not_safe(tmp_path: Path) -> None:
    status, said = audit(tmp_path, package(skip_reason="it is not known"), "exit 0")
    assert status == 2
    assert said.count("NOT CHECKED") == len(PINS)


def test_a_missing_program_checks_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / ".ci" / "audit"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout.count("NOT CHECKED") == len(PINS) + 1
