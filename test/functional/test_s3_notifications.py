"""Notifications: events of both APIs reach a real webhook, also if it or the proxy was down."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest
import requests
from botocore.exceptions import ClientError
from other_proxy import OtherProxy
from running_cluster import RunningCluster, await_true, descendants, free_port
from s3_client import new_bucket, s3_client
from swift_api import Account
from webhook import Webhook

from cluster.confs import PIPELINE

_PIPELINE = PIPELINE.replace(" console ", " ").replace(" copy ", " copy notifications ")
_ARN = "arn:martlet:sqs::orders:webhook"


class Notifying:
    """A cluster with a further proxy that sends notifications to ``webhook``."""

    def __init__(self, cluster: RunningCluster, directory: Path, webhook_port: int) -> None:
        self.cluster = cluster
        self.directory = directory
        section = {
            "use": "egg:martlet#notifications",
            "webhooks": f"orders=http://127.0.0.1:{webhook_port}/",
            "webhook_tokens": "orders=secret",
            "queue_dir": str(directory / "queue"),
            "timeout": "300",  # an event whose answer is late comes twice
        }
        own = {"filter:notifications": section}
        self.proxy = OtherProxy(cluster, directory, _PIPELINE, own, workers=2)

    @property
    def waiting(self) -> list[Path]:
        """The files of events that a webhook has yet to accept."""
        files = (self.directory / "queue").rglob("*.events")
        return [file for file in files if file.stat().st_size > int(file.read_bytes()[:20])]


@pytest.fixture
def webhook_port() -> int:
    return free_port()


@pytest.fixture
def notifying(cluster: RunningCluster, tmp_path: Path, webhook_port: int) -> Iterator[Notifying]:
    tested = Notifying(cluster, tmp_path, webhook_port)
    with tested.proxy:
        yield tested


def _notify(s3: Any, bucket: str, *events: str, **sides: str) -> None:
    rules = [{"Name": name, "Value": value} for name, value in sides.items()]
    wanted: dict[str, Any] = {"Id": "one", "QueueArn": _ARN, "Events": list(events)}
    if rules:
        wanted["Filter"] = {"Key": {"FilterRules": rules}}
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [wanted]}
    )


def _seen(webhook: Webhook) -> list[tuple[str, str, Any]]:
    """The name, the key and the size of each event."""
    records = [record for event in webhook.events for record in event["Records"]]
    return sorted(
        (
            record["eventName"],
            unquote_plus(record["s3"]["object"]["key"]),
            record["s3"]["object"].get("size"),
        )
        for record in records
    )


def test_events_of_both_apis(notifying: Notifying, webhook_port: int) -> None:
    port = notifying.proxy.port
    s3, account = s3_client(port), Account(port)
    bucket = new_bucket(s3)
    _notify(s3, bucket, "s3:ObjectCreated:*", "s3:ObjectRemoved:*", prefix="in/")
    found = s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert [(rule["Id"], rule["QueueArn"]) for rule in found] == [("one", _ARN)]
    named = {"Bucket": bucket, "Key": "in/ü k"}
    with Webhook(webhook_port) as webhook:
        etag = s3.put_object(**named, Body=b"12345")["ETag"].strip('"')
        s3.put_object(Bucket=bucket, Key="out/k", Body=b"x")
        s3.copy_object(Bucket=bucket, Key="in/copy", CopySource=named)
        form = s3.generate_presigned_post(bucket, "in/form")
        files = {"file": ("a", b"of a form")}
        assert requests.post(form["url"], form["fields"], files=files, timeout=60).ok
        upload = s3.create_multipart_upload(Bucket=bucket, Key="in/parts")["UploadId"]
        whole = {"Bucket": bucket, "Key": "in/parts", "UploadId": upload}
        part = s3.upload_part(**whole, PartNumber=1, Body=b"one part")["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
        done = s3.complete_multipart_upload(**whole, MultipartUpload=parts)
        assert account.call("PUT", bucket, "in/swift", body=b"123").status == 201
        assert account.call("DELETE", bucket, "in/swift").status == 204
        doomed = {"Objects": [{"Key": "in/parts"}, {"Key": "in/copy"}, {"Key": "in/none"}]}
        s3.delete_objects(Bucket=bucket, Delete=doomed)
        await_true(lambda: len(webhook.posts) >= 8, "all events")
        await_true(lambda: not notifying.waiting, "an empty queue")
    assert _seen(webhook) == [
        ("ObjectCreated:CompleteMultipartUpload", "in/parts", 8),
        ("ObjectCreated:Copy", "in/copy", 5),
        ("ObjectCreated:Post", "in/form", 9),
        ("ObjectCreated:Put", "in/swift", 3),
        ("ObjectCreated:Put", "in/ü k", 5),
        ("ObjectRemoved:Delete", "in/copy", None),
        ("ObjectRemoved:Delete", "in/parts", None),
        ("ObjectRemoved:Delete", "in/swift", None),
    ]
    made = [e for e in webhook.events if e["EventName"].startswith("s3:ObjectCreated:")]
    objects = {event["Key"]: event["Records"][0]["s3"]["object"] for event in made}
    assert objects[f"{bucket}/in/ü k"]["eTag"] == etag
    assert objects[f"{bucket}/in/parts"]["eTag"] == done["ETag"].strip('"')
    assert {headers["Authorization"] for _, headers, _ in webhook.posts} == {"Bearer secret"}
    users = {e["Records"][0]["userIdentity"]["principalId"] for e in webhook.events}
    assert users == {"test:tester"}


def test_versions(notifying: Notifying, webhook_port: int) -> None:
    s3 = s3_client(notifying.proxy.port)
    bucket = new_bucket(s3)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    _notify(s3, bucket, "s3:ObjectCreated:*", "s3:ObjectRemoved:*")
    named = {"Bucket": bucket, "Key": "k"}
    with Webhook(webhook_port) as webhook:
        first = s3.put_object(**named, Body=b"1")["VersionId"]
        marker = s3.delete_object(**named)["VersionId"]
        s3.delete_object(**named, VersionId=marker)
        s3.delete_object(**named, VersionId=first)
        await_true(lambda: len(webhook.posts) >= 4, "all events")
        await_true(lambda: not notifying.waiting, "an empty queue")
    records = [event["Records"][0] for event in webhook.events]
    seen = {(r["eventName"], r["s3"]["object"]["versionId"]) for r in records}
    assert seen == {
        ("ObjectCreated:Put", first),
        ("ObjectRemoved:DeleteMarkerCreated", marker),
        ("ObjectRemoved:Delete", marker),
        ("ObjectRemoved:Delete", first),
    }


def test_events_outlive_the_webhook_and_the_proxy(notifying: Notifying, webhook_port: int) -> None:
    s3 = s3_client(notifying.proxy.port, retries={"max_attempts": 5})
    bucket = new_bucket(s3)
    _notify(s3, bucket, "s3:ObjectCreated:Put")
    keys = [f"k{n}" for n in range(20)]
    for key in keys:  # the webhook is down, and no request waits for it
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    queue = notifying.directory / "queue"
    await_true(
        lambda: sum(f.read_bytes().count(b"EventName") for f in queue.rglob("*.events")) == 20,
        "all events on disk",
    )
    workers = descendants(notifying.proxy.process.pid)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    await_true(lambda: not set(workers) & set(descendants(notifying.proxy.process.pid)), "deaths")

    def all_came() -> bool:
        s3.head_bucket(Bucket=bucket)  # new workers begin with a request
        return {key for _, key, _ in _seen(webhook)} == set(keys)

    with Webhook(webhook_port) as webhook:
        await_true(all_came, "all events")
        await_true(lambda: not notifying.waiting, "an empty queue")


def test_a_client_cannot_name_an_address(notifying: Notifying) -> None:
    s3 = s3_client(notifying.proxy.port)
    bucket = new_bucket(s3)
    for arn in ("http://127.0.0.1:1/", _ARN.replace("orders", "other"), "arn:aws:sqs:::orders"):
        wanted = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}
        with pytest.raises(ClientError) as refused:
            s3.put_bucket_notification_configuration(
                Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [wanted]}
            )
        assert refused.value.response["Error"]["Code"] == "InvalidArgument"
    stranger = s3_client(notifying.proxy.port, "test:tester3", "testing3")
    with pytest.raises(ClientError) as refused:
        _notify(stranger, bucket, "s3:ObjectCreated:*")
    assert refused.value.response["Error"]["Code"] == "AccessDenied"
