# SPDX-License-Identifier: Apache-2.0
"""The rate at which lifecycle rules remove old versions, beside MinIO.

Each peer runs alone, one after the other, with empty disks. The versions are written through the
S3 API, the objects in turn. Then a rule keeps the newest one of the old versions of each object.

martlet's job makes one pass with a second in place of a day. Its time begins with the pass and ends
when listings no longer show a version that is due. MinIO removes by itself, with its scanner at its
fastest. Its time begins with the last look at which none of eight objects was done, so the wait for
the scanner does not count. It ends when all eight are. A look is eight HEADs, each quarter of a
second. CPU is that of all processes of a peer, from the rule to the end, with these looks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from compare.apis import S3Access, Target
from compare.build import default_cache
from compare.client import Load, run
from compare.openstack_swift import S3_USERS
from compare.peers import PEERS, Peer
from compare.session import say, set_up
from load import HOST
from own_cluster import own_cluster
from processes import services, tree_cpu_ms

from martlet.service.programs import find_object_server

BUCKET = "versions"
SIZE_BYTES = 1024
CLIENTS, CLIENT_PROCESSES = 16, 1
#: Requests that are signed, and held in memory, at once.
CHUNK = 20_000
#: An old version is due two of the short days after the next one was written.
DUE_SECONDS = 2.5
WAIT_SECONDS_MAX = 4 * 3600.0
#: Objects of which MinIO's progress is read, spread over all.
LOOKED_AT = 8
LOOK_SECONDS = 0.25
ONE_BY_ONE = "one-by-one"
PEER_NAMES = ("martlet", "minio-4", "minio-1")


@dataclass(frozen=True)
class Sample:
    """Versions that were removed in one way."""

    peer: str
    way: str
    versions: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Work:
    """The size of the run: ``versions`` old versions of each object are to be removed."""

    objects: int
    versions: int
    one_by_one: int

    @property
    def removed(self) -> int:
        """The versions that the rule removes."""
        return self.objects * self.versions

    @property
    def kept(self) -> int:
        """The current versions, and the old ones that the rule keeps."""
        return 2 * self.objects

    def keys(self) -> list[str]:
        """The names of the objects."""
        return [f"many/{number:06d}" for number in range(self.objects)]


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="examples:\n"
        "  make bench-lifecycle\n"
        '  make bench-lifecycle BENCH_ARGS="--objects 1000 --versions 1000 --peers martlet"\n'
        '  make bench-lifecycle BENCH_ARGS="--peers martlet,minio-4 --json result.json"',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--objects", type=int, default=100, metavar="N", help="default %(default)s")
    add("--versions", type=int, default=100, metavar="N", help="removed of each, default 100")
    add("--one-by-one", type=int, default=200, metavar="N", help="DELETEs to martlet, default 200")
    add("--peers", type=_names, default=["martlet"], help=f"of {','.join(PEER_NAMES)}")
    add("--cache", type=Path, default=default_cache(), help="of built peers, default %(default)s")
    add("--json", type=Path, metavar="FILE", help="write the result there as well")
    arguments = parser.parse_args()
    work = Work(arguments.objects, arguments.versions, arguments.one_by_one)
    samples: list[Sample] = []
    for name in arguments.peers:
        samples += _martlet(work) if name == "martlet" else _minio(name, work, arguments.cache)
    if arguments.json:
        found = {"work": asdict(work), "samples": [asdict(one) for one in samples]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{'peer':9} {'way':22} {'versions':>10} {'seconds':>9} {'a second':>9} {'CPU ms':>8}")
    for one in samples:
        rate, cost = one.versions / one.seconds, one.cpu_seconds / one.versions * 1000
        row = f"{one.peer:9} {one.way:22} {one.versions:10,} {one.seconds:9.1f}"
        print(f"{row} {rate:9,.0f} {cost:8.3f}")
    return 0


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(PEER_NAMES):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


# --- the peers ------------------------------------------------------------------------------------


def _martlet(work: Work) -> Iterator[Sample]:
    with own_cluster() as home:
        port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
        target = Target("s3", port, S3Access(f"{HOST}:{port}", *S3_USERS), "")
        supervisor = services(home)["supervisor"]

        def cpu_ms() -> float:
            return tree_cpu_ms(supervisor) + _ended_children_ms()

        s3 = _filled("martlet", target, work, cpu_ms)
        if work.one_by_one:
            yield _one_by_one(s3, target, work, cpu_ms)
        _set_rule(s3, NoncurrentDays=1)
        time.sleep(DUE_SECONDS)
        began, before = time.monotonic(), cpu_ms()
        removed = _pass(home)
        if removed != work.removed:
            raise SystemExit(f"{removed:,} of {work.removed:,} versions were removed")
        _await_listings(s3, work)  # rows that were late come again by themselves
        seconds, cpu_seconds = time.monotonic() - began, (cpu_ms() - before) / 1000
        yield Sample("martlet", "a pass of the rules", removed, seconds, cpu_seconds)


def _pass(home: Path) -> int:
    """Make one pass over all devices; return the number of versions that were removed."""
    removed = 0
    for conf in sorted((home / "etc").rglob("object-server.conf")):
        fast = "[object-lifecycle]\nday_seconds = 1\nbytes_per_second = 0\n"
        copy = conf.with_name("lifecycle-bench.conf")
        copy.write_text(conf.read_text().replace("[object-lifecycle]\n", fast))
        command = [find_object_server(), "lifecycle", str(copy), "--once", "--json"]
        ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        removed += int(json.loads(ended.stdout)["removed"])
    return removed


def _ended_children_ms() -> float:
    """The CPU time of the jobs that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def _one_by_one(s3: Any, target: Target, work: Work, cpu_ms: Callable[[], float]) -> Sample:
    """Remove versions of another object with a DELETE for each."""
    _write("martlet", target, [ONE_BY_ONE], work.one_by_one + 1, cpu_ms)
    ids = [one["VersionId"] for one in _versions(s3, ONE_BY_ONE) if not one["IsLatest"]]
    began, before = time.monotonic(), cpu_ms()
    for version in ids:
        s3.delete_object(Bucket=BUCKET, Key=ONE_BY_ONE, VersionId=version)
    seconds, cpu_seconds = time.monotonic() - began, (cpu_ms() - before) / 1000
    return Sample("martlet", "one DELETE each", len(ids), seconds, cpu_seconds)


def _minio(name: str, work: Work, cache: Path) -> Iterator[Sample]:
    (peer,) = (one for one in PEERS if one.name == name)
    program = _program(peer, cache)
    os.environ["MINIO_SCANNER_SPEED"] = "fastest"
    with (
        tempfile.TemporaryDirectory(prefix="martlet-bench-") as directory,
        peer.start(program, Path(directory)) as running,
    ):
        target = running.targets["s3"]
        s3 = _filled(name, target, work, running.cpu_ms)
        cpu_ms, began, ended = _await_removal(s3, work, running.cpu_ms)
        _await_listings(s3, work)
        yield Sample(name, "its scanner", work.removed, ended - began, cpu_ms / 1000)


def _program(peer: Peer, cache: Path) -> Path:
    (found,) = set_up([peer], {}, cache).values()
    if isinstance(found, str):
        raise SystemExit(f"{peer.name} cannot be built: {found}")
    return found


def _await_removal(s3: Any, work: Work, cpu_ms: Callable[[], float]) -> tuple[float, float, float]:
    """Set the rule and wait until the objects looked at are done.

    Returns the CPU time from the rule on, when none was done yet, and when all were.
    """
    keys = work.keys()[:: max(1, work.objects // LOOKED_AT)]
    # The oldest version of each, the last in a listing. A HEAD costs little, a listing much.
    left = {key: _versions(s3, key)[-1]["VersionId"] for key in keys}
    before = cpu_ms()
    _set_rule(s3)
    began = time.monotonic()
    deadline = began + WAIT_SECONDS_MAX
    while True:
        looked = time.monotonic()
        left = {key: version for key, version in left.items() if _is_there(s3, key, version)}
        if not left:
            return cpu_ms() - before, began, time.monotonic()
        if len(left) == len(keys):
            began = looked
        if looked > deadline:
            raise SystemExit(f"{len(left)} objects are not done in {WAIT_SECONDS_MAX:.0f} s")
        time.sleep(LOOK_SECONDS)


def _is_there(s3: Any, key: str, version: str) -> bool:
    try:
        s3.head_object(Bucket=BUCKET, Key=key, VersionId=version)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
        return False
    return True


# --- requests to all peers ------------------------------------------------------------------------


def _filled(peer: str, target: Target, work: Work, cpu_ms: Callable[[], float]) -> Any:
    """Make the bucket and write all versions; return a client."""
    access = target.access
    assert isinstance(access, S3Access)
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://{access.host}",
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, read_timeout=600),
    )
    s3.create_bucket(Bucket=BUCKET)
    enabled = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=enabled)
    # The current version, and an old one that the rule keeps.
    _write(peer, target, work.keys(), work.versions + 2, cpu_ms)
    return s3


def _write(
    peer: str, target: Target, keys: Sequence[str], count: int, cpu_ms: Callable[[], float]
) -> None:
    """Write so many versions of each object, the objects in turn."""
    puts = [target.put(f"{BUCKET}/{key}", SIZE_BYTES) for key in keys]
    total, began = len(puts) * count, time.monotonic()
    for first in range(0, total, CHUNK):
        numbers = range(first, min(first + CHUNK, total))
        steps = [puts[number % len(puts)] for number in numbers]
        ended = run(Load(target.port, target.access, steps), CLIENTS, CLIENT_PROCESSES, cpu_ms)
        if ended.failures:
            raise SystemExit(f"{peer}: {ended.failures[0]}")
        rate = numbers.stop / (time.monotonic() - began)
        say(f"{peer}: {numbers.stop:,} of {total:,} versions written, {rate:,.0f} a second")


def _set_rule(s3: Any, **days: int) -> None:
    """Keep the newest one of the old versions. MinIO takes the rule without days, at once."""
    rule = {
        "ID": "old versions",
        "Status": "Enabled",
        "Filter": {"Prefix": "many/"},
        "NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 1, **days},
    }
    s3.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [rule]})


def _versions(s3: Any, prefix: str) -> list[dict[str, Any]]:
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix=prefix)
    return [one for page in pages for one in page.get("Versions", [])]


def _await_listings(s3: Any, work: Work) -> None:
    """Wait until listings show the versions that the rule keeps, and no others."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (left := len(_versions(s3, "many/"))) != work.kept:
        if time.monotonic() > deadline:
            raise SystemExit(f"{left:,} versions are listed, not {work.kept:,}")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
