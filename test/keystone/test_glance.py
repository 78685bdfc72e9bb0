"""Glance stores images through its own driver, which finds martlet in Keystone's catalogue."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from real_keystone import HOST, PASSWORD


def test_images_are_stored_read_and_deleted(programs: Path, tenants: Any) -> None:
    tenants.keystone.publish("object-store", f"http://{HOST}:{tenants.port}/v1/AUTH_$(project_id)s")
    script = Path(__file__).with_name("glance_images.py")
    login = [f"{tenants.keystone.url}/v3", "blue:ann", PASSWORD]
    done = subprocess.run(
        [programs / "python", script, *login], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("stored, read, measured, deleted") == 2
    tenants.open("ann", "blue").await_names([], "glance")
