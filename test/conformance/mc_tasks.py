"""mc, MinIO's client, through its usual tasks."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clients import LARGE_BYTES, digests, make_tree, pipe
from compare.build import GoProgram, NotBuilt, build, default_cache
from s3_client import KEY, USER, s3_client

PROGRAM = GoProgram("github.com/minio/mc", "v0.0.0-20250313080218-cf909e1063a9")
_CORS = """\
<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod>
<AllowedOrigin>https://example.com</AllowedOrigin></CORSRule></CORSConfiguration>
"""


def run_mc(url: str, scratch: Path) -> None:
    """All tasks, each in buckets of its own."""
    try:
        program = build(PROGRAM, default_cache())
    except NotBuilt as error:
        raise AssertionError(f"mc is not built: {error}") from error
    mc = Mc(program, url, scratch)
    tree = make_tree(scratch)
    _mirror_both_ways(mc, tree, scratch / "back")
    _copy_and_tag(mc, tree)
    _look(mc, tree)
    _keep_versions(mc)
    _expire(mc)
    _lock(mc)
    _share(mc, url)


class Mc:
    """The program, with a configuration that names the cluster ``m``."""

    def __init__(self, program: Path, url: str, scratch: Path) -> None:
        home = scratch / "mc"
        home.mkdir()
        # Not by `mc alias set`, which refuses secrets of less than 8 characters.
        alias = {"url": url, "accessKey": USER, "secretKey": KEY, "api": "S3v4", "path": "on"}
        (home / "config.json").write_text(json.dumps({"version": "10", "aliases": {"m": alias}}))
        self._command = [str(program), "--config-dir", str(home), "--disable-pager"]
        self._environ = {"HOME": str(scratch), "LC_ALL": "C.UTF-8"}
        self.port = urlsplit(url).port or 80

    def __call__(self, *words: str) -> list[dict[str, Any]]:
        """Return what it says, one document for each thing."""
        lines = pipe([*self._command, "--json", *words], self._environ).splitlines()
        said = [json.loads(line) for line in lines if line]
        failed = [each for each in said if each.get("status", "success") != "success"]
        assert not failed, f"mc {' '.join(words)}: {failed[0]}"
        return said

    def bytes_of(self, *words: str, data: bytes = b"") -> bytes:
        """Return its output as it is."""
        return pipe([*self._command, *words], self._environ, data)

    def refuses(self, *words: str) -> bool:
        """Whether it fails."""
        try:
            self(*words)
        except (AssertionError, subprocess.CalledProcessError):
            return True
        return False

    def keys(self, place: str) -> set[str]:
        """The names of all objects below a place."""
        return {each["key"] for each in self("ls", "--recursive", place)}


def _mirror_both_ways(mc: Mc, tree: Path, back: Path) -> None:
    """Mirror a tree, change it, mirror again, and fetch it into a directory with other files."""
    mc("mb", "m/mc-c")
    assert "mc-c/" in {each["key"] for each in mc("ls", "m")}
    mc("mirror", "--overwrite", "--remove", str(tree), "m/mc-c/dir")
    (tree / "deep/er/b.bin").write_bytes(b"changed")
    (tree / "plus+&=.txt").unlink()
    (tree / "new").write_bytes(b"new")
    before = {(Path(each["first"] or each["second"]).name) for each in _diff(mc, tree)}
    assert before == {"b.bin", "plus+&=.txt", "new"}, before
    mc("mirror", "--overwrite", "--remove", str(tree), "m/mc-c/dir")
    assert not _diff(mc, tree)
    shutil.copytree(tree, back)
    (back / "large.bin").unlink()
    (back / "new").write_bytes(b"of another size")
    (back / "other").write_bytes(b"not in the bucket")
    mc("mirror", "--overwrite", "--remove", "m/mc-c/dir", str(back))
    assert digests(back) == digests(tree), "what came back differs"
    assert mc.keys("m/mc-c/dir/") == set(digests(tree))
    (total,) = mc("du", "m/mc-c")
    sizes = [path.stat().st_size for path in tree.rglob("*") if path.is_file()]
    assert (total["size"], total["objects"]) == (sum(sizes), len(sizes)), total


def _diff(mc: Mc, tree: Path) -> list[dict[str, Any]]:
    return mc("diff", str(tree), "m/mc-c/dir")


def _copy_and_tag(mc: Mc, tree: Path) -> None:
    """Upload in parts, copy on the server, move; metadata, tags, storage class."""
    large = (tree / "large.bin").read_bytes()
    mc("put", "--part-size", "5MiB", "--parallel", "3", str(tree / "large.bin"), "m/mc-c/in/parts")
    (stat,) = mc("stat", "m/mc-c/in/parts")
    assert stat["etag"].endswith("-5"), stat
    attributes = "Cache-Control=max-age=60;color=blue"
    words = ["--attr", attributes, "--tags", "shape=round&size=large", "--storage-class"]
    mc("cp", *words, "REDUCED_REDUNDANCY", str(tree / "large.bin"), "m/mc-c/in/")
    (stat,) = mc("stat", "m/mc-c/in/large.bin")
    metadata = {name.lower(): value for name, value in stat["metadata"].items()}
    assert stat["size"] == LARGE_BYTES, stat
    assert metadata["cache-control"] == "max-age=60", stat
    assert metadata["x-amz-meta-color"] == "blue", stat
    assert metadata["x-amz-storage-class"] == "REDUCED_REDUNDANCY", stat
    mc("cp", "m/mc-c/in/large.bin", "m/mc-c/copy/large.bin")
    mc("mv", "m/mc-c/copy/large.bin", "m/mc-c/moved/large.bin")
    assert not mc.keys("m/mc-c/copy/")
    assert mc.bytes_of("cat", "m/mc-c/moved/large.bin") == large, "a moved object differs"
    mc("cp", "--recursive", "m/mc-c/dir/many/", "m/mc-c/copies/")
    mc("mv", "--recursive", "m/mc-c/copies/", "m/mc-c/moved/many/")
    assert len(mc.keys("m/mc-c/moved/many/")) == 60
    for place in ("m/mc-c/in/large.bin", "m/mc-c"):
        mc("tag", "set", place, "team=red&level=3")
        (listed,) = mc("tag", "list", place)
        assert listed["tagset"] == {"team": "red", "level": "3"}, listed
        mc("tag", "remove", place)
    assert "tagset" not in mc("tag", "list", "m/mc-c/in/large.bin")[0]
    assert mc.refuses("tag", "list", "m/mc-c"), "the bucket still has tags"


def _look(mc: Mc, tree: Path) -> None:
    """Find, read pieces, pipe in parts, list and remove unfinished uploads, empty the bucket."""
    found = {each["key"] for each in mc("find", "m/mc-c/dir", "--name", "*.txt")}
    wanted = {path.name for path in tree.rglob("*.txt")}
    assert {Path(key).name for key in found} == wanted, found
    found = {each["key"] for each in mc("find", "m/mc-c/dir", "--larger", "20MiB")}
    assert {Path(key).name for key in found} == {"large.bin"}, found
    large = (tree / "large.bin").read_bytes()
    piece = mc.bytes_of("cat", "--offset", "1000000", "m/mc-c/dir/large.bin")
    assert piece == large[1000000:], "a piece differs"
    tail = mc.bytes_of("cat", "--tail", "1000", "m/mc-c/dir/large.bin")
    assert tail == large[-1000:], "the tail differs"
    mc.bytes_of("pipe", "--part-size", "5MiB", "m/mc-c/piped", data=large)
    assert mc.bytes_of("cat", "m/mc-c/piped") == large, "what was piped differs"
    mc.bytes_of("pipe", "m/mc-c/lines", data=b"one\ntwo\nthree\n")
    assert mc.bytes_of("head", "-n", "2", "m/mc-c/lines") == b"one\ntwo\n"
    s3 = s3_client(mc.port)
    upload = s3.create_multipart_upload(Bucket="mc-c", Key="unfinished")["UploadId"]
    s3.upload_part(Bucket="mc-c", Key="unfinished", UploadId=upload, PartNumber=1, Body=b"part")
    (listed,) = mc("ls", "--incomplete", "--recursive", "m/mc-c")
    assert listed["key"] == "unfinished", listed
    mc("rm", "--incomplete", "--recursive", "--force", "m/mc-c")
    assert not mc("ls", "--incomplete", "--recursive", "m/mc-c")
    mc("rm", "--recursive", "--force", "m/mc-c/dir/")
    assert not mc.keys("m/mc-c/dir/")
    mc("rb", "--force", "m/mc-c")
    assert "mc-c/" not in {each["key"] for each in mc("ls", "m")}


def _keep_versions(mc: Mc) -> None:
    """Enable versioning, write, remove, undo; read and remove single versions; suspend."""
    mc("mb", "m/mc-versions")
    mc("version", "enable", "m/mc-versions")
    (info,) = mc("version", "info", "m/mc-versions")
    assert info["versioning"]["status"] == "Enabled", info
    place = "m/mc-versions/text"
    for text in (b"first", b"second", b"third"):
        mc.bytes_of("pipe", place, data=text)
    third, second, first = mc("ls", "--versions", place)
    assert mc.bytes_of("cat", "--version-id", first["versionId"], place) == b"first"
    (stat,) = mc("stat", "--version-id", second["versionId"], place)
    assert stat["size"] == len(b"second"), stat
    assert stat["versionID"] == second["versionId"], stat
    mc("cp", "--version-id", first["versionId"], place, "m/mc-versions/copy")
    assert mc.bytes_of("cat", "m/mc-versions/copy") == b"first"
    mc("rm", place)
    assert mc("ls", "--versions", place)[0]["isDeleteMarker"]
    assert mc.refuses("stat", place)
    mc("undo", place)  # of the removal
    assert mc.bytes_of("cat", place) == b"third"
    mc("undo", place, "--last", "1")  # of the third write
    assert mc.bytes_of("cat", place) == b"second"
    assert third["versionId"] not in {each["versionId"] for each in mc("ls", "--versions", place)}
    mc("rm", "--version-id", second["versionId"], place)
    assert mc.bytes_of("cat", place) == b"first"
    mc("rm", place)
    (total,) = mc("du", "--versions", "m/mc-versions")
    assert total["size"] == 2 * len(b"first"), total
    mc("version", "suspend", "m/mc-versions")
    (info,) = mc("version", "info", "m/mc-versions")
    assert info["versioning"]["status"] == "Suspended", info
    _let_a_second_pass()
    mc("rm", "--recursive", "--versions", "--force", "m/mc-versions")
    assert not mc("ls", "--versions", "--recursive", "m/mc-versions")
    mc("rb", "m/mc-versions")


def _let_a_second_pass() -> None:
    """Let the time of the last write be in the past: it is shown rounded up to a second.

    `mc rm --versions` leaves out versions that are newer than its own clock, without an error.
    """
    time.sleep(1)


def _expire(mc: Mc) -> None:
    """Add lifecycle rules, list, change, export, import and remove them; CORS of the bucket."""
    bucket = "m/mc-rules"
    mc("mb", bucket)
    days = ["--expire-days", "30", "--noncurrent-expire-days", "3"]
    mc("ilm", "rule", "add", "--prefix", "logs/", "--tags", "kind=old", *days, bucket)
    mc("ilm", "rule", "add", "--prefix", "other/", "--expire-days", "9", bucket)
    (listed,) = mc("ilm", "rule", "ls", bucket)
    logs, other = listed["config"]["Rules"]
    assert logs["Expiration"]["Days"] == 30, logs
    assert logs["NoncurrentVersionExpiration"]["NoncurrentDays"] == 3, logs
    mc("ilm", "rule", "edit", "--id", other["ID"], "--expire-days", "8", bucket)
    (exported,) = mc("ilm", "rule", "export", bucket)
    assert exported["config"]["Rules"][1]["Expiration"]["Days"] == 8, exported
    mc("ilm", "rule", "rm", "--id", logs["ID"], bucket)
    (listed,) = mc("ilm", "rule", "ls", bucket)
    assert [rule["ID"] for rule in listed["config"]["Rules"]] == [other["ID"]], listed
    mc.bytes_of("ilm", "rule", "import", bucket, data=json.dumps(exported["config"]).encode())
    (again,) = mc("ilm", "rule", "export", bucket)
    assert again["config"] == exported["config"], again
    mc("ilm", "rule", "rm", "--all", "--force", bucket)
    assert mc.refuses("ilm", "rule", "ls", bucket), "rules are left"
    mc.bytes_of("cors", "set", bucket, "-", data=_CORS.encode())
    (cors,) = mc("cors", "get", bucket)
    assert "https://example.com" in json.dumps(cors), cors
    mc("cors", "remove", bucket)
    assert mc.refuses("cors", "get", bucket), "rules of CORS are left"
    mc("rb", bucket)


def _lock(mc: Mc) -> None:
    """Retention by default and of an object, legal hold; what is locked cannot be removed."""
    bucket, place = "m/mc-locked", "m/mc-locked/text"
    mc("mb", "--with-lock", bucket)
    mc("retention", "set", "--default", "governance", "1d", bucket)
    (info,) = mc("retention", "info", "--default", bucket)
    assert (info["mode"], info["validity"]) == ("GOVERNANCE", "1DAYS"), info
    mc.bytes_of("pipe", place, data=b"locked")
    (info,) = mc("retention", "info", place)
    assert info["mode"] == "GOVERNANCE", info
    (stat,) = mc("ls", "--versions", place)
    one = ["--version-id", stat["versionId"]]
    assert mc.refuses("rm", *one, place), "a locked version is removed"
    mc("retention", "set", "governance", "2d", place)
    mc("legalhold", "set", place)
    (info,) = mc("legalhold", "info", place)
    assert info["legalhold"] == "ON", info
    assert mc.refuses("rm", "--bypass", *one, place), "a version with a hold is removed"
    mc("legalhold", "clear", place)
    (info,) = mc("legalhold", "info", place)
    assert info["legalhold"] == "OFF", info
    assert mc.refuses("rm", *one, place), "a locked version is removed"
    mc("rm", "--bypass", *one, place)
    mc.bytes_of("pipe", place, data=b"locked again")
    mc("retention", "clear", place)
    mc("retention", "clear", "--default", bucket)
    mc.bytes_of("pipe", f"{bucket}/other", data=b"not locked")
    (stat,) = mc("stat", bucket)
    assert stat["Versioning"]["status"] == "Enabled", stat
    assert stat["ObjectLock"]["enabled"] == "Enabled", stat
    _let_a_second_pass()
    mc("rm", "--recursive", "--versions", "--force", bucket)
    mc("rb", bucket)


def _share(mc: Mc, url: str) -> None:
    """Let all read a bucket, for as long as it says so; presigned URLs."""
    bucket = "m/mc-shared"
    mc("mb", bucket)
    mc.bytes_of("pipe", f"{bucket}/a +b.txt", data=b"shared")
    (shared,) = mc("share", "download", "--expire", "10m", f"{bucket}/a +b.txt")
    with urllib.request.urlopen(shared["share"]) as answer:
        assert answer.read() == b"shared", "a presigned URL gives something else"
    (said,) = mc("anonymous", "get", bucket)
    assert said["permission"] == "private", said
    # Requests of the S3 API without a signature name no account, those of Swift's API do.
    public = f"{url}/v1/AUTH_{USER.partition(':')[0]}/mc-shared/a%20%2Bb.txt"
    for permission in ("download", "public", "upload", "private"):
        mc("anonymous", "set", permission, bucket)
        (said,) = mc("anonymous", "get", bucket)
        assert said["permission"] == permission, said
        wanted = 200 if permission in ("download", "public") else 401
        assert _status(public) == wanted, f"{permission}: {_status(public)}"
    mc("anonymous", "set", "download", f"{bucket}/a")
    rules = mc("anonymous", "list", bucket)
    assert [rule["allow"] for rule in rules] == ["readonly"], rules
    mc("rb", "--force", bucket)


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
