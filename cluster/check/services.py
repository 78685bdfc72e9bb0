# SPDX-License-Identifier: Apache-2.0
"""The services whose confs are on this host: what each of them says of its conf."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from cluster.check.finding import Finding, error, warning
from martlet.conf.options import ConfigError, is_true, read_ini
from martlet.service.addresses import is_local
from martlet.service.programs import ProgramMissing, find_program

_SECONDS = 30.0
#: Kind -> the address that its conf has by default, and its port.
_DEFAULTS = {
    "proxy": ("0.0.0.0", 0),  # noqa: S104 - the default of the option
    "account": ("127.0.0.1", 0),
    "container": ("127.0.0.1", 0),
    "object": ("127.0.0.1", 6200),
}


@dataclass(frozen=True)
class Service:
    """A service of this host, as its conf describes it."""

    kind: str
    conf: Path
    ip: str
    port: int
    devices: Path
    mount_check: bool
    swift_dir: Path
    caches: tuple[str, ...]  # memcached servers

    @property
    def program(self) -> str:
        """The command that runs it."""
        return f"martlet-{self.kind}-server"


def services_in(directory: Path) -> tuple[list[Service], list[Finding]]:
    """The services with a conf in a directory, and confs that cannot be read."""
    services, findings = [], []
    for kind in _DEFAULTS:
        conf = directory / f"{kind}-server.conf"
        if not conf.exists():
            continue
        try:
            services.append(_service(kind, conf))
        except (ConfigError, ValueError) as problem:
            findings.append(error(conf, str(problem)))
    if not services and not findings:
        findings.append(error(directory, "has no proxy-server.conf and none of a storage server"))
    return services, findings


def _service(kind: str, conf: Path) -> Service:
    parser = read_ini(conf)
    values = parser.defaults()
    ip, port = _DEFAULTS[kind]
    caches = [
        parser.get(section, "memcache_servers", fallback="")
        for section in parser.sections()
        if section.startswith("filter:")
    ]
    return Service(
        kind,
        conf,
        values.get("bind_ip", ip).strip(),
        int(values.get("bind_port", port)),
        Path(values.get("devices", "/srv/node").strip()),
        is_true(values.get("mount_check", "true")),
        Path(values.get("swift_dir", "/etc/martlet").strip()),
        tuple(one.strip() for text in caches for one in text.split(",") if one.strip()),
    )


def check_conf(service: Service) -> Iterator[Finding]:
    """Let the service itself read its conf, as a start would."""
    try:
        command = [find_program(service.program), "--check", str(service.conf)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except ProgramMissing as problem:
        yield error(service.conf, str(problem))
        return
    except (OSError, subprocess.TimeoutExpired) as problem:
        yield error(service.conf, f"{service.program} cannot check it: {problem}")
        return
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason was given"]
        yield error(service.conf, lines[-1].removeprefix(f"{service.program}: "))


def check_port(service: Service) -> Iterator[Finding]:
    """A port is free, or the service itself has it."""
    where = f"{service.ip}:{service.port}"
    if not service.port:
        return  # the service has said so
    if not is_local(service.ip):
        yield error(service.conf, f"bind_ip {service.ip} is no address of this host")
        return
    family = socket.AF_INET6 if ":" in service.ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((service.ip, service.port))
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                if not _is_ours(service):
                    yield error(service.conf, f"{where} is in use by another program")
            else:
                yield error(service.conf, f"{where}: {os.strerror(problem.errno or 0)}")


def _is_ours(service: Service) -> bool:
    """Whether a service of the same kind answers at the port already; TLS hides which one."""
    host = service.ip if service.ip not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    connection = HTTPConnection(host, service.port, timeout=2.0)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().read().startswith(b"OK")
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def check_caches(service: Service) -> Iterator[Finding]:
    """Each memcached accepts connections."""
    for server in service.caches:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=2.0).close()
        except (OSError, ValueError) as problem:
            yield warning(service.conf, f"memcached {server} does not answer: {problem}")
