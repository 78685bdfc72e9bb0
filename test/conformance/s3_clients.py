"""Programs that people use with S3, each driven through its usual tasks."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import judges
from clients import (
    LARGE_BYTES,
    Check,
    digests,
    empty_directory,
    make_tree,
    outcome,
    rclone_tasks,
    say,
)
from mc_tasks import run_mc
from running_cluster import await_true
from s3_client import KEY, USER, s3_client
from s3cmd_tasks import run_s3cmd
from suite import Result

from cluster.ports import HOST, PortPicker

_PART = "5M"


def run_s3_clients(url: str) -> list[Result]:
    """Return the outcome of each program; a program that is not installed is skipped."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]  # settings of the caller
    scratch = empty_directory("s3-clients")
    checks: dict[str, Check] = {
        "aws": _aws,
        "rclone": _rclone,
        "restic": _restic,
        "s3fs": _s3fs,
        "docker-registry": _registry,
        "s3cmd": run_s3cmd,
        "mc": run_mc,
    }
    return [outcome(f"s3-{name}", check, url, scratch / name) for name, check in checks.items()]


def _environ(url: str, scratch: Path) -> dict[str, str]:
    """The variables that tell the programs where the cluster is."""
    return {
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_CONFIG_FILE": str(scratch / "none"),
        "HOME": str(scratch),
    }


def _make_bucket(url: str, name: str) -> None:
    s3_client(urlsplit(url).port or 80).create_bucket(Bucket=name)


def _aws(url: str, scratch: Path) -> None:
    """Sync both ways, in parts and with changes; move, presign, remove."""
    binaries = judges.environment("awscli", "awscli")
    environ, tree, back = _environ(url, scratch), make_tree(scratch), scratch / "back"

    def aws(*words: str) -> str:
        return say([str(binaries / "aws"), *words], environ, scratch)

    aws("s3", "mb", "s3://aws-c")
    aws("s3", "sync", str(tree), "s3://aws-c/dir")
    aws("s3", "mv", "s3://aws-c/dir/a.txt", "s3://aws-c/dir/moved.txt")
    (tree / "a.txt").rename(tree / "moved.txt")
    aws("s3", "mv", "s3://aws-c/dir/large.bin", "s3://aws-c/dir/larger.bin")
    (tree / "large.bin").rename(tree / "larger.bin")
    (tree / "deep/er/b.bin").write_bytes(b"changed")
    (tree / "plus+&=.txt").unlink()
    aws("s3", "sync", "--delete", str(tree), "s3://aws-c/dir")
    aws("s3", "sync", "s3://aws-c/dir", str(back))
    assert digests(back) == digests(tree), "what came back differs"
    link = aws("s3", "presign", "s3://aws-c/dir/larger.bin").strip()
    with urllib.request.urlopen(link) as answer:
        body = answer.read()
    assert body == (tree / "larger.bin").read_bytes(), "a presigned URL gives something else"
    aws("s3", "rb", "--force", "s3://aws-c")
    assert "aws-c" not in aws("s3", "ls")


def _rclone(url: str, scratch: Path) -> None:
    """The tasks of rclone with parts; no upload is left over; purge."""
    environ = _environ(url, scratch) | {
        "RCLONE_CONFIG": str(scratch / "none.conf"),
        "RCLONE_CONFIG_M_TYPE": "s3",
        "RCLONE_CONFIG_M_PROVIDER": "Other",
        "RCLONE_CONFIG_M_ENDPOINT": url,
        "RCLONE_CONFIG_M_ENV_AUTH": "true",
        "RCLONE_S3_CHUNK_SIZE": _PART,
        "RCLONE_S3_UPLOAD_CUTOFF": _PART,
        "RCLONE_S3_COPY_CUTOFF": _PART,
    }
    rclone, bucket = rclone_tasks(environ, scratch)
    listed = json.loads(rclone("backend", "list-multipart-uploads", bucket))
    assert list(listed.values()) == [[]], listed
    rclone("purge", bucket)
    assert "rclone-c" not in rclone("lsf", "m:").replace("/", "").splitlines()


def _restic(url: str, scratch: Path) -> None:
    """Back up twice, check all data, restore, forget the first snapshot and its data."""
    environ = _environ(url, scratch) | {
        "RESTIC_PASSWORD": "secret",
        "RESTIC_REPOSITORY": f"s3:{url}/restic",
        "RESTIC_CACHE_DIR": str(scratch / "cache"),
    }
    tree, back = make_tree(scratch), scratch / "back"

    def restic(*words: str) -> str:
        return say(["restic", *words], environ, scratch)

    restic("init")
    restic("backup", "tree")
    (tree / "large.bin").unlink()
    restic("backup", "tree")
    restic("check", "--read-data")
    first, second = json.loads(restic("snapshots", "--json"))
    restic("restore", second["id"], "--target", str(back))
    assert digests(back / "tree") == digests(tree), "what came back differs"
    restic("forget", "--prune", first["id"])
    restic("check", "--read-data")
    assert [left["id"] for left in json.loads(restic("snapshots", "--json"))] == [second["id"]]


def _s3fs(url: str, scratch: Path) -> None:
    """Mount a bucket: copy a tree, append, cut, write in the middle, rename, links, modes."""
    environ, mount = _environ(url, scratch), scratch / "mount"
    mount.mkdir()
    _make_bucket(url, "s3fs-c")
    options = f"url={url},use_path_request_style,multipart_size=5,use_cache={scratch}/cache"
    tree = make_tree(scratch)
    say(["s3fs", "s3fs-c", str(mount), "-o", options], environ)
    try:
        say(["cp", "-r", f"{tree}/.", str(mount)], environ)
        assert digests(mount) == digests(tree), "what is mounted differs"
        for root in (tree, mount):
            _change_files(root)
        assert digests(mount) == digests(tree), "what was changed differs"
        assert (mount / "many" / "000").stat().st_mode & 0o777 == 0o600
        assert os.readlink(mount / "link") == "moved/b.bin"
        say(["rm", "-r", *(str(path) for path in mount.iterdir())], environ)
        assert not any(mount.iterdir())
    finally:
        say(["umount", str(mount)], environ)


def _change_files(root: Path) -> None:
    with (root / "a.txt").open("ab") as file:
        file.write(b"appended")
    with (root / "large.bin").open("r+b") as file:
        file.seek(LARGE_BYTES // 2)
        file.write(b"in the middle")
    os.truncate(root / "plus+&=.txt", 100)
    (root / "deep" / "er").rename(root / "moved")
    (root / "large.bin").rename(root / "larger.bin")
    (root / "link").symlink_to("moved/b.bin")
    (root / "many" / "000").chmod(0o600)


_REGISTRY = """\
version: 0.1
log: {{level: warn}}
storage:
  s3: {{accesskey: "{user}", secretkey: {key}, region: us-east-1, regionendpoint: "{url}",
       bucket: registry, chunksize: 5242880}}
  delete: {{enabled: true}}
http: {{addr: "{host}:{port}"}}
"""
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def _registry(url: str, scratch: Path) -> None:
    """Push an image to Docker's registry, whose layers are in a bucket; list, pull, delete it."""
    environ, conf = _environ(url, scratch), scratch / "conf.yml"
    port = PortPicker(urlsplit(url).port or 80).keep_or_pick(0)
    _make_bucket(url, "registry")
    conf.write_text(_REGISTRY.format(user=USER, key=KEY, url=url, host=HOST, port=port))
    with _running(["docker-registry", "serve", str(conf)], environ, port):
        image = Image(port)
        layer = random.Random(1).randbytes(13_000_000)
        parts = [image.push(layer), image.push(b"small"), image.push(b"{}")]
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **parts[2]},
            "layers": [
                {"mediaType": "application/vnd.oci.image.layer.v1.tar", **part}
                for part in parts[:2]
            ],
        }
        body = json.dumps(manifest).encode()
        path = f"{image.path}/manifests"
        _, headers, _ = image.ask(201, "PUT", f"{path}/v1", body, {"Content-Type": _MANIFEST})
        assert json.loads(image.ask(200, "GET", f"{image.path}/tags/list")[2])["tags"] == ["v1"]
        assert image.ask(200, "GET", f"{path}/v1", None, {"Accept": _MANIFEST})[2] == body
        _, where, _ = image.ask(307, "GET", f"{image.path}/blobs/{parts[0]['digest']}")
        with urllib.request.urlopen(where["Location"]) as answer:
            assert answer.read() == layer, "a layer differs"
        image.ask(202, "DELETE", f"{path}/{headers['Docker-Content-Digest']}")
        image.ask(404, "GET", f"{path}/v1", None, {"Accept": _MANIFEST})


class Image:
    """An image in a registry, by the HTTP API of the OCI distribution specification."""

    path = "/v2/team/app"

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=60)

    def ask(
        self,
        wanted: int,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of an answer, whose status must be ``wanted``."""
        self._connection.request(method, path, body, dict(headers))
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == wanted, f"{method} {path}: {answer.status} {content[:200]!r}"
        return answer.status, dict(answer.getheaders()), content

    def push(self, data: bytes) -> dict[str, object]:
        """Upload a blob in three pieces; return its digest and size for the manifest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        _, headers, _ = self.ask(202, "POST", f"{self.path}/blobs/uploads/")
        step = max(1, len(data) // 3 + 1)
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            of = {"Content-Range": f"{start}-{start + len(piece) - 1}"}
            _, headers, _ = self.ask(202, "PATCH", self._location(headers), piece, of)
        self.ask(201, "PUT", f"{self._location(headers)}&digest={digest}", b"")
        return {"digest": digest, "size": len(data)}

    @staticmethod
    def _location(headers: Mapping[str, str]) -> str:
        location = headers["Location"]
        return location[location.index("/v2/") :]


@contextmanager
def _running(command: list[str], environ: Mapping[str, str], port: int) -> Iterator[None]:
    """Run a server until it is not needed any more."""

    def listens() -> bool:
        assert process.poll() is None, f"{command[0]} ended"
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    env = {**os.environ, **environ}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, env=env, stdout=nothing, stderr=nothing) as process:
        try:
            await_true(listens, f"{command[0]} listens")
            yield
        finally:
            process.kill()
