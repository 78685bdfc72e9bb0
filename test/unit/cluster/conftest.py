"""Directories with martlet.conf and rings, for commands that look at a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ring.builder import RingBuilder
from ring.file_format import encode_ring


@pytest.fixture
def swift_dir(tmp_path: Path) -> Callable[..., Path]:
    """Write martlet.conf and rings with one device at each port; the zones are 1, 2, ..."""

    def write(power: int = 1, replicas: float = 1, **ports: list[int]) -> Path:
        (tmp_path / "martlet.conf").write_text(
            "[swift-hash]\nswift_hash_path_suffix = s\n[grid]\ngrid_secret = none\n"
            "[storage-policy:0]\nname = gold\ndefault = yes\n[storage-policy:1]\nname = silver\n"
        )
        names = {"account": [1], "container": [2], "object": [3], "object_1": [4], **ports}
        for name, numbers in names.items():
            builder = RingBuilder.create(power, replicas, 0)
            for zone, port in enumerate(numbers, 1):
                builder.add_device(
                    {
                        **{"region": 1, "zone": zone, "ip": "127.0.0.1", "port": port},
                        **{"device": f"d{zone}", "weight": 1.0},
                    }
                )
            builder.rebalance()
            file = f"{name.replace('_', '-')}.ring.gz"
            (tmp_path / file).write_bytes(encode_ring(builder.ring_data(), file, 1))
        return tmp_path

    return write
