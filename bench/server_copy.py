# SPDX-License-Identifier: Apache-2.0
"""The cost of copying a large object on ext4, XFS and Btrfs: time, bytes written, space.

For each file system: a new one in a loop device, a real object server on it, one PUT, and then
copies of that object by X-Backend-Copy-From. The first copy runs with an empty page cache; the
others find the bytes in it. It needs root. Nothing is asserted: the figures are printed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from statistics import median
from typing import Any

from loopimage import MAKE, LoopUnavailableError, loop_image

ROOT = Path(__file__).resolve().parents[1]
PIECE = os.urandom(1 << 20)
SECTOR_BYTES = 512
EXAMPLES = """examples:
  python bench/server_copy.py                       1 GiB, five copies on each file system
  python bench/server_copy.py --size 64 --fs xfs --json"""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", type=int, default=1024, metavar="MIB", help="default 1024")
    parser.add_argument("--copies", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument("--fs", choices=sorted(MAKE), help="one file system; default all")
    parser.add_argument("--dir", type=Path, help="where the images are made; default TMPDIR")
    parser.add_argument("--json", action="store_true", help="as JSON")
    arguments = parser.parse_args()
    reports = []
    with tempfile.TemporaryDirectory(prefix="martlet-bench-", dir=arguments.dir) as directory:
        for kind in [arguments.fs] if arguments.fs else sorted(MAKE):
            try:
                reports.append(measure(Path(directory), kind, arguments.size, arguments.copies))
            except LoopUnavailableError as error:
                print(f"{kind}: not measured: {error}", file=sys.stderr)
    print(json.dumps(reports, indent=2) if arguments.json else table(reports))
    return 0 if reports else 1


def measure(scratch: Path, kind: str, mebibytes: int, copies: int) -> dict[str, Any]:
    """Measure one file system; sizes in bytes, times in seconds."""
    room = (mebibytes * (copies + 2) + 512) << 20
    with loop_image(scratch, kind, room) as mount, object_server(scratch, mount) as port:
        device = mount / "d1"
        etag, put = timed(device, lambda: upload(port, mebibytes))
        drop_page_cache()
        done = [timed(device, lambda n=n: copy(port, etag, n))[1] for n in range(copies)]
        content = download(port, copies - 1)
        assert content == etag, "the copy has other bytes"
    warm = done[1:] or done
    return {
        "file_system": kind,
        "bytes": mebibytes << 20,
        "put": put,
        "first_copy": done[0],
        "copy": {name: median(one[name] for one in warm) for name in put},
    }


def timed(device: Path, do: Any) -> tuple[Any, dict[str, float]]:
    """Call ``do``; return its result with its time, bytes written to the disk and space used."""
    os.sync()
    written, free = bytes_written(device), bytes_free(device)
    start = time.monotonic()
    result = do()
    seconds = time.monotonic() - start
    os.sync()
    return result, {
        "seconds": seconds,
        "written": bytes_written(device) - written,
        "room": free - bytes_free(device),
    }


def bytes_written(device: Path) -> int:
    """The bytes written by the block device since its creation."""
    source = subprocess.check_output(["findmnt", "-no", "SOURCE", "-T", device], text=True).strip()
    return int(Path(f"/sys/block/{Path(source).name}/stat").read_text().split()[6]) * SECTOR_BYTES


def bytes_free(device: Path) -> int:
    """The free bytes of the file system."""
    room = os.statvfs(device)
    return room.f_bfree * room.f_frsize


def drop_page_cache() -> None:
    """Empty the page cache, so that the next read comes from the disk."""
    Path("/proc/sys/vm/drop_caches").write_text("3")


@contextmanager
def object_server(scratch: Path, mount: Path) -> Iterator[int]:
    """Run a real object server with one device on the mount; yield its port."""
    (mount / "d1").mkdir()
    program, conf = scratch / "martlet-object-server", scratch / "object-server.conf"
    build = ["go", "build", "-o", str(program), "./cmd/martlet-object-server"]
    subprocess.run(build, cwd=ROOT / "object-server", check=True)
    port = 20000 + os.getpid() % 10000
    (scratch / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = bench\n"
    )
    conf.write_text(
        f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\ndevices = {mount}\n"
        f"swift_dir = {scratch}\nmount_check = false\n"
        "[pipeline:main]\npipeline = object-server\n[app:object-server]\nuse = egg:martlet#object\n"
    )
    with (scratch / "log").open("ab") as log:
        server = subprocess.Popen([program, conf], stdout=log, stderr=log)
    try:
        await_ready(server, port, scratch / "log")
        yield port
    finally:
        server.terminate()
        server.wait(30)


def await_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """:raises RuntimeError: the server has ended, or does not answer in time."""
    deadline = time.monotonic() + 20
    while server.poll() is None and time.monotonic() < deadline:
        try:
            request(port, "GET", "/healthcheck", {})
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the object server does not answer: {log.read_text()}")


def request(port: int, method: str, path: str, headers: dict[str, str], body: Any = None) -> Any:
    """Send a request; return the answer's headers and the MD5 of its body.

    :raises RuntimeError: the status is not 2xx.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        if answer.status // 100 != 2:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.read()!r}")
        digest = md5(usedforsecurity=False)
        while piece := answer.read(1 << 20):
            digest.update(piece)
        return answer.headers, digest.hexdigest()
    finally:
        connection.close()


def upload(port: int, mebibytes: int) -> str:
    """PUT the source; return its ETag."""
    headers = {
        "X-Timestamp": "1700000000.00000",
        "Content-Type": "application/octet-stream",
        "Content-Length": str(mebibytes << 20),
    }
    pieces = (PIECE for _ in range(mebibytes))
    answer, _ = request(port, "PUT", "/d1/1/a/c/source", headers, pieces)
    return str(answer["Etag"]).strip('"')


def copy(port: int, etag: str, number: int) -> None:
    """Copy the source on the device."""
    headers = {
        "X-Timestamp": "1700000001.00000",
        "Content-Length": "0",
        "X-Backend-Copy-From": "/1/a/c/source",
        "Etag": etag,
    }
    request(port, "PUT", f"/d1/1/a/c/copy{number}", headers)


def download(port: int, number: int) -> str:
    """GET a copy; return its MD5."""
    return str(request(port, "GET", f"/d1/1/a/c/copy{number}", {})[1])


def table(reports: list[dict[str, Any]]) -> str:
    """One line for each write."""
    lines = [f"{'':<8} {'':<20} {'seconds':>9} {'of PUT':>7} {'MiB written':>12} {'MiB taken':>10}"]
    for report in reports:
        names = ("put", "PUT"), ("first_copy", "copy, cold cache"), ("copy", "copy, warm cache")
        for key, label in names:
            one = report[key]
            lines.append(
                f"{report['file_system']:<8} {label:<20} {one['seconds']:>9.4f} "
                f"{one['seconds'] / report['put']['seconds']:>7.4f} "
                f"{one['written'] / 2**20:>12.2f} {one['room'] / 2**20:>10.2f}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
