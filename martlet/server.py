"""The WSGI server of every Python service: bind, fork workers, serve, stop.

This module and the entry points that call it are the only places that know eventlet and patch the
standard library; the applications are plain WSGI callables.
"""

from __future__ import annotations

import argparse
import configparser
import errno
import gc
import importlib.metadata
import os
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from martlet.cluster_conf import ClusterConf
from martlet.config import ConfigError, load_options, option, read_ini
from martlet.http import WSGIApp
from martlet.log import get_logger, setup_logging
from martlet.swift_options import PROXY_DEFAULTS
from martlet.worker_processes import GRACE_SECONDS, at_retirement, supervise
from martlet.wsgi.limits import Limits
from martlet.wsgi.listener import HttpServer

# A request leaves some 40 objects in cycles; nearly all else is gone with it without the collector.
# With Python's threshold of 700 objects it looks through the requests under way so often that this
# is 3 % of a proxy's time; with this one some 4 MB wait for it.
_GC_THRESHOLDS = (20_000, 20, 20)
#: Of a process without a limit of its own.
_DESCRIPTORS_MAX = 1 << 20


@dataclass(frozen=True)
class ServerOptions:
    """``[DEFAULT]`` of every Python service's conf."""

    bind_ip: str = option("0.0.0.0", "Address to listen on")
    bind_port: int = option(0, "Port to listen on; required")
    backlog: int = option(4096, "Connections waiting to be accepted, at most")
    workers: int = option(
        0, "Worker processes; 0 serves from the one process, auto means one a processor"
    )
    client_timeout: float = option(60.0, "Longest wait for a read from or a write to a client", "s")
    keepalive_timeout: float = option(65.0, "Longest idle time of a kept connection", "s")
    max_clients: int = option(1024, "Requests served at once by one worker")
    max_connections: int = option(
        0,
        "Connections of one worker; beyond, the one idle longest is closed. 0: half of the file "
        "descriptors that it may have",
    )
    log_level: str = option("INFO", "DEBUG, INFO, WARNING, ERROR or CRITICAL")
    swift_dir: str = option("/etc/martlet", "Directory of martlet.conf and the rings")
    devices: str = option("/srv/node", "Directory that holds the devices")
    mount_check: bool = option(True, "Refuse a device that is not a mount point")


def serve(
    conf_path: Path,
    app_name: str,
    on_worker_start: Callable[[WSGIApp], None],
    workers_min: int = 0,
) -> int:
    """Run the service of ``conf_path`` until SIGTERM or SIGINT; returns the exit status.

    The pipeline is loaded once, before the workers are forked, so that they share what it made.
    ``on_worker_start`` runs in each worker with the loaded pipeline, to start background green
    threads. A service that must be able to replace a worker asks for one at least.
    """
    try:
        setup_logging(ServerOptions.log_level)
        options = load_server_options(conf_path)
        setup_logging(options.log_level)
        cluster = ClusterConf.load(options.swift_dir)
        app = load_pipeline(conf_path)
        gc.freeze()  # what was loaded stays: the collector need not look through it, nor unshare it
        gc.set_threshold(*_GC_THRESHOLDS)
        listeners = _listen(options)
    except (ConfigError, ValueError, OSError) as error:
        print(f"{app_name}: {error}", file=sys.stderr)
        return 1
    log = get_logger(app_name)
    host, port = listeners[0].getsockname()[:2]
    log.info("listening ip=%s port=%d workers=%d", host, port, options.workers)

    def work(number: int) -> None:
        use_own_poller()
        on_worker_start(app)
        _serve_requests(listeners[number], app, options, cluster)

    workers = max(options.workers, workers_min)
    if workers <= 0:
        work(0)
        return 0
    return supervise(workers, work)


def load_server_options(conf_path: Path) -> ServerOptions:
    """The ``[DEFAULT]`` section of a service's conf.

    :raises ConfigError: it is unreadable, has an unknown option, or names no port.
    """
    options = read_server_options(read_ini(conf_path).defaults(), f"{conf_path} [DEFAULT]")
    if not 0 < options.bind_port < 65536:
        raise ConfigError(f"{conf_path} [DEFAULT]: bind_port must be set, from 1 to 65535")
    return options


def read_server_options(values: Mapping[str, str], where: str) -> ServerOptions:
    """The options of a ``[DEFAULT]`` section, be it as PasteDeploy hands it on.

    :raises ConfigError: an option is unknown, or has a value of the wrong form.
    """
    given = dict(values)
    if given.get("workers", "").strip() == "auto":
        given["workers"] = str(len(os.sched_getaffinity(0)))
    return load_options(ServerOptions, given, where, ("here", "__file__", *PROXY_DEFAULTS))


def load_pipeline(conf_path: Path) -> WSGIApp:
    """The application behind ``[pipeline:main]``.

    :raises ConfigError: the conf cannot be used.
    """
    from paste.deploy import loadapp

    try:
        app: WSGIApp = loadapp("config:" + quote(str(conf_path.resolve())))
    except (LookupError, ImportError, configparser.Error) as error:
        raise ConfigError(f"{conf_path}: {error}".replace("\n", " ")) from None
    return app


def _listen(options: ServerOptions) -> list[socket.socket]:
    """A listening socket for each worker.

    The kernel spreads connections over them; from one shared socket the first worker to wake up
    would take most. The parent keeps them open, so that those of a dead worker wait for the next.
    """
    try:
        # Sockets that share a port would share it with another martlet, too: this one does not.
        _bind(options, shared=False).close()
        listeners = [_bind(options, shared=True) for _ in range(max(1, options.workers))]
    except OSError as error:
        where = f"{options.bind_ip}:{options.bind_port}"
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"{where} is in use by another program") from None
        raise ConfigError(f"cannot listen on {where}: {error.strerror}") from None
    for listener in listeners:
        listener.listen(options.backlog)
    return listeners


def _bind(options: ServerOptions, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.bind_ip else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
    try:
        bound.bind((options.bind_ip, options.bind_port))
    except OSError:
        bound.close()
        raise
    return bound


def use_own_poller() -> None:
    """A poller inherited over fork would be shared with the siblings.

    It comes before any green thread of the worker: those that wait in the old poller never wake.
    """
    import eventlet.hubs

    eventlet.hubs.use_hub()


def _serve_requests(
    listener: socket.socket, app: WSGIApp, options: ServerOptions, cluster: ClusterConf
) -> None:
    import eventlet
    from eventlet.green import socket as green_socket

    listener.listen(options.backlog)  # again: a worker that was told to stop has shut it down
    green = green_socket.socket(listener.family, listener.type, fileno=os.dup(listener.fileno()))
    constraints = cluster.constraints
    server = HttpServer(
        green,
        app,
        Limits(
            request_line=constraints.max_request_line,
            header_line=constraints.max_header_size,
            header_count=constraints.max_header_count,
            client_timeout=options.client_timeout,
            idle_timeout=options.keepalive_timeout,
        ),
        get_logger("martlet.server"),
        eventlet.spawn_n,
        requests_max=options.max_clients,
        connections_max=options.max_connections or _descriptors() // 2,
    )

    acceptor = eventlet.getcurrent()

    def leave() -> None:
        # As stop, but the socket goes on: the next worker has it.
        server.retire()
        eventlet.kill(acceptor, OSError(errno.EBADF, "this worker retires"))
        eventlet.spawn_after(GRACE_SECONDS, os._exit, 1)

    at_retirement(leave)

    bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def await_signal() -> None:
        # A signal alone does not end the hub's wait: what a handler schedules would come up to a
        # minute later.
        eventlet.hubs.trampoline(bell, read=True)
        eventlet.spawn_after(GRACE_SECONDS, os._exit, 0)
        server.stop()

    def stop(_number: int, _frame: object) -> None:
        os.eventfd_write(bell, 1)

    eventlet.spawn_n(await_signal)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.run()


def _descriptors() -> int:
    """How many files the process may have open; as many as the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else _DESCRIPTORS_MAX


def patch_standard_library() -> None:
    """Make blocking calls of the standard library yield to other green threads.

    Entry points call this before they import anything else of ours.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import eventlet
    eventlet.monkey_patch()


def run_service(
    name: str,
    description: str,
    on_worker_start: Callable[[WSGIApp], None] = lambda app: None,
    argv: list[str] | None = None,
    workers_min: int = 0,
) -> int:
    """The command line of a service: ``NAME CONF``, ``--help``, ``--version``."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=f"Example: {name} /etc/martlet/{name.removeprefix('martlet-')}.conf",
    )
    parser.add_argument("conf", type=Path, help="the PasteDeploy configuration file")
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    arguments: Any = parser.parse_args(argv)
    return serve(arguments.conf, name, on_worker_start, workers_min)
