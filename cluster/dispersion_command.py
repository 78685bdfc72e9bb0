# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet dispersion``."""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import swift_dir
from cluster.confs import TRIAL_USERS
from cluster.direct import DirectClient
from cluster.dispersion import Dispersion, Sample, names_for, populate, report, sample_of
from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.ports import HOST
from cluster.proxy_account import Login, ProxyAccount
from cluster.readiness import AUTH_PATH
from cluster.swift_dir import ClusterFiles
from martlet.conf.options import ConfigError, parse_bool, read_ini

CONF_NAME = "dispersion.conf"
_SECTION = "dispersion"
_SECONDS = 5.0
_KINDS = ("container", "object")
#: The user in the home of `martlet up`: its account has nothing else in it.
_TRIAL_USER = "admin:admin"

_EPILOG = f"""\
`populate` makes containers and objects in some of the partitions, once. `report` asks each primary
for its copy, past the proxy: the share that is there shows how complete the cluster is. The exit
status of `report` is 1 if a copy is missing. Use an account of its own.

Both read section [{_SECTION}] of {CONF_NAME} in the directory of martlet.conf, with the options of
OpenStack Swift: auth_url, auth_user, auth_key, dispersion_coverage, concurrency, retries,
container_populate, object_populate, container_report, object_report, keystone_api_insecure. The
environment (ST_AUTH, ST_USER, ST_KEY, or OS_STORAGE_URL and OS_AUTH_TOKEN) is before the file,
and options are before both. In the home of `martlet up` its own user {_TRIAL_USER} is the default.

examples:
  martlet dispersion populate                  1 % of the partitions
  martlet dispersion populate --coverage 10 --policy gold
  martlet dispersion report                    copies found, of containers and of objects
  martlet dispersion report --partitions --json
                                               with the partitions that lack some, as JSON
"""


@dataclass(frozen=True)
class Plan:
    """The choices of a command line, from the conf, the environment and the options."""

    login: Login
    kinds: tuple[str, ...]
    coverage: float
    concurrency: int
    retries: int
    is_insecure: bool


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``dispersion`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "dispersion",
        help="make a sample of containers and objects, count how many of its copies are there",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    make = steps.add_parser("populate", help="make the sample")
    make.add_argument(
        "--coverage", type=float, metavar="PERCENT", help="partitions of a ring (default: 1)"
    )
    make.add_argument(
        "--no-overlap", action="store_true", help="in partitions that no sample has yet"
    )
    show = steps.add_parser("report", help="count the copies of the sample")
    show.add_argument(
        *("-p", "--partitions"), action="store_true", help="name partitions that lack copies"
    )
    show.add_argument("--json", "-j", action="store_true", help="as JSON")
    for step in (make, show):
        swift_dir.add_option(step)
        swift_dir.add_policy_option(step)
        only = step.add_mutually_exclusive_group()
        for kind in _KINDS:
            only.add_argument(f"--{kind}-only", action="store_true", help=f"{kind}s alone")
        step.add_argument("--auth-url", metavar="URL", help="of the login, as ST_AUTH")
        step.add_argument("--user", metavar="USER", help="as ST_USER")
        step.add_argument("--key", metavar="KEY", help="as ST_KEY")
        step.add_argument("--insecure", action="store_true", help="accept any certificate")
        step.add_argument("--concurrency", type=int, metavar="N", help="requests at once (25)")
        step.add_argument("--retries", type=int, metavar="N", help="of a request that fails (2)")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Do the step; return the exit status.

    :raises ClusterError: the sample cannot be made, or found.
    """
    files = ClusterFiles.load(swift_dir.swift_dir_of(home, arguments.swift_dir))
    policy = files.policy(arguments.policy)
    plan = _plan(arguments, home, files)
    account = ProxyAccount.open(
        plan.login, plan.concurrency, _SECONDS, plan.retries, plan.is_insecure
    )
    samples = [sample_of(files, account.name, policy, kind) for kind in plan.kinds]
    if arguments.step == "populate":
        for sample in samples:
            _populate(sample, account, plan, arguments.no_overlap)
        return 0
    client = DirectClient(files, _SECONDS)
    reports = []
    for sample in samples:
        names = sample.listed(account)
        if not names:
            raise ClusterError(
                f"account {account.name} has no {sample.kind}s of a sample: run `martlet "
                "dispersion populate` with the same user and policy first"
            )
        found = report(sample, names, client, plan.concurrency, plan.retries, _pause)
        reports.append(found)
    if arguments.json:
        output: dict[str, Any] = {found.kind: found.as_json() for found in reports}
        print(json.dumps({"policy": policy.name, **output}, indent=2))
    else:
        print(f"storage policy {policy.name}, account {account.name}")
        for found in reports:
            print(_as_text(found, arguments.partitions))
    return 1 if any(found.found < found.expected for found in reports) else 0


def _pause(attempt: int) -> None:
    time.sleep(min(0.1 * 2**attempt, 2.0))


def _populate(sample: Sample, account: ProxyAccount, plan: Plan, no_overlap: bool) -> None:
    existing = sample.listed(account) if no_overlap else []
    names = names_for(sample, plan.coverage, existing)
    if not names:
        count = sample.ring.partition_count
        raise ClusterError(
            f"{plan.coverage} % of {count} partitions is none: set a --coverage of "
            f"{100.0 / count:.4g} at least"
            if plan.coverage * count < 100
            else f"each of the {count} partitions has a {sample.kind} of a sample already"
        )
    began = time.monotonic()
    made = populate(sample, account, names, plan.concurrency)
    seconds = time.monotonic() - began
    share = 100.0 * made / sample.ring.partition_count
    print(f"made {made} {sample.kind}s in {seconds:.1f} s, in {share:.2f} % of the partitions")


def _as_text(found: Dispersion, with_partitions: bool) -> str:
    lines = [
        f"{found.kind}s: {found.percent:.2f} % of the copies are there "
        f"({found.found} of {found.expected}), in {found.partitions} partitions, "
        f"{found.coverage:.2f} % of the ring"
    ]
    if overlapping := found.listed - found.partitions:
        lines.append(f"  {overlapping} {found.kind}s share a partition with another one")
    for copies, partitions in sorted(found.missing.items()):
        lines.append(f"  {partitions} partitions lack {copies} of their copies")
    if with_partitions:
        for partition, copies in sorted(found.incomplete.items()):
            lines.append(f"  partition {partition} lacks {copies}")
    for error, times in sorted(found.errors.items()):
        lines.append(f"  {times} times: {error}")
    return "\n".join(lines)


def _plan(arguments: argparse.Namespace, home: Home, files: ClusterFiles) -> Plan:
    """
    :raises ClusterError: an option cannot be used.
    """
    conf = _conf(files.directory)

    def number(name: str, option: str, default: float) -> float:
        given = getattr(arguments, name, None)
        try:
            value = float(conf.get(option, default)) if given is None else float(given)
        except ValueError:
            text = conf[option]
            raise ClusterError(f"{option} = {text!r} in {CONF_NAME} is no number") from None
        return value

    def is_wanted(kind: str) -> bool:
        if arguments.container_only or arguments.object_only:
            return bool(getattr(arguments, f"{kind}_only"))
        return _is_on(conf, f"{kind}_{arguments.step}", "yes")

    plan = Plan(
        _login(arguments, conf, home, files.directory),
        tuple(kind for kind in _KINDS if is_wanted(kind)),
        number("coverage", "dispersion_coverage", 1.0),
        int(number("concurrency", "concurrency", 25)),
        int(number("retries", "retries", 2)),
        arguments.insecure or _is_on(conf, "keystone_api_insecure", "no"),
    )
    if not 0 < plan.coverage <= 100:
        raise ClusterError("the coverage must be above 0, and at most 100 (percent)")
    if not 1 <= plan.concurrency <= 1000 or plan.retries < 0:
        raise ClusterError("concurrency must be from 1 to 1000, and retries 0 or more")
    return plan


def _conf(directory: Path) -> dict[str, str]:
    path = directory / CONF_NAME
    if not path.exists():
        return {}
    try:
        parser = read_ini(path)
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    return dict(parser.items(_SECTION)) if parser.has_section(_SECTION) else {}


def _is_on(conf: dict[str, str], option: str, default: str) -> bool:
    try:
        return parse_bool(conf.get(option, default))
    except ValueError as error:
        raise ClusterError(f"{option} in {CONF_NAME}: {error}") from None


def _login(
    arguments: argparse.Namespace, conf: dict[str, str], home: Home, directory: Path
) -> Login:
    """The user: from options, the environment, the conf, or that of the cluster in the home."""
    environ = os.environ
    if arguments.auth_url or arguments.user or arguments.key:
        return Login(
            arguments.auth_url or environ.get("ST_AUTH", "") or conf.get("auth_url", ""),
            arguments.user or environ.get("ST_USER", "") or conf.get("auth_user", ""),
            arguments.key or environ.get("ST_KEY", "") or conf.get("auth_key", ""),
        )
    if environ.get("OS_STORAGE_URL") and environ.get("OS_AUTH_TOKEN"):
        return Login(storage_url=environ["OS_STORAGE_URL"], token=environ["OS_AUTH_TOKEN"])
    if environ.get("ST_AUTH"):
        return Login(environ["ST_AUTH"], environ.get("ST_USER", ""), environ.get("ST_KEY", ""))
    if conf.get("auth_url"):
        return Login(conf["auth_url"], conf.get("auth_user", ""), conf.get("auth_key", ""))
    layout = home.read_layout() if directory == home.etc else None
    if layout is None:
        return Login()
    url = f"http://{HOST}:{layout.proxy_port}{AUTH_PATH}"
    return Login(url, _TRIAL_USER, TRIAL_USERS[_TRIAL_USER].split()[0])
