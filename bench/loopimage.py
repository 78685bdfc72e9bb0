# SPDX-License-Identifier: Apache-2.0
"""File systems on loop devices, whose device counters are for one benchmark alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAKE = {"xfs": ["mkfs.xfs", "-q"], "ext4": ["mkfs.ext4", "-q", "-F"], "btrfs": ["mkfs.btrfs", "-q"]}


class LoopUnavailableError(Exception):
    """This machine or this user cannot have a loop device; the message has the reason."""


@contextmanager
def loop_image(scratch: Path, file_system: str, size: int) -> Iterator[Path]:
    """Mount a new file system of ``size`` bytes while the block runs; yield its directory.

    The image is sparse. Reads and writes of the loop device bypass the page cache of the underlying
    file system if possible, so that nothing is cached twice.
    """
    if os.geteuid() != 0:
        raise LoopUnavailableError("loop devices need root")
    command = MAKE[file_system]
    if not shutil.which(command[0]):
        raise LoopUnavailableError(f"{command[0]} is not installed")
    image, mount = scratch / f"{file_system}.img", scratch / file_system
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    try:
        _run(*command, str(image))
        device = _attach(image)
        try:
            _run("mount", device, str(mount))
            try:
                yield mount
            finally:
                _run("umount", str(mount))
        finally:
            _run("losetup", "--detach", device)
    finally:
        image.unlink()
        mount.rmdir()


def _attach(image: Path) -> str:
    try:
        return _run("losetup", "--find", "--show", "--direct-io=on", str(image))
    except LoopUnavailableError:
        return _run("losetup", "--find", "--show", str(image))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoopUnavailableError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()
