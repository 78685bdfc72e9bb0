"""Our own tests with the SDKs of MinIO and Amazon for Go: the module in ``test/conformance/go``."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from s3_client import KEY, USER
from suite import Result

MODULE = Path(__file__).parent / "go"
SECONDS_MAX = 1200.0
_OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def run_go_sdks(url: str) -> list[Result]:
    """Return the outcome of each test.

    :raises RuntimeError: they cannot be built.
    """
    environ = {
        **os.environ,
        "GOFLAGS": "-p=1 -buildvcs=false",
        "S3_ENDPOINT": url,
        "S3_ACCESS_KEY": USER,
        "S3_SECRET_KEY": KEY,
    }
    done = subprocess.run(
        ["go", "test", "-json", "-count=1", "./..."],
        cwd=MODULE,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    results = outcomes(done.stdout.splitlines())
    if not results:
        raise RuntimeError(f"go test: {done.stderr.strip()[-500:] or done.stdout[-500:]}")
    return results


def outcomes(lines: Iterable[str]) -> list[Result]:
    """The outcome of each test, and of each package that fails by itself."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    found: list[Result] = []
    for line in lines:
        event = json.loads(line)
        package = str(event.get("Package", event.get("ImportPath", ""))).rpartition("/")[2]
        name = f"{package}.{event['Test']}" if "Test" in event else package
        action = event["Action"]
        if action in ("output", "build-output"):
            said[name].append(str(event["Output"]).strip())
        elif action in _OUTCOMES and ("Test" in event or action == "fail"):
            found.append(Result(name, _OUTCOMES[action], _reason(said[name])))
    return found


def _reason(lines: Iterable[str]) -> str:
    told = [line for line in lines if line and not line.startswith(("===", "---"))]
    return " ".join(told)[:300]
