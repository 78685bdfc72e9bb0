"""Clients of the S3 API for tests: boto3, and signed requests that no client would send."""

from __future__ import annotations

import http.client
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from cluster.ports import HOST

USER, KEY, REGION = "test:tester", "testing", "us-east-1"
_numbers = itertools.count(1)


def s3_client(port: int, user: str = USER, key: str = KEY, **config: Any) -> Any:
    """A client of boto3 in path style, which does not try again."""
    settings = {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 0}, **config}
    return boto3.session.Session().client(
        "s3",
        endpoint_url=f"http://{HOST}:{port}",
        aws_access_key_id=user,
        aws_secret_access_key=key,
        region_name=REGION,
        config=Config(**settings),
    )


@dataclass(frozen=True)
class RawAnswer:
    """A whole response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an error document."""
        return self.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    has_trailer: bool = False,
) -> dict[str, str]:
    """The headers of a request, with a signature of version 4.

    :param has_trailer: the body comes in unsigned chunks, with a checksum after them.
    """
    request = AWSRequest(method=method, url=url, headers=dict(headers or {}), data=body)
    if has_trailer:
        request.context["checksum"] = {"request_algorithm": {"in": "trailer"}}
    S3SigV4Auth(Credentials(USER, KEY), "s3", REGION).add_auth(request)
    return {"Host": urlsplit(url).netloc, **dict(request.headers.items())}


def send(
    port: int, method: str, url: str, headers: Mapping[str, str], body: Any = b""
) -> RawAnswer:
    """Send a request to the proxy, whatever host the URL names."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request(method, target, body=body, headers=dict(headers))
        answer = connection.getresponse()
        lowered = {name.lower(): value for name, value in answer.getheaders()}
        return RawAnswer(answer.status, lowered, answer.read())
    finally:
        connection.close()


def ask(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> RawAnswer:
    """Sign a request and send it."""
    url = f"http://{HOST}:{port}{path}"
    return send(port, method, url, sign(method, url, headers, body), body)


def new_bucket(s3: Any) -> str:
    """Create a bucket with a name of its own and return the name."""
    name = f"tested-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    return name


def outcomes_of(calls: Sequence[Callable[[], Any]]) -> list[str]:
    """Make all calls at once; ``done`` or the code of the refusal of each."""
    barrier = threading.Barrier(len(calls))

    def make(call: Callable[[], Any]) -> str:
        barrier.wait(60)
        try:
            call()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "done"

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(make, calls))
