# SPDX-License-Identifier: Apache-2.0
"""The filter ``recon``: ``GET /recon/…`` returns figures about this server as JSON.

The paths and formats are OpenStack Swift's, so that ``swift-recon`` works. Figures of background
processes come from the JSON files that they write to ``recon_cache_path``; a missing figure is
null. The filter is for account, container and proxy servers. The object server has its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from martlet.conf.cluster import CONF_NAME
from martlet.conf.options import load_options, option, parse_bool
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import Response
from martlet.log import get_logger
from martlet.recon.cache import DEFAULT_PATH, read_figures
from martlet.recon.figures import (
    Devices,
    file_digest,
    load,
    memory,
    mounts,
    ring_digests,
    sockets,
)
from martlet.service.release import RUNNING

log = get_logger("martlet.recon")

_PREFIX = "/recon/"
#: The path under which swift-recon looks up the digest of the cluster's conf.
_SWIFT_CONF = "/etc/swift/swift.conf"
_REPLICATION = ("replication_time", "replication_stats", "replication_last")
_OBJECT_REPLICATION = (*_REPLICATION, "object_replication_time", "object_replication_last")


def _audits(kind: str) -> tuple[str, ...]:
    names = ("audits_passed", "auditor_pass_completed", "audits_since", "audits_failed")
    return tuple(f"{kind}_{name}" for name in names)


#: Path -> the file of a background process, and the keys in it that are shown.
_REPORTED: dict[str, tuple[str, Sequence[str]]] = {
    "async": ("object", ("async_pending", "async_pending_last")),
    "auditor/account": ("account", _audits("account")),
    "auditor/container": ("container", _audits("container")),
    "auditor/object": ("object", ("object_auditor_stats_ALL", "object_auditor_stats_ZBF")),
    "driveaudit": ("drive", ("drive_audit_errors",)),
    "expirer/object": ("object", ("object_expiration_pass", "expired_last_pass")),
    "lifecycle/object": ("object", ("object_lifecycle",)),
    "reconciler/container": (
        "container",
        ("reconciler_last", "reconciler_time", "reconciler_stats", "reconciler_waits_for"),
    ),
    "reconstruction/object": (
        "object",
        ("object_reconstruction_last", "object_reconstruction_time"),
    ),
    "relinker": ("relinker", ("devices", "workers")),
    "replication": ("object", _OBJECT_REPLICATION),
    "replication/account": ("account", _REPLICATION),
    "replication/container": ("container", _REPLICATION),
    "replication/object": ("object", _OBJECT_REPLICATION),
    "sharding": ("container", ("sharding_stats", "sharding_time", "sharding_last")),
    "updater/container": ("container", ("container_updater_sweep",)),
    "updater/object": (
        "object",
        ("object_updater_sweep", "object_updater_stats", "object_updater_last"),
    ),
}


@dataclass(frozen=True)
class ReconOptions:
    """``[filter:recon]``."""

    recon_cache_path: str = option(
        DEFAULT_PATH, "Directory to which background processes write their figures"
    )


class Recon:
    """The filter."""

    def __init__(
        self, app: WSGIApp, options: ReconOptions, swift_dir: str, devices: Devices
    ) -> None:
        self.app = app
        self._cache_path = options.recon_cache_path
        self._swift_dir = swift_dir
        self._devices = devices
        self._figures: dict[str, Callable[[], Any]] = {
            "devices": lambda: {devices.folder: devices.names()},
            "diskusage": devices.usage,
            "load": load,
            "mem": memory,
            "mounted": mounts,
            "quarantined": devices.quarantined,
            "ringmd5": lambda: ring_digests(swift_dir),
            "sockstat": sockets,
            "swiftconfmd5": self._conf_digest,
            "time": time.time,
            "unmounted": devices.unmounted,
            "version": lambda: {"version": RUNNING},
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer paths below /recon/, with 404 or 405 for an unknown figure or method."""
        path: str = environ["PATH_INFO"]
        if not path.startswith(_PREFIX):
            return self.app(environ, start_response)
        return self._answer(environ["REQUEST_METHOD"], path)(environ, start_response)

    def _answer(self, method: str, path: str) -> Response:
        plain = {"Content-Type": "text/plain"}
        if method not in ("GET", "HEAD"):
            return Response(405, {"Allow": "GET, HEAD", **plain}, "Only GET is answered here.")
        name = path.removeprefix(_PREFIX).rstrip("/")
        if name not in self._figures and name not in _REPORTED:
            return Response(404, plain, f"Invalid path: {path}".encode("latin-1"))
        try:
            shown = self._figures[name]() if name in self._figures else self._reported(name)
        except (OSError, ValueError) as error:
            log.error("event=recon_failed path=%s error=%r", ascii(path), str(error))
            return Response(500, plain, "Internal server error.")
        return Response(200, {"Content-Type": "application/json"}, json.dumps(shown))

    def _reported(self, name: str) -> dict[str, Any]:
        kind, keys = _REPORTED[name]
        return read_figures(self._cache_path, kind, keys)

    def _conf_digest(self) -> dict[str, str]:
        path = os.path.join(self._swift_dir, CONF_NAME)
        digest = file_digest(path)
        return {path: digest, _SWIFT_CONF: digest}


def filter_factory(global_conf: Mapping[str, str], **local_conf: str) -> Callable[[WSGIApp], Recon]:
    """PasteDeploy's entry point; ``devices``, ``mount_check``, ``swift_dir`` are in [DEFAULT].

    :raises ConfigError: an option cannot be used.
    """
    where = f"{global_conf.get('__file__', '')} [filter:recon]".strip()
    options = load_options(ReconOptions, local_conf, where)
    folder = global_conf.get("devices", "/srv/node")
    devices = Devices(folder, parse_bool(global_conf.get("mount_check", "true")))
    swift_dir = global_conf.get("swift_dir", "/etc/martlet")
    return lambda app: Recon(app, options, swift_dir, devices)
