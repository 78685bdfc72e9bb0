"""Reports of Surefire, read as results."""

from __future__ import annotations

from pathlib import Path

import maven
import pytest
from suite import Result, read_report

REPORT = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="martlet.conformance.ATest" tests="5" errors="1" skipped="1" failures="2">
  <properties/>
  <testcase name="good" classname="martlet.conformance.ATest" time="0.1"/>
  <testcase name="sizes(int)[2]" classname="martlet.conformance.ATest" time="0.1">
    <failure message="expected: &lt;1&gt;&#10;  but was: &lt;2&gt;" type="E">at</failure>
    <system-out><![CDATA[words]]></system-out>
  </testcase>
  <testcase name="broken" classname="martlet.conformance.ATest" time="0.1">
    <error type="java.lang.NullPointerException"><![CDATA[at]]></error>
  </testcase>
  <testcase name="left" classname="martlet.conformance.ATest" time="0.1">
    <skipped message="not here"/>
  </testcase>
  <testcase name="" classname="martlet.conformance.ATest" time="0.1">
    <failure message="before all tests" type="E"/>
  </testcase>
</testsuite>
"""


def test_reports(tmp_path: Path) -> None:
    report = tmp_path / "TEST-martlet.conformance.ATest.xml"
    report.write_text(REPORT)
    assert read_report(report) == [
        Result("martlet.conformance.ATest.", "failed", "before all tests"),
        Result("martlet.conformance.ATest.broken", "failed", "java.lang.NullPointerException"),
        Result("martlet.conformance.ATest.good", "passed"),
        Result("martlet.conformance.ATest.left", "skipped", "not here"),
        Result("martlet.conformance.ATest.sizes(int)[2]", "failed", "expected: <1> but was: <2>"),
    ]


def test_a_machine_without_maven_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not maven.is_installed()
    with pytest.raises(RuntimeError, match="Maven and a JDK 17 are needed"):
        maven.run_maven(tmp_path, {})


def test_what_maven_says_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in ("mvn", "javac"):
        (tmp_path / program).write_text("#!/bin/sh\necho '[ERROR] no such package'\nexit 1\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(maven.judges, "WORK", tmp_path / "work")
    with pytest.raises(RuntimeError, match=r"no such package; see .*output\.txt"):
        maven.run_maven(tmp_path, {})
