"""What the programs of the Go judges say, read as results."""

from __future__ import annotations

import json

import go_sdks
import minio_functional
from suite import Result


def test_events_of_go_test() -> None:
    package = "martlet/conformance/awssdk"
    events = [
        {"Action": "start", "Package": package},
        {"Action": "run", "Package": package, "Test": "TestA"},
        {"Action": "output", "Package": package, "Test": "TestA", "Output": "=== RUN   TestA\n"},
        {"Action": "output", "Package": package, "Test": "TestA", "Output": "    a.go:5: broken\n"},
        {"Action": "fail", "Package": package, "Test": "TestA"},
        {"Action": "pass", "Package": package, "Test": "TestB"},
        {"Action": "skip", "Package": package, "Test": "TestC"},
        {"Action": "fail", "Package": package},
    ]
    assert go_sdks.outcomes(map(json.dumps, events)) == [
        Result("awssdk.TestA", "failed", "a.go:5: broken"),
        Result("awssdk.TestB", "passed"),
        Result("awssdk.TestC", "skipped"),
        Result("awssdk", "failed"),
    ]


def test_a_package_that_is_not_built_fails() -> None:
    events = [
        {"Action": "build-output", "ImportPath": "m/broken", "Output": "undefined: x\n"},
        {"Action": "fail", "Package": "m/broken", "Elapsed": 0},
    ]
    found = go_sdks.outcomes(map(json.dumps, events))
    assert found == [Result("broken", "failed", "undefined: x")]


def test_lines_of_minio_go() -> None:
    lines = [
        json.dumps({"judge": "testA"}),
        "a warning of the SDK",
        json.dumps({"name": "minio-go: testA", "status": "PASS"}),
        json.dumps({"judge": "testB"}),
        json.dumps({"status": "NA", "alert": "Zip is NotImplemented"}),
        json.dumps({"judge": "testC"}),
        json.dumps({"status": "PASS"}),
        json.dumps({"status": "FAIL", "message": "Stat failed", "error": "no  such\nkey"}),
        json.dumps({"status": "FAIL", "message": "and more"}),
        json.dumps({"judge": "testD"}),
    ]
    assert minio_functional.outcomes(lines) == [
        Result("testA", "passed"),
        Result("testB", "skipped", "Zip is NotImplemented"),
        Result("testC", "failed", "Stat failed no such key"),
        Result("testD", "passed"),
    ]
