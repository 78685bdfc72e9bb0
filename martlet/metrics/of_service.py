# SPDX-License-Identifier: Apache-2.0
"""All metrics of one service: made before its workers are forked, counted by each worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from martlet.conf.options import read_ini
from martlet.grid.plain_http import PlainHttp
from martlet.http.environ import WSGIApp
from martlet.metrics.host import HostCollector, HostFolders
from martlet.metrics.page import MetricsPage
from martlet.metrics.requests import CountedPipeline, requests
from martlet.metrics.service import GAUGE_KIND, ServiceCollector, gauge_rows, worker_gauges
from martlet.metrics.shared import SharedTable
from martlet.metrics.sums import HasSums, WorkerSums
from martlet.recon.cache import DEFAULT_PATH
from martlet.recon.figures import Devices

#: How often a worker shows its gauges to the others, seconds.
_GAUGE_SECONDS = 2.0


class ServiceMetrics:
    """The metrics of one service.

    :param name: of the service, as ``martlet-proxy-server``.
    :param readers: the addresses that may read them.
    :param devices: None: the service has none.
    """

    def __init__(
        self,
        name: str,
        conf_path: Path,
        swift_dir: str,
        readers: PlainHttp,
        devices: Devices | None,
    ) -> None:
        self._table = SharedTable.open()
        self._readers = readers
        self._counts_pipeline = devices is None
        kind = name.removeprefix("martlet-").removesuffix("-server")
        folders = HostFolders(kind, swift_dir, _recon_cache(conf_path))
        self._registry = CollectorRegistry()
        self._registry.register(ServiceCollector(kind, self._table))
        self._registry.register(HostCollector(folders, devices))

    def in_front_of(self, app: WSGIApp) -> WSGIApp:
        """The pipeline with its page. Storage services count requests themselves."""
        counted = CountedPipeline(app) if self._counts_pipeline else app
        return MetricsPage(counted, self._registry, self._readers)

    def start_worker(
        self,
        app: WSGIApp,
        spawn: Callable[[Callable[[], None]], Any],
        sleep: Callable[[float], Any],
    ) -> None:
        """Let this process count in a region of its own."""
        region = self._table.claim()
        requests.use(region)
        sums = WorkerSums(self._table, region, app) if isinstance(app, HasSums) else None
        if sums is not None:
            app.use_sums(sums.sums)

        def show_gauges() -> None:
            while True:
                region.set_all(f"{GAUGE_KIND} ", gauge_rows(worker_gauges(app)))
                if sums is not None:
                    sums.show()
                sleep(_GAUGE_SECONDS)

        spawn(show_gauges)


def _recon_cache(conf_path: Path) -> str:
    return read_ini(conf_path).get("filter:recon", "recon_cache_path", fallback=DEFAULT_PATH)
