"""A real OpenStack Swift on this machine, from PyPI, as the reference."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import judges
from running_cluster import await_true, free_port
from suite import CONSTRAINTS, STORAGE_DOMAIN, SWIFT

from cluster.confs import TRIAL_USERS, render

#: Name -> options.
Filters = Mapping[str, Mapping[str, object]]

_DEVICES = ("d1", "d2", "d3", "d4")
_IN_MEMORY = "/dev/shm"
_PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache etag-quoter domain_remap "
    "listing_formats bulk tempurl ratelimit crossdomain container_sync tempauth staticweb formpost "
    "copy container-quotas account-quotas slo dlo versioned_writes symlink proxy-logging "
    "proxy-server"
)


@contextmanager
def real_swift(home: Path, auth: Filters | None = None) -> Iterator[str]:
    """Run one of each server with four devices in memory, the rest in ``home``; yield its URL.

    :param auth: the filters in place of tempauth, each with its options.
    """
    with TemporaryDirectory(prefix="real-swift-", dir=_IN_MEMORY) as devices:
        _make_devices(Path(devices))
        with _servers(home, Path(devices), auth or {"tempauth": _tempauth()}) as url:
            yield url


@contextmanager
def _servers(home: Path, devices: Path, auth: Filters) -> Iterator[str]:
    binaries = judges.environment(SWIFT.name, *SWIFT.requirements)
    shutil.rmtree(home, ignore_errors=True)
    ports = {kind: free_port() for kind in ("account", "container", "object", "proxy", "memcached")}
    _write(home, devices, binaries, ports, auth)
    _point_to(binaries, home / "swift.conf")
    processes = [_memcached(ports["memcached"])]
    try:
        for kind in ("account", "container", "object", "proxy"):
            log = (home / f"{kind}.log").open("wb")
            command = [str(binaries / f"swift-{kind}-server"), str(home / f"{kind}-server.conf")]
            environ = {
                **os.environ,
                "PATH": f"{binaries}:{os.environ['PATH']}",
                # An error logged in a thread of eventlet's pool stops the object server.
                "EVENTLET_THREADPOOL_SIZE": "0",
            }
            processes.append(
                subprocess.Popen(
                    [*command, "-v"], stdout=log, stderr=subprocess.STDOUT, env=environ
                )
            )
        url = f"http://127.0.0.1:{ports['proxy']}"
        for kind, port in ports.items():
            await_true(partial(_listens, port), f"Swift's {kind} listens", 60)
        await_true(lambda: _answers(f"{url}/healthcheck"), "Swift's proxy answers", 60)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def _make_devices(devices: Path) -> None:
    """Create devices with enough room for an object's metadata in extended attributes.

    Swift requires XFS. ext4 allows 4 KiB in a file, which is less than Swift's own limits: the
    tests of these limits then get a 507, and the thread that logs it stops the object server.
    """
    try:
        os.setxattr(devices, "user.room", bytes(60000))
    except OSError as error:
        raise SystemExit(f"{devices}: needs room for extended attributes: {error}") from error
    os.removexattr(devices, "user.room")
    for device in _DEVICES:
        (devices / device).mkdir()


def _point_to(binaries: Path, conf: Path) -> None:
    """Redirect the fixed path from which Swift reads policies and limits despite swift_dir."""
    (module,) = binaries.parent.glob("lib/python*/site-packages/swift/common/utils/__init__.py")
    path = re.compile(r"(?m)^SWIFT_CONF_FILE = .*$")
    text, count = path.subn(f"SWIFT_CONF_FILE = {str(conf)!r}", module.read_text())
    assert count == 1, module
    module.write_text(text)


def _memcached(port: int) -> subprocess.Popen[bytes]:
    tool = shutil.which("memcached")
    assert tool, "memcached is needed: apt-get install memcached"
    user = ["-u", "root"] if os.getuid() == 0 else []
    return subprocess.Popen([tool, "-l", "127.0.0.1", "-p", str(port), *user])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _tempauth() -> dict[str, object]:
    users = {f"user_{name.replace(':', '_')}": value for name, value in TRIAL_USERS.items()}
    return {"reseller_prefix": "AUTH, SERVICE", "SERVICE_require_group": "service", **users}


def _write(home: Path, devices: Path, binaries: Path, ports: dict[str, int], auth: Filters) -> None:
    home.mkdir(parents=True)
    conf: dict[str, dict[str, object]] = {
        "swift-hash": {"swift_hash_path_suffix": "conformance"},
        "swift-constraints": CONSTRAINTS,
        "storage-policy:0": {"name": "Policy-0", "default": "yes"},
        "storage-policy:1": {"name": "silver"},
    }
    (home / "swift.conf").write_text(render(conf))
    (home / "container-sync-realms.conf").write_text("")
    _write_ring(home, binaries, "object-1", ports["object"])
    for kind in ("account", "container", "object"):
        _write_ring(home, binaries, kind, ports[kind])
        (home / f"{kind}-server.conf").write_text(
            render(
                {
                    "DEFAULT": _common(home, ports[kind])
                    | {"devices": devices, "mount_check": "false"},
                    "pipeline:main": {"pipeline": f"{kind}-server"},
                    f"app:{kind}-server": {"use": f"egg:swift#{kind}"},
                }
            )
        )
    (home / "proxy-server.conf").write_text(render(_proxy_conf(home, ports, auth)))


def _common(home: Path, port: int) -> dict[str, object]:
    return {
        "bind_ip": "127.0.0.1",
        "bind_port": port,
        "workers": 1,
        "swift_dir": home,
        "user": os.environ.get("USER", "root"),
        "log_level": "WARNING",
    }


def _proxy_conf(home: Path, ports: dict[str, int], auth: Filters) -> Filters:
    pipeline = _PIPELINE.replace("tempauth", " ".join(auth))
    own: Filters = {
        "cache": {"memcache_servers": f"127.0.0.1:{ports['memcached']}"},
        "versioned_writes": {"allow_versioned_writes": "true", "allow_object_versioning": "true"},
        "domain_remap": {"storage_domain": STORAGE_DOMAIN},
        **auth,
    }
    filters = {
        f"filter:{name}": {**_origin(name), **own.get(name, {})}
        for name in dict.fromkeys(pipeline.split())
        if name != "proxy-server"
    }
    return {
        "DEFAULT": _common(home, ports["proxy"]),
        "pipeline:main": {"pipeline": pipeline},
        "app:proxy-server": {
            "use": "egg:swift#proxy",
            "account_autocreate": "true",
            "allow_open_expired": "true",
        },
        **filters,
    }


def _origin(name: str) -> Mapping[str, object]:
    """Return the options with which PasteDeploy finds a filter of Swift."""
    entry = {"cache": "memcache"}.get(name, name.replace("-", "_"))
    return {} if name == "authtoken" else {"use": f"egg:swift#{entry}"}


def _write_ring(home: Path, binaries: Path, kind: str, port: int) -> None:
    builder = [str(binaries / "swift-ring-builder"), str(home / f"{kind}.builder")]
    subprocess.run([*builder, "create", "6", "3", "0"], check=True, stdout=subprocess.DEVNULL)
    for number, device in enumerate(_DEVICES, 1):
        place = f"r1z{number}-127.0.0.1:{port}/{device}"
        subprocess.run([*builder, "add", place, "1"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*builder, "rebalance"], check=True, stdout=subprocess.DEVNULL)
