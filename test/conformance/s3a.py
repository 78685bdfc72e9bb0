"""Hadoop's contract tests of file systems, with S3A on a bucket of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from maven import run_maven
from s3_client import KEY, USER, new_bucket, s3_client
from suite import Result

_PROJECT = Path(__file__).parent / "s3a"


def run_s3a(url: str, selection: Sequence[str]) -> list[Result]:
    """Return the outcome of each test, or of the classes and methods of ``selection``."""
    environ = {
        "S3_ENDPOINT": url,
        "S3_ACCESS_KEY": USER,
        "S3_SECRET_KEY": KEY,
        "S3_BUCKET": new_bucket(s3_client(urlsplit(url).port or 80)),
    }
    return run_maven(_PROJECT, environ, selection)
