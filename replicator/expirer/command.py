# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-object-expirer``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from replicator.job_arguments import job_parser, parse_job

if TYPE_CHECKING:
    from martlet.http.internal_client import InternalClient
    from replicator.expirer.options import ExpirerOptions
    from replicator.expirer.passes import Expirer
    from replicator.expirer.queue import Queue

NAME = "martlet-object-expirer"
SECTION = "object-expirer"
#: Options of [DEFAULT] that an object server's conf has, too.
_COMMON = ("swift_dir", "log_level", "log_style")

_EXAMPLES = f"""\
examples:
  {NAME} /etc/martlet/object-expirer.conf
      runs until it is stopped, with a pass in every interval
  {NAME} /etc/martlet/object-server.conf
      the same, with the section of the object server's conf
  {NAME} /etc/martlet/object-expirer.conf --once --json
      runs one pass, and prints its figures as JSON
  {NAME} /etc/martlet/object-expirer.conf --processes 3 --process 0
      does one of three parts of the work; run the others with 1 and 2

Exit status: 0 done; 1 something is to be repeated, or the conf cannot be used; 2 the command line
is wrong.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the expirer until a stop signal, or once; return the exit status."""
    arguments = _parse(argv)
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from martlet.conf.options import ConfigError
    from ring.errors import RingError

    def load() -> Expirer:
        return load_expirer(arguments.conf, arguments.processes, arguments.process)

    try:
        expirer = load()
    except (ConfigError, RingError, ValueError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    if not arguments.once:
        from storage.reloadable_job import run_until_stopped

        return run_until_stopped(expirer, load, lambda loaded: loaded.run_forever())
    return run_once(expirer, arguments.json)


def _parse(argv: list[str] | None) -> Any:
    parser = job_parser(
        NAME,
        "Deletes objects whose X-Delete-At has passed, from the queue of the cluster.",
        _EXAMPLES,
        "object-expirer.conf, or the object server's configuration file",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="expirers that share the queue, as in the conf"
    )
    parser.add_argument(
        "--process", type=int, metavar="N", help="number of this one, from 0, as in the conf"
    )
    return parse_job(parser, argv)


def run_once(expirer: Expirer, as_json: bool = False) -> int:
    """Run one pass and return the exit status; print a sentence if the queue cannot be read."""
    from replicator.expirer.queue import QueueError

    try:
        figures = expirer.run_once()
    except QueueError as error:
        print(f"{NAME}: the queue cannot be read: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps(figures.as_dict()))
    return 1 if figures.failed or figures.unread else 0


def load_expirer(
    conf_path: Path, processes: int | None = None, process: int | None = None
) -> Expirer:
    """Load the expirer from a conf, and set its priority.

    A pipeline in a conf of its own is its proxy, as in OpenStack Swift's object-expirer.conf.
    Otherwise ``internal_client_conf_path`` names a conf with one.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: there is no container ring.
    :raises ValueError: the log level is invalid, or the numbers of processes are.
    :raises OSError: the priority cannot be set.
    """
    from martlet.conf.options import load_options, read_ini
    from martlet.http.internal_client import InternalClient
    from martlet.log import setup_logging
    from martlet.service.server import load_pipeline
    from replicator.expirer.options import (
        DELAY_PREFIX,
        ExpirerDefaults,
        ExpirerOptions,
        read_delays,
    )
    from replicator.expirer.passes import Expirer
    from replicator.priority import set_priority

    conf = _Conf.read(conf_path)
    defaults = load_options(ExpirerDefaults, conf.defaults, f"{conf_path} [DEFAULT]")
    where = f"{conf_path} [{SECTION}]"
    delays = read_delays(conf.values, where)
    plain = {n: v for n, v in conf.values.items() if not n.startswith(DELAY_PREFIX)}
    options = load_options(ExpirerOptions, plain, where)
    options = replace(
        options,
        processes=options.processes if processes is None else processes,
        process=options.process if process is None else process,
    )
    setup_logging(defaults.log_level, defaults.log_style)
    set_priority(options.nice_priority, options.ionice_class, options.ionice_priority)
    proxy_conf = conf_path if conf.has_proxy else Path(options.internal_client_conf_path)
    read_ini(proxy_conf)  # so that an error is a sentence
    client = InternalClient(load_pipeline(proxy_conf), "Object-Expirer", options.request_tries)
    return Expirer(options, delays, client, _queue(options, defaults.swift_dir, client))


def _queue(options: ExpirerOptions, swift_dir: str, client: InternalClient) -> Queue:
    """
    :raises ConfigError: martlet.conf cannot be used.
    :raises RingError: there is no container ring.
    """
    from martlet.conf.cluster import CONF_NAME, ClusterConf
    from martlet.grid.http_login import Logins
    from martlet.http.backend_client import BackendClient
    from replicator.expirer.queue import PAGE_ROWS, Queue
    from ring.hashing import HashPath
    from ring.ring import Ring

    cluster = ClusterConf.load(swift_dir)
    limits = cluster.constraints
    backends = BackendClient(
        options.conn_timeout,
        options.node_timeout,
        start_login=Logins(cluster.grid.secrets, cluster.grid.plain_http),
        secure=cluster.grid.secure(),
    )
    return Queue(
        f"{limits.auto_create_account_prefix}{options.expiring_objects_account_name}",
        client,
        Ring(f"{swift_dir}/container.ring.gz", HashPath.from_conf(f"{swift_dir}/{CONF_NAME}")),
        backends,
        min(PAGE_ROWS, limits.container_listing_limit, limits.account_listing_limit),
    )


class _Conf(NamedTuple):
    """The parts of a conf that the expirer reads."""

    defaults: dict[str, str]
    values: dict[str, str]
    has_proxy: bool  # its pipeline is the expirer's own proxy

    @classmethod
    def read(cls, path: Path) -> _Conf:
        """Read a conf of its own, or that of an object server.

        :raises ConfigError: it cannot be read, or has no section for the expirer.
        """
        from martlet.conf.options import ConfigError, read_ini

        parser = read_ini(path)
        if not parser.has_section(SECTION):
            raise ConfigError(f"{path}: there is no section [{SECTION}]")
        defaults = dict(parser.defaults())
        values = {n: v for n, v in parser.items(SECTION) if defaults.get(n) != v}
        if parser.has_section("app:object-server"):  # which checks its own options
            common = {n: v for n, v in defaults.items() if n in _COMMON}
            return cls(common, values, False)
        return cls(defaults, values, parser.has_section("pipeline:main"))


if __name__ == "__main__":
    sys.exit(main())
