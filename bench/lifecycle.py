# SPDX-License-Identifier: Apache-2.0
"""The rate at which lifecycle rules remove old versions of one object, and one DELETE each does.

It starts a cluster and writes the versions through the S3 API. It removes versions of one object
with a DELETE for each, one after the other. Then it makes a pass of the lifecycle job over another
object, with a second in place of a day. The figures are printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from own_cluster import KEY, USER, own_cluster

from martlet.service.programs import find_object_server

CLIENTS = 8
BUCKET = "versions"


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python bench/lifecycle.py --versions 100000 --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--versions", type=int, default=10_000, metavar="N", help="default 10000")
    parser.add_argument("--one-by-one", type=int, default=200, metavar="N", help="default 200")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with own_cluster() as home:
        found = measure(home, arguments.versions, arguments.one_by_one)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"{'way':22} {'versions':>9} {'seconds':>9} {'a second':>10}")
    for way, one in found.items():
        rate = one["versions"] / one["seconds"]
        print(f"{way:22} {one['versions']:9,} {one['seconds']:9.2f} {rate:10,.0f}")
    return 0


def measure(home: Path, versions: int, one_by_one: int) -> dict[str, dict[str, float]]:
    """The figures of both ways."""
    port = json.loads((home / "cluster.json").read_text())["proxy_port"]
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=USER,
        aws_secret_access_key=KEY,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, max_pool_connections=CLIENTS),
    )
    s3.create_bucket(Bucket=BUCKET)
    enabled = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=enabled)
    write(s3, "many", versions + 1)
    ids = write(s3, "few", one_by_one + 1)
    began = time.perf_counter()
    for version in sorted(ids)[:-1]:
        s3.delete_object(Bucket=BUCKET, Key="few", VersionId=version)
    alone = time.perf_counter() - began
    rule = {
        "ID": "old versions",
        "Status": "Enabled",
        "Filter": {"Prefix": "many"},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
    }
    s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [rule]})
    time.sleep(2.5)  # a version is old two of these days later
    removed, seconds = carry_out(home)
    if removed != versions:
        raise SystemExit(f"{removed} of {versions} versions were removed")
    return {
        "one pass of the rules": {"versions": removed, "seconds": seconds},
        "one DELETE each": {"versions": one_by_one, "seconds": alone},
    }


def write(s3: Any, key: str, count: int) -> list[str]:
    """Write versions of an object; return their ids."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        put = clients.map(lambda n: s3.put_object(Bucket=BUCKET, Key=key, Body=b"x"), range(count))
        return [str(answer["VersionId"]) for answer in put]


def carry_out(home: Path) -> tuple[int, float]:
    """Make one pass over all devices; return what was removed, and the time."""
    removed, seconds = 0, 0.0
    for conf in sorted((home / "etc").rglob("object-server.conf")):
        fast = "[object-lifecycle]\nday_seconds = 1\nbytes_per_second = 0\n"
        copy = conf.with_name("lifecycle-bench.conf")
        copy.write_text(conf.read_text().replace("[object-lifecycle]\n", fast))
        command = [find_object_server(), "lifecycle", str(copy), "--once", "--json"]
        began = time.perf_counter()
        ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        seconds += time.perf_counter() - began
        removed += int(json.loads(ended.stdout)["removed"])
    return removed, seconds


if __name__ == "__main__":
    raise SystemExit(main())
