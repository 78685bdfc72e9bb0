# SPDX-License-Identifier: Apache-2.0
"""The record of an event, in the form that Amazon S3 documents and MinIO sends to webhooks."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote_plus

_VERSION = "2.1"


class Event(NamedTuple):
    """An event of an object; text.

    :param name: e.g. ``s3:ObjectCreated:Put``.
    :param size: in bytes; None if it is not known, or for an object that is removed.
    :param user: who did it, empty for all.
    :param moment: nanoseconds since 1970.
    """

    name: str
    account: str
    bucket: str
    key: str
    moment: int
    etag: str = ""
    size: int | None = None
    version: str = ""
    user: str = ""
    address: str = ""
    request_id: str = ""


def record_of(event: Event, rule_id: str, region: str) -> bytes:
    """The JSON about an event, on one line."""
    at = datetime.fromtimestamp(event.moment / 1e9, UTC).isoformat(timespec="milliseconds")
    described: dict[str, Any] = {"key": quote_plus(event.key, safe="/")}
    if event.size is not None:
        described["size"] = event.size
    if event.etag:
        described["eTag"] = event.etag
    if event.version:
        described["versionId"] = event.version
    described["sequencer"] = f"{event.moment:016X}"
    record = {
        "eventVersion": _VERSION,
        "eventSource": "aws:s3",
        "awsRegion": region,
        "eventTime": at.replace("+00:00", "Z"),
        "eventName": event.name.removeprefix("s3:"),
        "userIdentity": {"principalId": event.user or "anonymous"},
        "requestParameters": {"sourceIPAddress": event.address},
        "responseElements": {
            "x-amz-request-id": event.request_id,
            "x-amz-id-2": event.request_id,
        },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": rule_id,
            "bucket": {
                "name": event.bucket,
                "ownerIdentity": {"principalId": event.account},
                "arn": f"arn:aws:s3:::{event.bucket}",
            },
            "object": described,
        },
    }
    sent = {
        "EventName": event.name,
        "Key": f"{event.bucket}/{event.key}",
        "Records": [record],
    }
    return json.dumps(sent, separators=(",", ":")).encode("ascii")
