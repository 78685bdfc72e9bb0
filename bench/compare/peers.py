# SPDX-License-Identifier: Apache-2.0
"""The peers: each is started in a directory of its own, with default settings where it has them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from load import HOST
from own_cluster import free_port, login, own_cluster
from processes import services

from compare.apis import S3Access, SwiftAccess, Target
from compare.openstack_swift import S3_USERS, start_swift
from compare.running import Running, await_listening, ended

#: For peers that ask for a user. MinIO wants at least eight characters.
ACCESS_KEY, SECRET = "compare", "compare-secret"


@dataclass(frozen=True)
class Peer:
    """A store, with the copies of an object that it keeps in this benchmark."""

    name: str
    copies: str
    #: The Go program it is; None for what Python's environment has.
    program: str | None
    start: Callable[[Path, Path], AbstractContextManager[Running]]


@contextmanager
def _martlet(program: Path, directory: Path) -> Iterator[Running]:
    with own_cluster() as home:
        port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
        pids = [services(home)["supervisor"]]
        yield Running(pids, _openstack_targets(port))


@contextmanager
def _swift(program: Path, directory: Path) -> Iterator[Running]:
    with start_swift(directory) as (port, pids):
        yield Running(pids, _openstack_targets(port))


def _openstack_targets(port: int) -> dict[str, Target]:
    token, account = login(port)
    s3 = S3Access(f"{HOST}:{port}", *S3_USERS)
    return {
        "swift": Target("swift", port, SwiftAccess(token), account),
        "s3": Target("s3", port, s3, ""),
    }


@contextmanager
def _started(
    command: Sequence[str | Path], directory: Path, port: int, environment: dict[str, str]
) -> Iterator[Running]:
    """Run one program that serves S3 on a port."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=directory, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    with ended([process]):
        await_listening(process, port, directory / "log")
        access = S3Access(f"{HOST}:{port}", ACCESS_KEY, SECRET)
        yield Running([process.pid], {"s3": Target("s3", port, access, "")})


def _minio(drives: int) -> Callable[[Path, Path], AbstractContextManager[Running]]:
    def start(program: Path, directory: Path) -> AbstractContextManager[Running]:
        port, console = free_port(), free_port()
        paths = [directory / f"drive{number}" for number in range(1, drives + 1)]
        for path in paths:
            path.mkdir()
        environment = {
            "MINIO_ROOT_USER": ACCESS_KEY,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            # Several drives on one file system, which may be that of the system.
            "MINIO_CI_CD": "1",
        }
        addresses = ["--address", f"{HOST}:{port}", "--console-address", f"{HOST}:{console}"]
        command: list[str | Path] = [program, "server", "--quiet", *addresses, *paths]
        return _started(command, directory, port, environment)

    return start


def _versitygw(program: Path, directory: Path) -> AbstractContextManager[Running]:
    port = free_port()
    objects, versions = directory / "objects", directory / "versions"
    objects.mkdir()
    versions.mkdir()
    command: list[str | Path] = [program, "--access", ACCESS_KEY, "--secret", SECRET]
    command += [
        "--port",
        f"{HOST}:{port}",
        "--quiet",
        "posix",
        "--versioning-dir",
        versions,
        objects,
    ]
    return _started(command, directory, port, {})


def _seaweedfs(program: Path, directory: Path) -> AbstractContextManager[Running]:
    port = free_port()
    identity = {
        "name": "compare",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    conf = directory / "s3.json"
    conf.write_text(json.dumps({"identities": [identity]}))
    data = directory / "data"
    data.mkdir()
    command: list[str | Path] = [
        program,
        "server",
        f"-dir={data}",
        f"-ip={HOST}",
        f"-ip.bind={HOST}",
    ]
    command += ["-s3", f"-s3.port={port}", f"-s3.config={conf}", "-master.volumeSizeLimitMB=1024"]
    command += ["-volume.max=100", f"-s3.port.grpc={free_port()}"]
    for part in ("master", "volume", "filer"):
        command += [f"-{part}.port={free_port()}", f"-{part}.port.grpc={free_port()}"]
    return _started(command, directory, port, {"HOME": str(directory)})


PEERS = (
    Peer("martlet", "3 copies", None, _martlet),
    Peer("swift", "3 copies", None, _swift),
    Peer("minio-4", "2+2 shards", "minio", _minio(4)),
    Peer("minio-1", "1 copy", "minio", _minio(1)),
    Peer("versitygw", "1 copy", "versitygw", _versitygw),
    Peer("seaweedfs", "1 copy", "seaweedfs", _seaweedfs),
)
