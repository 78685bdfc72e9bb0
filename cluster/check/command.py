# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet check``."""

from __future__ import annotations

import argparse
import json
import os
import pwd
from dataclasses import asdict
from pathlib import Path

from cluster.check.devices import RingCheck, check_devices
from cluster.check.finding import Finding, Severity
from cluster.check.host import check_clock, check_open_files, check_recon_cache, check_secrets
from cluster.check.peers import check_peers
from cluster.check.services import check_caches, check_conf, check_port, services_in
from cluster.errors import ClusterError
from cluster.layout import Home
from martlet.recon.cache import DEFAULT_PATH

_USER_DEFAULT = "martlet"
_DIRECTORY_DEFAULT = Path("/etc/martlet")

_EPILOG = """\
Reads the confs of this host, and compares them with the rings, the devices and the host. It tries
the secret at the other hosts that run already. It changes nothing and starts nothing.
Exit status: 0 no error, 1 at least one error.

examples:
  martlet check                     the services with a conf in /etc/martlet
  martlet check --user swift DIR    those of DIR, which run as the user swift
  martlet check --json              for programs
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``check`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "check",
        help="say what is wrong with this host, before a service starts",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, default=_DIRECTORY_DEFAULT, help="directory of the confs"
    )
    parser.add_argument(
        "--user", help=f"that of the services (default: {_USER_DEFAULT}, else the caller)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Print the findings; return the exit status.

    :raises ClusterError: the user does not exist.
    """
    user = _user(arguments.user)
    findings = check_host(arguments.directory.absolute(), user)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            print(finding)
        print(f"{errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


def check_host(directory: Path, user: str | None) -> list[Finding]:
    """All findings, each once.

    :param user: that of the services; None: the caller.
    """
    services, findings = services_in(directory)
    rings: dict[Path, RingCheck] = {}
    for service in services:
        findings += check_conf(service)
        findings += check_port(service)
        findings += check_caches(service)
        of_directory = rings.setdefault(service.swift_dir, RingCheck(service.swift_dir))
        findings += check_devices(service, of_directory, user)
    for of_directory in rings.values():
        findings += of_directory.findings
    for swift_dir, of_directory in rings.items():
        findings += check_peers(swift_dir, of_directory.others())
    swift_dirs = [*rings] or [directory]
    for swift_dir in swift_dirs:
        findings += check_secrets(swift_dir, sorted(directory.glob("*.conf")))
    findings += check_clock()
    findings += check_open_files()
    if any(service.kind != "proxy" for service in services):
        uid = os.geteuid() if user is None else pwd.getpwnam(user).pw_uid
        findings += check_recon_cache(Path(DEFAULT_PATH), uid)
    each_once = dict.fromkeys(findings)
    return sorted(each_once, key=lambda finding: finding.severity != Severity.ERROR)


def _user(given: str | None) -> str | None:
    try:
        return pwd.getpwnam(given or _USER_DEFAULT).pw_name
    except KeyError:
        if given:
            raise ClusterError(f"there is no user {given!r} on this host") from None
        return None
