# SPDX-License-Identifier: Apache-2.0
"""Messages of `martlet up` before it starts a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.layout import Home, Layout
from cluster.up import say_refused_devices


def test_a_device_that_was_emptied_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, layout = Home(tmp_path), Layout.create(2)
    for directory in home.directories(layout):
        directory.mkdir(parents=True, exist_ok=True)
    (home.etc / "martlet.conf").write_text("[swift-hash]\nswift_hash_path_suffix = s\n")
    say_refused_devices(home, layout)
    assert capsys.readouterr().out == ""
    node = layout.nodes[1]
    emptied = home.node_devices(layout, node) / node.devices[0]
    (emptied / "martlet-device").unlink()
    say_refused_devices(home, layout)
    said = capsys.readouterr().out
    assert said.startswith(f"martlet: {emptied} cannot be used: it was in use and has no")
    assert said.count("\n") == 1
