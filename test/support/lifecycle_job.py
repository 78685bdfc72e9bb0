"""Passes of the lifecycle job over a cluster, with a second in place of a day."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

from running_cluster import RunningCluster

from martlet.service.programs import find_object_server


class Job:
    """Passes over all devices of a cluster, one at a time."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.confs: list[Path] = []
        self.done: Counter[str] = Counter()
        for conf in (cluster.home / "etc").rglob("object-server.conf"):
            copy = conf.with_name("lifecycle-of-a-test.conf")
            fast = "[object-lifecycle]\nday_seconds = 1\nbytes_per_second = 0\n"
            copy.write_text(conf.read_text().replace("[object-lifecycle]\n", fast))
            self.confs.append(copy)

    def run(self) -> None:
        for conf in self.confs:
            command = [find_object_server(), "lifecycle", str(conf), "--once", "--json"]
            ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            self.done.update(json.loads(ended.stdout))

    def ran(self) -> bool:
        """Make a pass."""
        self.run()
        return True
