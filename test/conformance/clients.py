"""Programs that people use with Swift, each driven through its usual tasks."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import judges
from s3_client import KEY, USER
from suite import Result

LARGE_BYTES = 24 << 20
_SEGMENT = "5M"
#: A program that has not ended by then hangs.
_SECONDS_MAX = 300.0

#: Drives a program against the cluster of a URL, with a directory for files.
Check = Callable[[str, Path], None]


def run_clients(url: str) -> list[Result]:
    """Return the outcome of each program; a program that is not installed is skipped."""
    scratch = empty_directory("clients")
    checks: dict[str, Check] = {
        "rclone": _rclone,
        "openstack": _openstack,
        "swift": _swift,
    }
    return [outcome(name, check, url, scratch / name) for name, check in checks.items()]


def empty_directory(name: str) -> Path:
    """Make a directory for the files of a judge; those of its last run are removed."""
    scratch = judges.WORK / name
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    return scratch


def outcome(name: str, check: Check, url: str, scratch: Path) -> Result:
    """Run the check of one program, in a directory of its own."""
    scratch.mkdir()
    try:
        check(url, scratch)
    except FileNotFoundError as error:
        return Result(f"clients.{name}", "skipped", f"not installed: {error.filename}")
    except subprocess.TimeoutExpired as error:
        return Result(f"clients.{name}", "failed", f"{error.cmd} hangs")
    except subprocess.CalledProcessError as error:
        said = f"{_text(error.stdout)}{_text(error.stderr)}".strip().splitlines()
        return Result(f"clients.{name}", "failed", f"{error.cmd}: {said[-1] if said else ''}")
    except AssertionError as error:
        return Result(f"clients.{name}", "failed", str(error))
    return Result(f"clients.{name}", "passed")


def make_tree(root: Path) -> Path:
    """Create files of many sizes, one larger than a segment, with unusual names."""
    chance = random.Random(1)
    tree = root / "tree"
    names = ["a.txt", "deep/er/b.bin", "empty", "with space", "ümlaut/ß%2F?#.txt", "plus+&=.txt"]
    for number, name in enumerate([*names, *(f"many/{i:03}" for i in range(60))]):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == "empty" else chance.randbytes(1 + number * 997))
    (tree / "large.bin").write_bytes(chance.randbytes(LARGE_BYTES))
    return tree


def digests(tree: Path) -> dict[str, str]:
    """The SHA-256 of each file below a directory."""
    return {
        str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(tree.rglob("*"))
        if path.is_file()
    }


def say(command: list[str], environ: Mapping[str, str], cwd: Path | None = None) -> str:
    """Run a program and return its output.

    :raises SubprocessError: it fails, or it hangs.
    """
    return pipe(command, environ, cwd=cwd).decode()


def pipe(
    command: list[str], environ: Mapping[str, str], data: bytes = b"", cwd: Path | None = None
) -> bytes:
    """Run a program with ``data`` as its input and return its output, byte for byte.

    :raises SubprocessError: it fails, or it hangs.
    """
    return subprocess.run(
        command,
        env={**os.environ, **environ},
        cwd=cwd,
        check=True,
        input=data,
        capture_output=True,
        timeout=_SECONDS_MAX,
    ).stdout


def _text(said: bytes | None) -> str:
    return (said or b"").decode(errors="replace")


def rclone_tasks(environ: Mapping[str, str], scratch: Path) -> tuple[Callable[..., str], str]:
    """Upload, check, list, move, copy on the server, sync a change, download.

    :param environ: describes the remote ``m``.
    :returns: the program, and its name of the container that it has filled.
    """
    tree, back, bucket = make_tree(scratch), scratch / "back", "m:rclone-c"

    def rclone(*words: str) -> str:
        return say(["rclone", *words], environ)

    rclone("copy", str(tree), f"{bucket}/dir")
    rclone("check", str(tree), f"{bucket}/dir")
    sizes = {e["Path"]: e["Size"] for e in json.loads(rclone("lsjson", "-R", f"{bucket}/dir"))}
    assert sizes["large.bin"] == LARGE_BYTES, sizes.get("large.bin")
    for old, new in (("a.txt", "moved.txt"), ("large.bin", "larger.bin")):
        rclone("moveto", f"{bucket}/dir/{old}", f"{bucket}/dir/{new}")
        (tree / old).rename(tree / new)
    rclone("copy", f"{bucket}/dir", f"{bucket}/second")
    rclone("check", "--download", str(tree), f"{bucket}/second")
    (tree / "empty").unlink()
    (tree / "deep/er/b.bin").write_bytes(b"changed")
    rclone("sync", str(tree), f"{bucket}/dir")
    rclone("copy", f"{bucket}/dir", str(back))
    assert digests(back) == digests(tree), "what came back differs"
    return rclone, bucket


def _rclone(url: str, scratch: Path) -> None:
    """The tasks of rclone with segments, by Swift's API; purge."""
    environ = {
        "RCLONE_CONFIG": str(scratch / "none.conf"),
        "RCLONE_CONFIG_M_TYPE": "swift",
        "RCLONE_CONFIG_M_USER": USER,
        "RCLONE_CONFIG_M_KEY": KEY,
        "RCLONE_CONFIG_M_AUTH": f"{url}/auth/v1.0",
        "RCLONE_SWIFT_CHUNK_SIZE": _SEGMENT,
    }
    rclone, bucket = rclone_tasks(environ, scratch)
    rclone("purge", bucket)
    assert "rclone-c" not in rclone("lsf", "m:").replace("/", "").splitlines()


def _swift(url: str, scratch: Path) -> None:
    """Run python-swiftclient's command: static and dynamic segments, resume, download, delete."""
    binaries = judges.environment("python-swiftclient-cli", "python-swiftclient")
    tree = make_tree(scratch)
    environ = {"ST_AUTH": f"{url}/auth/v1.0", "ST_USER": USER, "ST_KEY": KEY}

    def swift(*words: str, cwd: Path = tree) -> str:
        return say([str(binaries / "swift"), *words], environ, cwd)

    for kind in ("--use-slo", "--use-dlo"):
        container, back = f"cli{kind[5:]}", scratch / f"back{kind[5:]}"
        swift("upload", kind, "-S", str(5 << 20), container, ".")
        back.mkdir()
        swift("download", container, cwd=back)
        assert digests(back) == digests(tree), f"{kind}: what came back differs"
        # By its name: a bulk delete would leave its segments.
        swift("delete", container, "large.bin")
        swift("delete", container)
        assert container not in swift("list").split()
        left = swift("list", f"{container}_segments")
        assert left == "", f"{kind}: segments are left: {left}"


def _openstack(url: str, scratch: Path) -> None:
    """Run the OpenStack command line: containers, objects, metadata."""
    binaries = judges.environment("openstack", "python-openstackclient", "python-swiftclient")
    environ = {
        "OS_AUTH_TYPE": "v1password",
        "OS_AUTH_URL": f"{url}/auth/v1.0",
        "OS_USERNAME": USER,
        "OS_PASSWORD": KEY,
    }
    (scratch / "file.txt").write_text("some text")

    def openstack(*words: str) -> str:
        return say([str(binaries / "openstack"), *words], environ, scratch)

    openstack("container", "create", "osc")
    openstack("container", "set", "--property", "color=blue", "osc")
    shown = json.loads(openstack("container", "show", "-f", "json", "osc"))
    assert "blue" in json.dumps(shown), shown
    openstack("object", "create", "osc", "file.txt")
    openstack("object", "set", "--property", "shape=round", "osc", "file.txt")
    shown = json.loads(openstack("object", "show", "-f", "json", "osc", "file.txt"))
    assert shown["content-length"] == "9", shown
    assert "round" in json.dumps(shown), shown
    listed = json.loads(openstack("object", "list", "-f", "json", "osc"))
    assert [entry["Name"] for entry in listed] == ["file.txt"], listed
    openstack("object", "save", "--file", "back.txt", "osc", "file.txt")
    assert (scratch / "back.txt").read_text() == "some text"
    openstack("container", "delete", "--recursive", "osc")
    assert "osc" not in openstack("container", "list", "-f", "value").split()
