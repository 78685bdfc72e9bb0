"""A pass of the expirer over the queue of a cluster with one node."""

from __future__ import annotations

from forked_passes import Pass, total_figures
from running_cluster import RunningCluster


def expire(cluster: RunningCluster) -> dict[str, float]:
    """Run a pass; return its figures that are not zero."""
    conf = str(cluster.home / "etc" / "object-server.conf")
    found = total_figures([Pass("replicator.expirer.command", conf, "--once", "--json")])
    return {name: value for name, value in found.items() if value}
