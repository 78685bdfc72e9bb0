"""A further proxy server of a running cluster, with its own pipeline."""

from __future__ import annotations

import socket
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from running_cluster import RunningCluster, await_true, free_port

from cluster.ports import HOST
from martlet.conf.options import read_ini

_SERVER = str(Path(sysconfig.get_path("scripts")) / "martlet-proxy-server")


class OtherProxy:
    """A proxy that runs within ``with`` and accepts tokens of the cluster's own proxy.

    :param pipeline: the filters and the application.
    :param sections: added to the sections of the cluster's own proxy, or replacing them.
    :param base: a conf that replaces the conf of the cluster's own proxy.
    """

    def __init__(
        self,
        cluster: RunningCluster,
        directory: Path,
        pipeline: str,
        sections: Mapping[str, Mapping[str, str]],
        workers: int = 0,
        base: Path | None = None,
    ) -> None:
        self.port = free_port()
        self._conf = directory / f"proxy-{self.port}.conf"
        self._log = directory / f"proxy-{self.port}.log"
        parser = read_ini(base or cluster.home / "etc" / "proxy-server.conf")
        parser["DEFAULT"]["bind_port"] = str(self.port)
        parser["DEFAULT"]["workers"] = str(workers)
        parser["pipeline:main"]["pipeline"] = pipeline
        for name, options in sections.items():
            parser[name] = dict(options)
        with self._conf.open("w") as stream:
            parser.write(stream)

    def __enter__(self) -> OtherProxy:
        with self._log.open("wb") as log:
            self.process = subprocess.Popen([_SERVER, str(self._conf)], stderr=log, stdout=log)
        try:
            await_true(lambda: self._listens() or self.process.poll() is not None, "a proxy")
            assert self.process.poll() is None, self.log
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.terminate()
        self.process.wait(120)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """Return its log so far."""
        return self._log.read_text(errors="replace")
