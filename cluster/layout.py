# SPDX-License-Identifier: Apache-2.0
"""The layout of a cluster: nodes, devices, zones, ports, hash suffix and secret: ``cluster.json``.

The file is written when the home directory is first used, and read by every later start. Only ports
change after that; a cluster of an earlier release gets a secret. This module alone defines the
paths under the home directory.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from cluster.ports import PortPicker
from ring.files import replace_file

#: Version of ``cluster.json`` and of the directories around it; a newer one is refused.
FORMAT = 2
LAYOUT_NAME = "cluster.json"
#: The storage services of a node; each has its own ring, conf and port.
KINDS = ("account", "container", "object")
#: Three replicas and one device for hand-offs.
DEVICE_COUNT_MIN = 4
NODE_COUNT_MAX = 64


@dataclass(frozen=True)
class StorageNode:
    """One account, one container and one object server that share their devices and their zone."""

    name: str
    zone: int
    devices: tuple[str, ...]
    ports: Mapping[str, int]


@dataclass(frozen=True)
class Layout:
    """The whole cluster. ``hash_suffix`` places the data and may never change.

    ``grid_secret`` is the first secret of the cluster; ``martlet.conf`` has the one in use.
    """

    nodes: tuple[StorageNode, ...]
    hash_suffix: str
    proxy_port: int = 0
    grid_secret: str = field(default="", repr=False)
    format: int = FORMAT

    @classmethod
    def create(cls, node_count: int) -> Layout:
        """Create a new cluster with its own hash suffix and secret, without ports.

        :raises ClusterError: the number of nodes is out of range.
        """
        if not 1 <= node_count <= NODE_COUNT_MAX:
            raise ClusterError(f"--nodes must be from 1 to {NODE_COUNT_MAX}, not {node_count}")
        per_node = -(-DEVICE_COUNT_MIN // node_count)
        nodes = []
        for index in range(node_count):
            first = index * per_node + 1
            devices = tuple(f"d{number}" for number in range(first, first + per_node))
            nodes.append(StorageNode(f"node{index + 1}", index + 1, devices, {}))
        return cls(tuple(nodes), secrets.token_hex(16)).with_secret()

    def with_secret(self) -> Layout:
        """The layout in the present format, with a secret."""
        secret = self.grid_secret or secrets.token_hex(32)
        return replace(self, grid_secret=secret, format=FORMAT)

    def with_ports(self, proxy_port: int, picker: PortPicker) -> Layout:
        """The layout with free ports; those of the last start are kept if they are free."""
        nodes = tuple(
            replace(
                node,
                ports={kind: picker.keep_or_pick(node.ports.get(kind, 0)) for kind in KINDS},
            )
            for node in self.nodes
        )
        return replace(self, nodes=nodes, proxy_port=proxy_port)

    @property
    def device_count(self) -> int:
        """The number of devices of all nodes."""
        return sum(len(node.devices) for node in self.nodes)


@dataclass(frozen=True)
class Home:
    """The directory of a whole cluster (``MARTLET_HOME``)."""

    root: Path

    @property
    def layout_path(self) -> Path:
        return self.root / LAYOUT_NAME

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def node_etc(self, layout: Layout, node: StorageNode) -> Path:
        """The directory of a node's confs."""
        return self.etc if len(layout.nodes) == 1 else self.etc / node.name

    def node_devices(self, layout: Layout, node: StorageNode) -> Path:
        """The directory of a node's devices."""
        devices = self.root / "devices"
        return devices if len(layout.nodes) == 1 else devices / node.name

    def node_run(self, node: StorageNode) -> Path:
        """The directory of the lock and the status of a node's background jobs."""
        return self.run / f"background-{node.name}"

    def directories(self, layout: Layout) -> Iterator[Path]:
        """Every directory that a start needs, outer ones first."""
        yield from (self.etc, self.logs, self.run)
        for node in layout.nodes:
            yield self.node_etc(layout, node)
            yield self.node_run(node)
            yield from (self.node_devices(layout, node) / device for device in node.devices)

    def read_layout(self) -> Layout | None:
        """Read the layout; None if there is no cluster yet.

        :raises ClusterError: it cannot be read, is damaged, or is of a newer format.
        """
        try:
            stored = json.loads(self.layout_path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ClusterError(f"cannot read {self.layout_path}: {error.strerror}") from None
        except ValueError:
            raise ClusterError(f"{self.layout_path} is damaged: it is not JSON") from None
        return self._parse(stored)

    def _parse(self, stored: Any) -> Layout:
        found = stored.get("format") if isinstance(stored, dict) else None
        if not isinstance(found, int):
            raise ClusterError(f"{self.layout_path} is damaged: it names no format")
        if found > FORMAT:
            raise ClusterError(
                f"{self.root} was made by a newer martlet (format {found}, this one knows "
                f"{FORMAT}): use the newer martlet or another MARTLET_HOME"
            )
        try:
            nodes = [StorageNode(**{**n, "devices": tuple(n["devices"])}) for n in stored["nodes"]]
            layout = Layout(**{**stored, "nodes": tuple(nodes)})
        except (KeyError, TypeError) as error:
            raise ClusterError(f"{self.layout_path} is damaged: {error}") from None
        if not layout.nodes:
            raise ClusterError(f"{self.layout_path} is damaged: it names no node")
        return layout

    def write_layout(self, layout: Layout) -> None:
        """Write the layout; a crash leaves the old file or the new one, whole."""
        write_atomically(self.layout_path, json.dumps(asdict(layout), indent=2) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file, readable by its owner only, so that a crash leaves the old or the new text.

    :raises ClusterError: the file cannot be written.
    """
    try:
        replace_file(path, text.encode(), mode=0o600)
    except OSError as error:
        raise ClusterError(f"cannot write {path}: {error.strerror}") from None
