# SPDX-License-Identifier: Apache-2.0
"""The atomic replacement of a file: a crash leaves either the old or the new one, whole."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path


def replace_file(
    path: Path, content: bytes, mode: int | None = None, like: Path | None = None
) -> None:
    """Replace ``path`` by a file with ``content``, durably.

    The steps: write to a temporary file beside it, fsync, rename, fsync of the folder. A crash
    before the rename leaves the old file and perhaps an unused ``.<name>.*`` file.

    Without ``mode`` the file keeps owner, group and mode of the file it replaces, or of ``like``.
    If neither exists, the umask decides the mode.

    :raises OSError: names ``path``; nothing was replaced.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                else:
                    make_like(file.fileno(), like or path)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        sync_folder(path.parent)
    except OSError as error:
        # The caller does not know the temporary name.
        raise OSError(error.errno, error.strerror, str(path)) from error


def make_like(handle: int, model: Path) -> None:
    """Give an open file the owner, group and mode of ``model``, as far as this user may.

    Nothing changes if ``model`` does not exist, or if the file belongs to another user.
    """
    try:
        wanted = model.stat()
    except OSError:
        return
    if os.geteuid() not in (0, os.fstat(handle).st_uid):
        return
    for owner in (wanted.st_uid, -1):  # a user may change the group even if not the owner
        try:
            os.fchown(handle, owner, wanted.st_gid)
            break
        except PermissionError:
            continue
    os.fchmod(handle, stat.S_IMODE(wanted.st_mode))


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
