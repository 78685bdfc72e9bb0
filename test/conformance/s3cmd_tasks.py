"""s3cmd, through its usual tasks, with signatures of versions 4 and 2."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import judges
from clients import LARGE_BYTES, digests, make_tree, pipe, say
from s3_client import KEY, USER, s3_client

_CONF = """\
[default]
access_key = {user}
secret_key = {key}
host_base = {host}
host_bucket = {host}
use_https = False
signature_v2 = {is_v2}
multipart_chunk_size_mb = 5
multipart_copy_chunk_size_mb = 5
"""
_CORS = """\
<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod>
<AllowedOrigin>https://example.com</AllowedOrigin></CORSRule></CORSConfiguration>
"""
_LIFECYCLE = """\
<LifecycleConfiguration><Rule><ID>logs</ID><Filter><Prefix>logs/</Prefix></Filter>
<Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>
"""
_RETAINED_UNTIL = "2100-01-01T00:00:00Z"

#: Runs s3cmd with these arguments; what it prints.
S3cmd = Callable[..., str]


def run_s3cmd(url: str, scratch: Path) -> None:
    """All tasks with signatures of version 4, and once more with those of version 2."""
    program = str(judges.environment("s3cmd", "s3cmd") / "s3cmd")
    for version in (4, 2):
        home = scratch / f"version-{version}"
        home.mkdir()
        conf = home / "s3cmd.conf"
        host = urlsplit(url).netloc
        conf.write_text(_CONF.format(user=USER, key=KEY, host=host, is_v2=version == 2))
        command = [program, f"--config={conf}", "--no-progress"]
        s3cmd = partial(_say, command, home)
        bucket = f"s3://s3cmd-v{version}"
        s3cmd("mb", bucket)
        assert bucket in s3cmd("ls")
        tree = _sync_both_ways(s3cmd, bucket, home)
        _pipe_both_ways(command, bucket, home)
        _copy_and_change(s3cmd, bucket, tree)
        _permit(s3cmd, bucket)
        _list_uploads(s3cmd, bucket, url)
        _set_up_the_bucket(s3cmd, bucket, home)
        s3cmd("del", "--recursive", "--force", bucket)
        assert s3cmd("ls", "--recursive", bucket) == ""
        s3cmd("rb", bucket)
        assert bucket not in s3cmd("ls")
        if version == 4:  # its signatures of version 2 leave out the parameter `legal-hold`
            _keep_versions(s3cmd, f"{bucket}-locked", url, home)


def _say(command: list[str], home: Path, *words: str) -> str:
    return say([*command, *words], {"HOME": str(home), "LC_ALL": "C.UTF-8"}, home)


def _sync_both_ways(s3cmd: S3cmd, bucket: str, home: Path) -> Path:
    """Sync a tree, change it, sync again, and fetch it into a directory with other files."""
    tree, back = make_tree(home), home / "back"
    s3cmd("sync", f"{tree}/", f"{bucket}/dir/")
    (tree / "deep/er/b.bin").write_bytes(b"changed")
    (tree / "plus+&=.txt").unlink()
    (tree / "new").write_bytes(b"new")
    s3cmd("sync", "--delete-removed", f"{tree}/", f"{bucket}/dir/")
    shutil.copytree(tree, back)
    (back / "large.bin").unlink()
    (back / "new").write_bytes(b"of the same size"[:3])
    (back / "other").write_bytes(b"not in the bucket")
    s3cmd("sync", "--delete-removed", f"{bucket}/dir/", f"{back}/")
    assert digests(back) == digests(tree), "what came back differs"
    listed = s3cmd("ls", "--recursive", f"{bucket}/dir/").splitlines()
    names = {line.partition(f"{bucket}/dir/")[2] for line in listed}
    assert names == set(digests(tree)), sorted(names)
    size, count = s3cmd("du", f"{bucket}/dir/").split()[:2]
    wanted = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    assert (int(size), int(count)) == (wanted, len(names)), (size, count)
    return tree


def _pipe_both_ways(command: list[str], bucket: str, home: Path) -> None:
    """Write standard input in parts, and read it to standard output."""
    environ, data = {"HOME": str(home)}, bytes(range(256)) * (12 << 12)
    pipe([*command, "put", "-", f"{bucket}/piped"], environ, data)
    assert pipe([*command, "get", f"{bucket}/piped", "-"], environ) == data, "a pipe differs"


def _copy_and_change(s3cmd: S3cmd, bucket: str, tree: Path) -> None:
    """Copy, move and change the headers of a small object and of one in parts; tags; URLs."""
    for name in ("a.txt", "large.bin"):
        data = (tree / name).read_bytes()
        s3cmd("cp", f"{bucket}/dir/{name}", f"{bucket}/copy/{name}")
        s3cmd("mv", f"{bucket}/copy/{name}", f"{bucket}/moved/{name}")
        assert f"copy/{name}" not in s3cmd("ls", "--recursive", bucket)
        moved = f"{bucket}/moved/{name}"
        added = ("Cache-Control:max-age=60", "x-amz-meta-color:blue")
        s3cmd("modify", *(f"--add-header={header}" for header in added), moved)
        info = s3cmd("info", moved)
        assert "x-amz-meta-color: blue" in info, info
        assert f"File size: {len(data)}" in info, info
        s3cmd("settagging", moved, "shape=round&size=large")
        tags = s3cmd("gettagging", moved).split()
        assert tags[-4:] == ["shape:", "round", "size:", "large"], tags
        s3cmd("deltagging", moved)
        assert "shape" not in s3cmd("gettagging", moved)
        with urllib.request.urlopen(s3cmd("signurl", moved, "+600").strip()) as answer:
            assert answer.read() == data, f"a signed URL of {name} gives something else"
            assert answer.headers["Cache-Control"] == "max-age=60", answer.headers.items()
    s3cmd("cp", "--recursive", f"{bucket}/dir/many/", f"{bucket}/copies/")
    assert s3cmd("du", f"{bucket}/copies/").split()[1] == "60"
    s3cmd("mv", "--recursive", f"{bucket}/copies/", f"{bucket}/moved/")
    assert s3cmd("du", f"{bucket}/copies/").split()[1] == "0"


def _permit(s3cmd: S3cmd, bucket: str) -> None:
    """Set the ACLs of an object and of the bucket, and take them back."""
    for place in (f"{bucket}/dir/a.txt", bucket):
        s3cmd("setacl", "--acl-public", place)
        assert "*anon*: READ" in s3cmd("info", place), place
        s3cmd("setacl", "--acl-private", place)
        assert "*anon*" not in s3cmd("info", place), place


def _list_uploads(s3cmd: S3cmd, bucket: str, url: str) -> None:
    """List an unfinished upload and its parts, and abort it."""
    s3, name = s3_client(urlsplit(url).port or 80), bucket.removeprefix("s3://")
    upload = s3.create_multipart_upload(Bucket=name, Key="unfinished")["UploadId"]
    part = {"Bucket": name, "Key": "unfinished", "UploadId": upload, "PartNumber": 1}
    s3.upload_part(Body=b"of a part", **part)
    assert f"{bucket}/unfinished\t{upload}" in s3cmd("multipart", bucket)
    parts = s3cmd("listmp", f"{bucket}/unfinished", upload).splitlines()
    assert parts[-1].split("\t")[1::2] == ["1", "9"], parts
    s3cmd("abortmp", f"{bucket}/unfinished", upload)
    assert "unfinished" not in s3cmd("multipart", bucket)


def _set_up_the_bucket(s3cmd: S3cmd, bucket: str, home: Path) -> None:
    """Set, read and remove what a bucket can have."""
    name = bucket.removeprefix("s3://")
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}
    statement["Resource"] = f"arn:aws:s3:::{name}/public/*"
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    for kind, text in (
        ("policy", json.dumps(policy)),
        ("cors", _CORS),
        ("lifecycle", _LIFECYCLE),
    ):
        (home / kind).write_text(text)
        s3cmd(f"set{kind}", str(home / kind), bucket)
    info = s3cmd("info", bucket)
    for said in ("/public/*", "https://example.com", "prefix 'logs/'", "expire in '30'"):
        assert said in info, f"{said}: {info}"
    assert "<ID>logs</ID>" in s3cmd("getlifecycle", bucket)
    for kind in ("policy", "cors", "lifecycle"):
        s3cmd(f"del{kind}", bucket)
    s3cmd("settagging", bucket, "team=red")
    assert "team:\tred" in s3cmd("gettagging", bucket)
    s3cmd("deltagging", bucket)
    s3cmd("expire", "--expiry-days=7", "--expiry-prefix=old/", bucket)
    s3cmd("setownership", bucket, "BucketOwnerEnforced")
    s3cmd("setblockpublicaccess", bucket, "BlockPublicPolicy,RestrictPublicBuckets")
    info = s3cmd("info", bucket)
    for said in (
        "Policy:    none",
        "CORS:      none",
        "expire in '7'",
        "Ownership: BucketOwnerEnforced",
        "Access: BlockPublicPolicy,RestrictPublicBuckets",
    ):
        assert said in info, f"{said}: {info}"


def _keep_versions(s3cmd: S3cmd, bucket: str, url: str, home: Path) -> None:
    """Enable versioning, lock objects, and find them locked."""
    s3, name = s3_client(urlsplit(url).port or 80), bucket.removeprefix("s3://")
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    assert "Versioning:Enabled" in s3cmd("info", bucket)
    data = bytes(LARGE_BYTES // 4)
    (home / "locked").write_bytes(data)
    s3cmd("put", str(home / "locked"), f"{bucket}/locked")
    s3cmd("setobjectlegalhold", "ON", f"{bucket}/locked")
    with suppress(subprocess.CalledProcessError):  # this command exits with 1 in any case
        s3cmd("setobjectretention", "GOVERNANCE", _RETAINED_UNTIL, f"{bucket}/locked")
    head = s3.head_object(Bucket=name, Key="locked")
    assert head["ObjectLockLegalHoldStatus"] == "ON", head
    assert head["ObjectLockMode"] == "GOVERNANCE", head
    assert head["ObjectLockRetainUntilDate"].year == 2100, head
    s3cmd("del", f"{bucket}/locked")
    assert s3cmd("ls", bucket) == ""
    kept = s3.get_object(Bucket=name, Key="locked", VersionId=head["VersionId"])
    assert kept["Body"].read() == data, "the version that was locked differs"
    s3cmd("mb", f"{bucket}-not")
    s3cmd("setversioning", f"{bucket}-not", "enable")
    assert "Versioning:Enabled" in s3cmd("info", f"{bucket}-not")
    s3cmd("setversioning", f"{bucket}-not", "disable")
    assert "Versioning:Suspended" in s3cmd("info", f"{bucket}-not")
    s3cmd("rb", f"{bucket}-not")
