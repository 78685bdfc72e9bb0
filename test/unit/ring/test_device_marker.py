# SPDX-License-Identifier: Apache-2.0
"""Which directory may be used as a device: as the object server decides it, byte for byte."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from martlet.conf.cluster import HashOptions
from ring.device_marker import KNOWN_FOLDER, MARKER_NAME, DeviceMarkers, Marker, read_marker

_TEMPORARY = Path(tempfile.gettempdir())

GOLDEN = Path(__file__).parents[2] / "golden" / "device-marker"
SALTS = HashOptions("pre\xffix", "suffix")


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "devices" / "d1"
    path.mkdir(parents=True)
    return path


def problem(device: Path, mount_check: bool = False, salts: HashOptions = SALTS) -> str:
    return DeviceMarkers(salts, mount_check).problem(str(device)) or ""


def test_the_marker_is_the_same_in_both_languages(device: Path) -> None:
    assert problem(device) == ""
    for path in (device / MARKER_NAME, device.parent / KNOWN_FOLDER / "d1"):
        assert path.read_bytes() == GOLDEN.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_mount_point_is_not_taken_for_the_device(device: Path) -> None:
    assert problem(device) == ""
    away = device.rename(device.with_name("away"))
    device.mkdir()
    assert f"was in use and has no {MARKER_NAME}" in problem(device)
    (device / "containers").mkdir()  # by a write that was under way
    assert f"was in use and has no {MARKER_NAME}" in problem(device)
    DeviceMarkers(SALTS, False).adopt(str(device))
    assert problem(device) == ""
    assert "is device d1 of cluster" in problem(away)


def test_a_mounted_empty_device_is_new(device: Path) -> None:
    assert problem(device, mount_check=True) == ""
    (device / MARKER_NAME).unlink()
    assert problem(device, mount_check=True) == ""
    assert not (device.parent / KNOWN_FOLDER).exists()


@pytest.mark.parametrize("rotten", [b"", b"\0\0", b"{}", b'{"cluster": 1}', b"[]", b"\xff"])
def test_a_rotten_marker_is_written_anew(device: Path, rotten: bytes) -> None:
    (device / "containers").mkdir()
    assert problem(device) == ""
    (device / MARKER_NAME).write_bytes(rotten)
    assert problem(device) == ""
    assert read_marker(str(device / MARKER_NAME)) == Marker(*read_golden())


def read_golden() -> Marker:
    found = read_marker(str(GOLDEN))
    assert found is not None
    return found


def test_a_device_of_another_name_or_cluster_is_refused(device: Path) -> None:
    assert problem(device, mount_check=True) == ""
    assert "is device d1 of" in problem(device, True, HashOptions("", "other"))
    assert problem(device, mount_check=True) == ""
    assert ", not d2 of" in problem(device.rename(device.with_name("d2")), mount_check=True)


def test_a_full_device_gets_neither_marker_nor_copy(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_file(path: Path, *_: object, **__: object) -> None:
        if path.parent == device:
            raise OSError(errno.ENOSPC, "full", str(path))
        path.touch()

    monkeypatch.setattr("ring.device_marker.replace_file", replace_file)
    assert problem(device) == ""
    assert not (device.parent / KNOWN_FOLDER / "d1").exists()


def test_where_no_copy_can_be_kept_the_device_is_used(device: Path) -> None:
    (device.parent / KNOWN_FOLDER).write_text("")
    assert problem(device) == ""


# Root may write anywhere: the check is made by a process of another user.
_AS_OTHER_USER = """
import os, sys
from storage.device_check import _refusal_of_access
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(_refusal_of_access(sys.argv[1]))
"""


@pytest.mark.parametrize("closed", [".", "containers"])
def test_a_device_of_another_user_is_refused(device: Path, closed: str) -> None:
    (device / "containers").mkdir()
    for parent in (device, *device.parents):
        if parent.is_relative_to(_TEMPORARY) and parent != _TEMPORARY:
            parent.chmod(parent.stat().st_mode | 0o055)

    def refusal() -> str:
        command = [sys.executable, "-c", _AS_OTHER_USER, str(device)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for part in (".", "containers"):
        (device / part).chmod(0o777)
    assert refusal() == "\n"
    (device / closed).chmod(0o555)
    assert "may not write to it" in refusal()
