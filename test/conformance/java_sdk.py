"""Our own tests with Amazon's SDK for Java: the Maven project in ``test/conformance/java``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maven import run_maven
from s3_client import KEY, USER
from suite import Result

_PROJECT = Path(__file__).parent / "java"


def run_java_sdk(url: str, selection: Sequence[str] = ()) -> list[Result]:
    """Return the outcome of each test, or of those of the classes in ``selection``."""
    environ = {"S3_ENDPOINT": url, "S3_ACCESS_KEY": USER, "S3_SECRET_KEY": KEY}
    return run_maven(_PROJECT, environ, selection)
