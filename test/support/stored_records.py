# SPDX-License-Identifier: Apache-2.0
"""The records of an object on the devices of a cluster, as `martlet object-info` reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from running_cluster import RunningCluster

from cluster.errors import ClusterError
from cluster.object_info import Question, object_info


def stored_kinds(running: RunningCluster, names: tuple[str, str, str]) -> Iterator[tuple[str, str]]:
    """Yield the folder of its policy and the kind of the record, of each device that has one."""
    for segment in sorted((running.home / "devices").rglob("*.bundle")):
        try:
            question = Question(segment, True, None, None, "/" + "/".join(names))
            report: Any = object_info(question)[0]
        except ClusterError:
            continue  # it does not hold it
        folder = segment.relative_to(running.home / "devices").parts[1]
        yield folder, str(report["kind"]).split()[0]
