# SPDX-License-Identifier: Apache-2.0
"""The rings of a cluster on one machine: made once; afterwards only ports follow the layout.

Each storage policy has its own object ring. Changes made with ``martlet-ring-builder`` are kept.
"""

from __future__ import annotations

from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import KINDS, Home, Layout
from cluster.policies import ClusterPolicies, object_ring_name
from cluster.ports import HOST
from ring.builder import RingBuilder
from ring.builder_file import load_builder, locked, save_builder
from ring.errors import RingError
from ring.file_format import encode_ring
from ring.files import replace_file

PART_POWER = 10
REPLICAS = 3.0
MIN_PART_HOURS = 1
#: The same seed for all: clusters with the same nodes have equal rings.
_SEED = "martlet"


def write_rings(home: Home, layout: Layout, policies: ClusterPolicies) -> None:
    """Update builder and ring files to the layout and the policies.

    A crash leaves each file old or new; the next start completes the update.

    :raises ClusterError: a file is damaged, locked, or cannot be written; a policy has another
        number of replicas than wanted, or more than there are devices.
    """
    for kind in KINDS:
        if kind != "object":
            _bring_up_to_date(home.etc / f"{kind}.builder", kind, layout, None)
    for policy in policies.policies:
        path = home.etc / f"{object_ring_name(policy.index)}.builder"
        _bring_up_to_date(path, "object", layout, policies.wanted_replicas.get(policy.index))


def _bring_up_to_date(
    builder_path: Path, kind: str, layout: Layout, replicas: float | None
) -> None:
    try:
        with locked(builder_path):
            _write_ring(kind, builder_path, layout, replicas)
    except RingError as error:
        where = "" if builder_path.name in str(error) else f"{builder_path}: "
        raise ClusterError(f"{where}{error}") from None
    except OSError as error:
        raise ClusterError(f"cannot write {builder_path}: {error.strerror}") from None


def _write_ring(kind: str, builder_path: Path, layout: Layout, replicas: float | None) -> None:
    ring_path = builder_path.with_name(f"{builder_path.stem}.ring.gz")
    if builder_path.exists():
        builder = load_builder(builder_path)
        if replicas is not None and replicas != builder.replicas:
            raise ClusterError(
                f"{builder_path} has {builder.replicas:g} replicas, not {replicas:g}: change them "
                "with `martlet-ring-builder set_replicas`"
            )
        changed = _follow_ports(kind, builder, layout)
    else:
        builder = _new_builder(kind, layout, REPLICAS if replicas is None else replicas)
        changed = True
    if changed:
        save_builder(builder, builder_path)
    if changed or not ring_path.exists():
        replace_file(ring_path, encode_ring(builder.ring_data(), ring_path.name))


def _new_builder(kind: str, layout: Layout, replicas: float) -> RingBuilder:
    builder = RingBuilder.create(PART_POWER, replicas, MIN_PART_HOURS)
    for node in layout.nodes:
        for device in node.devices:
            builder.add_device(
                {
                    "region": 1,
                    "zone": node.zone,
                    "ip": HOST,
                    "port": node.ports[kind],
                    "device": device,
                    "weight": 100.0,
                }
            )
    builder.rebalance(seed=_SEED)
    builder.validate()
    return builder


def _follow_ports(kind: str, builder: RingBuilder, layout: Layout) -> bool:
    """Give each device the present port of its server; return True if one has changed."""
    wanted = {device: node.ports[kind] for node in layout.nodes for device in node.devices}
    changed = False
    for device in builder.devices():
        port = wanted.get(device["device"], device["port"])
        if (device["port"], device["replication_port"]) != (port, port):
            device["port"] = device["replication_port"] = port
            changed = True
    if changed:
        builder.version += 1
    return changed
