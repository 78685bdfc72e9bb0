"""The WSGI server of every Python service: bind, fork workers, serve, stop.

Entry points patch the standard library (green.py) before they import this module. The applications
are plain WSGI callables.
"""

from __future__ import annotations

import argparse
import configparser
import errno
import gc
import importlib.metadata
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from martlet.conf.cluster import ClusterConf
from martlet.conf.constraints import Constraints
from martlet.conf.options import ConfigError, load_options, option, read_ini
from martlet.conf.swift_options import PROXY_DEFAULTS
from martlet.grid.plain_http import PlainHttp
from martlet.http.environ import WSGIApp
from martlet.log import (
    get_logger,
    join_request_lines,
    separate_request_lines,
    setup_logging,
)
from martlet.service.descriptors import connections_max
from martlet.service.pipeline import create_pipeline
from martlet.service.reload import (
    CHECK,
    WORD,
    Estate,
    checked_address,
    execute_anew,
    hold_signals,
    inherit,
    start_check,
)
from martlet.service.signal_bell import SignalBell
from martlet.service.worker_processes import (
    GRACE_SECONDS,
    Renewal,
    at_retirement,
    make_way,
    make_way_when_told,
    say_serving,
    supervise,
)
from martlet.wsgi.limits import Limits
from martlet.wsgi.listener import HttpServer
from martlet.wsgi.tls_door import TlsDoor

if TYPE_CHECKING:
    from martlet.metrics.of_service import ServiceMetrics

# A request leaves some 40 objects in cycles; nearly all others are freed without the collector.
# With Python's threshold of 700 objects the collector scans the running requests so often that it
# takes 3 % of a proxy's time. With this threshold some 4 MB wait for it.
_GC_THRESHOLDS = (20_000, 20, 20)
#: Changes PasteDeploy's context of a pipeline before the pipeline is created.
CompletePipeline = Callable[[Any], None]


@dataclass(frozen=True)
class ServerOptions:
    """``[DEFAULT]`` of every Python service's conf."""

    bind_ip: str = option("0.0.0.0", "Address to listen on")
    bind_port: int = option(0, "Port to listen on; required")
    backlog: int = option(4096, "Most connections waiting to be accepted")
    workers: int = option(0, "Worker processes; 0: one; auto: one for each processor")
    stale_worker_timeout: float = option(
        86400.0, "Time for old workers to finish their requests after a reload", "s"
    )
    client_timeout: float = option(60.0, "Longest wait for a read from or a write to a client", "s")
    keepalive_timeout: float = option(65.0, "Longest idle time of a keep-alive connection", "s")
    max_clients: int = option(1024, "Requests served in parallel by one worker")
    max_connections: int = option(
        0,
        "Connections of one worker; over this limit the one idle longest is closed. 0: half of its "
        "limit of file descriptors",
    )
    log_level: str = option("INFO", "DEBUG, INFO, WARNING, ERROR or CRITICAL")
    log_style: str = option("text", "Form of the log: text, or json for programs")
    swift_dir: str = option("/etc/martlet", "Directory of martlet.conf and the rings")
    devices: str = option("/srv/node", "Directory that holds the devices")
    mount_check: bool = option(True, "Refuse a device that is not a mount point")
    metrics_from: list[str] = option([], "Addresses and networks that may GET /metrics")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        if self.stale_worker_timeout <= 0:
            raise ValueError("stale_worker_timeout must be above 0")
        PlainHttp(self.metrics_from, "metrics_from")


@dataclass(frozen=True)
class StorageServerOptions(ServerOptions):
    """``[DEFAULT]`` of a storage service; its port gives access to all data, behind a gate."""

    bind_ip: str = option("127.0.0.1", "Address to listen on, for proxies and other servers")
    metrics_from: list[str] = option(
        ["0.0.0.0/0", "::/0"], "Addresses and networks that may GET /metrics"
    )


def serve(
    conf_path: Path,
    app_name: str,
    on_worker_start: Callable[[WSGIApp], None],
    kind: type[ServerOptions],
    complete_pipeline: CompletePipeline | None,
) -> int:
    """Run the service of ``conf_path`` until SIGTERM or SIGINT; return the exit status.

    The pipeline is loaded once, before the workers are forked, so that they share its memory.
    ``on_worker_start`` runs in each worker with the loaded pipeline, to start background green
    threads.
    """
    estate = inherit()
    try:
        options, cluster, app, tls = _load(conf_path, app_name, kind, complete_pipeline)
        metrics = _metrics(app_name, conf_path, options)
        gc.freeze()  # the collector need not scan, and so unshare, the loaded objects
        gc.set_threshold(*_GC_THRESHOLDS)
        listeners = _listen(options, estate)
    except (ConfigError, ValueError, OSError) as error:
        print(f"{app_name}: {error}", file=sys.stderr)
        return _await_next_reload(app_name, estate) if estate.workers else 1
    log = get_logger(app_name)
    pipeline = metrics.in_front_of(app)
    host, port = listeners[0].getsockname()[:2]
    log.info("listening ip=%s port=%d workers=%d", host, port, len(listeners))

    def work(number: int) -> None:
        use_own_poller()
        _join_request_lines()
        on_worker_start(app)
        _count(metrics, app)
        _serve_requests(listeners[number], pipeline, options, cluster, tls)

    def start_over(workers: Iterable[int]) -> None:
        execute_anew(_address(options), listeners, workers)

    renewal = Renewal(partial(start_check, _address(options)), start_over, estate.workers)
    return supervise(len(listeners), work, renewal)


def _await_next_reload(app_name: str, estate: Estate) -> int:
    """Keep the old workers and their conf, if the new conf fails although its check passed."""
    get_logger(app_name).error(
        "the workers from before the reload go on; a worker that dies is not replaced"
    )

    def start_over(workers: Iterable[int]) -> None:
        execute_anew(estate.address, estate.listeners, workers)

    check_again = partial(start_check, estate.address)
    return supervise(0, lambda number: None, Renewal(check_again, start_over, estate.workers))


def check(
    conf_path: Path,
    app_name: str,
    kind: type[ServerOptions],
    complete_pipeline: CompletePipeline | None,
) -> int:
    """Read everything that a start would read; return the exit status.

    Before a reload this also checks that a new address is free.
    """
    try:
        options, *_ = _load(conf_path, app_name, kind, complete_pipeline)
        if checked_address() not in (None, _address(options)):
            _listen(options, Estate())
    except (ConfigError, ValueError, OSError) as error:
        print(f"{app_name}: {error}", file=sys.stderr)
        return 1
    return 0


def _load(
    conf_path: Path,
    app_name: str,
    kind: type[ServerOptions],
    complete_pipeline: CompletePipeline | None,
) -> tuple[ServerOptions, ClusterConf, WSGIApp, ssl.SSLContext | None]:
    """The options, ``martlet.conf``, the pipeline, and the context of TLS.

    The pipeline of a storage service has a gate before it. Only a storage service speaks TLS.

    :raises ConfigError, ValueError, OSError: the conf cannot be used.
    """
    setup_logging(ServerOptions.log_level)
    options = load_server_options(conf_path, kind)
    setup_logging(options.log_level, options.log_style)
    cluster = ClusterConf.load(options.swift_dir)
    app = load_pipeline(conf_path, complete_pipeline)
    tls = None
    if issubclass(kind, StorageServerOptions):
        from martlet.service.gate import behind_gate

        name = f"{app_name} {_address(options)}"
        app = behind_gate(app, cluster.grid, name, options.max_clients)
        tls = cluster.grid.server_context()
    return options, cluster, app, tls


def _metrics(app_name: str, conf_path: Path, options: ServerOptions) -> ServiceMetrics:
    from martlet.metrics.of_service import ServiceMetrics
    from martlet.recon.figures import Devices

    is_storage = isinstance(options, StorageServerOptions)
    devices = Devices(options.devices, options.mount_check) if is_storage else None
    readers = PlainHttp(options.metrics_from, "metrics_from")
    return ServiceMetrics(app_name, conf_path, options.swift_dir, readers, devices)


def _count(metrics: ServiceMetrics, app: WSGIApp) -> None:
    import eventlet

    metrics.start_worker(app, eventlet.spawn_n, eventlet.sleep)


def load_server_options(
    conf_path: Path, kind: type[ServerOptions] = ServerOptions
) -> ServerOptions:
    """The ``[DEFAULT]`` section of a service's conf.

    :raises ConfigError: it is unreadable, has an unknown option, or names no port.
    """
    options = read_server_options(read_ini(conf_path).defaults(), f"{conf_path} [DEFAULT]", kind)
    if not 0 < options.bind_port < 65536:
        raise ConfigError(f"{conf_path} [DEFAULT]: bind_port must be set, from 1 to 65535")
    return options


def read_server_options(
    values: Mapping[str, str], where: str, kind: type[ServerOptions] = ServerOptions
) -> ServerOptions:
    """The options of a ``[DEFAULT]`` section, also in the form in which PasteDeploy passes it.

    :raises ConfigError: an option is unknown, or has a value of the wrong form.
    """
    given = dict(values)
    if given.get("workers", "").strip() == "auto":
        given["workers"] = str(len(os.sched_getaffinity(0)))
    return load_options(kind, given, where, ("here", "__file__", *PROXY_DEFAULTS))


def load_pipeline(conf_path: Path, complete_pipeline: CompletePipeline | None = None) -> WSGIApp:
    """The application behind ``[pipeline:main]``.

    A daemon that is the only client of its pipeline does not complete it.

    :raises ConfigError: the conf cannot be used.
    """
    from paste.deploy.loadwsgi import APP, loadcontext

    try:
        context = loadcontext(APP, "config:" + quote(str(conf_path.resolve())))
        if complete_pipeline is not None:
            complete_pipeline(context)
        # The gate of a storage service walks from filter to filter: there each has the next one.
        app: WSGIApp = context.create() if complete_pipeline is None else create_pipeline(context)
    except (LookupError, ImportError, configparser.Error) as error:
        raise ConfigError(f"{conf_path}: {error}".replace("\n", " ")) from None
    return app


def _listen(options: ServerOptions, estate: Estate) -> list[socket.socket]:
    """Open a listening socket for each worker, or take those of before the reload.

    The kernel spreads connections over the sockets. With one shared socket the first worker to wake
    up would take most. The parent keeps the sockets open, so that connections of a dead worker wait
    for the next one. A reload closes no socket, because the connections that wait on it would be
    lost. So a reload never reduces the number of workers; only a new start does.
    """
    is_same = estate.address == _address(options)
    listeners = estate.listeners if is_same else []
    try:
        if not listeners:
            # SO_REUSEPORT would share the port with another martlet, too. This socket detects it.
            _bind(options, shared=False).close()
        while len(listeners) < max(1, options.workers):
            listeners.append(_bind(options, shared=True))
    except OSError as error:
        where = _address(options)
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"{where} is in use by another program") from None
        raise ConfigError(f"cannot listen on {where}: {error.strerror}") from None
    for listener in listeners:
        listener.listen(options.backlog)
    return listeners


def _address(options: ServerOptions) -> str:
    return f"{options.bind_ip}:{options.bind_port}"


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
    """Replace the poller inherited over fork, which all siblings share.

    Call it before any green thread of the worker starts: threads in the old poller never wake.
    """
    import eventlet.hubs

    eventlet.hubs.use_hub()


def _join_request_lines() -> None:
    import eventlet.hubs

    join_request_lines(eventlet.hubs.get_hub().schedule_call_global)


def _serve_requests(
    listener: socket.socket,
    app: WSGIApp,
    options: ServerOptions,
    cluster: ClusterConf,
    tls: ssl.SSLContext | None,
) -> None:
    import eventlet
    from eventlet.green import socket as green_socket

    from martlet.service.hub_socket import HubListener

    listener.listen(options.backlog)  # again: a worker that was told to stop has shut it down
    green = green_socket.socket(listener.family, listener.type, fileno=os.dup(listener.fileno()))
    logger = get_logger("martlet.server")
    server = HttpServer(
        HubListener(green),
        app,
        _limits(cluster.constraints, options),
        logger,
        eventlet.spawn_n,
        requests_max=options.max_clients,
        connections_max=connections_max(options.max_connections),
        door=TlsDoor(tls, logger) if tls else None,
    )

    acceptor = eventlet.getcurrent()
    is_reload = False

    def leave() -> None:
        # As stop, but the socket stays open for the next worker.
        is_first = not server.is_stopping  # later the acceptor waits for the requests under way
        server.retire(keeps_idle=is_reload)
        if is_first:
            eventlet.kill(acceptor, OSError(errno.EBADF, "this worker retires"))

    at_retirement(leave)
    bell = SignalBell()
    told: set[int] = set()  # the signals that have come

    def await_signals() -> None:
        nonlocal is_reload
        # A signal alone does not end the hub's wait: a call scheduled by its handler could run up
        # to a minute later.
        while True:
            eventlet.hubs.trampoline(bell, read=True)
            bell.silence()
            if told - {WORD}:  # to stop
                separate_request_lines()
                break
            if told and not is_reload:  # the signal may come more than once
                is_reload = True
                make_way(options.stale_worker_timeout)
        eventlet.spawn_after(GRACE_SECONDS, os._exit, 0)
        if server.is_stopping:  # the socket belongs to the next worker
            server.retire()
        else:
            server.stop()

    def stop(number: int, _frame: object) -> None:
        told.add(number)

    eventlet.spawn_n(await_signals)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    make_way_when_told(lambda: told.add(WORD))
    say_serving()
    server.run()


def _limits(constraints: Constraints, options: ServerOptions) -> Limits:
    return Limits(
        request_line=constraints.max_request_line,
        header_line=constraints.max_header_size,
        header_count=constraints.max_header_count,
        client_timeout=options.client_timeout,
        idle_timeout=options.keepalive_timeout,
    )


def run_service(
    name: str,
    description: str,
    on_worker_start: Callable[[WSGIApp], None] = lambda app: None,
    argv: list[str] | None = None,
    kind: type[ServerOptions] = ServerOptions,
    complete_pipeline: CompletePipeline | None = None,
) -> int:
    """The command line of a service: ``NAME CONF``, ``--check``, ``--help``, ``--version``."""
    hold_signals()
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=f"Example: {name} /etc/martlet/{name.removeprefix('martlet-')}.conf",
    )
    parser.add_argument("conf", type=Path, help="the PasteDeploy configuration file")
    parser.add_argument(CHECK, action="store_true", help="check the configuration and exit")
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    arguments: Any = parser.parse_args(argv)
    if arguments.check:
        return check(arguments.conf, name, kind, complete_pipeline)
    return serve(arguments.conf, name, on_worker_start, kind, complete_pipeline)
