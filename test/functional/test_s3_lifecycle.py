"""Lifecycle rules of S3 buckets through real processes, with a second in place of a day."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from running_cluster import RunningCluster, await_true
from s3_client import s3_client
from swift_api import Account

from martlet.service.programs import find_object_server


class Job:
    """Passes over all devices of a cluster, one at a time."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.confs: list[Path] = []
        self.done: Counter[str] = Counter()
        for conf in (cluster.home / "etc").rglob("object-server.conf"):
            copy = conf.with_name("lifecycle-of-a-test.conf")
            fast = "[object-lifecycle]\nday_seconds = 1\nbytes_per_second = 0\n"
            copy.write_text(conf.read_text().replace("[object-lifecycle]\n", fast))
            self.confs.append(copy)

    def run(self) -> None:
        for conf in self.confs:
            command = [find_object_server(), "lifecycle", str(conf), "--once", "--json"]
            ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            self.done.update(json.loads(ended.stdout))

    def ran(self) -> bool:
        """Make a pass."""
        self.run()
        return True


def _rule(**action: Any) -> dict[str, Any]:
    return {"ID": "a rule", "Status": "Enabled", "Filter": {"Prefix": "old/"}, **action}


def _versions(s3: Any, bucket: str) -> list[tuple[str, bool]]:
    page = s3.list_object_versions(Bucket=bucket)
    rows = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    return [(row["VersionId"], row["IsLatest"]) for row in rows]


def test_rules_are_carried_out(cluster: RunningCluster, account: Account) -> None:
    s3, job = s3_client(cluster.port), Job(cluster)
    plain, versioned = (f"lifecycle-{kind}-{os.getpid()}" for kind in ("plain", "versioned"))
    for bucket in (plain, versioned):
        s3.create_bucket(Bucket=bucket)
    state = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration=state)
    s3.put_object(Bucket=plain, Key="old/ü", Body=b"x")
    s3.put_object(Bucket=plain, Key="other", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=plain, Key="old/upload")["UploadId"]
    named = {"Bucket": plain, "Key": "old/upload", "UploadId": upload}
    s3.upload_part(**named, PartNumber=1, Body=b"part")
    ids = [
        s3.put_object(Bucket=versioned, Key="old/k", Body=b"%d" % n)["VersionId"] for n in range(5)
    ]
    abort = {"DaysAfterInitiation": 1}
    rules = [_rule(Expiration={"Days": 1}, AbortIncompleteMultipartUpload=abort)]
    s3.put_bucket_lifecycle_configuration(Bucket=plain, LifecycleConfiguration={"Rules": rules})
    assert s3.get_bucket_lifecycle_configuration(Bucket=plain)["Rules"] == rules
    assert 'rule-id="a%20rule"' in s3.head_object(Bucket=plain, Key="old/ü")["Expiration"]
    noncurrent = {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}
    rules = [_rule(NoncurrentVersionExpiration=noncurrent)]
    s3.put_bucket_lifecycle_configuration(Bucket=versioned, LifecycleConfiguration={"Rules": rules})

    def keys() -> list[str]:
        return [row["Key"] for row in s3.list_objects_v2(Bucket=plain).get("Contents", [])]

    await_true(lambda: job.ran() and keys() == ["other"], "the expiry of an object")
    kept = [(ids[4], True), (ids[3], False), (ids[2], False)]
    await_true(lambda: job.ran() and _versions(s3, versioned) == kept, "that of old versions")
    segments = f"{plain}+segments"
    await_true(
        lambda: job.ran() and account.call("GET", segments).body == b"", "the end of the upload"
    )
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=plain)
    assert s3.get_object(Bucket=versioned, Key="old/k")["Body"].read() == b"4"
    for key in ("expired", "aborted", "parts"):
        assert job.done[key] == 1, job.done
    assert (job.done["removed"], job.done["refused"]) == (2, 0)
    s3.delete_bucket_lifecycle(Bucket=versioned)
    job.run()
    assert _versions(s3, versioned) == kept
