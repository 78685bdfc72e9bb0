# SPDX-License-Identifier: Apache-2.0
"""The path of a database, the durable creation of a new one, and the quarantine of a damaged one.

    <devices>/<device>/<kind>/<partition>/<last 3 digits of hash>/<hash>/<hash>.db

``kind`` is ``accounts`` or ``containers``. A new database is written to
``<device>/tmp/<hash>.<random>``, fsynced, and linked to its name. Then every directory of its path
is fsynced. A crash before the link leaves a file in tmp that is never read. A crash after the link
leaves a whole database whose directory entry may be lost; its request was not acknowledged, and
will be repeated.

Databases contain keys of temporary URLs and of container sync, and ACLs. So files are created with
mode 0600 and directories with 0700, whatever the umask is. SQLite gives its log the same mode.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable
from typing import TypeVar

from storage.errors import DatabaseExists

T = TypeVar("T")

#: The first part of the names of removed databases in ``tmp``.
SET_ASIDE = "removed-"


def database_path(device_path: str, kind: str, partition: str, hexdigest: str) -> str:
    """The file of the database whose name hashes to ``hexdigest`` (32 digits)."""
    return f"{device_path}/{kind}/{partition}/{hexdigest[-3:]}/{hexdigest}/{hexdigest}.db"


def device_path_of(path: str) -> str:
    """The directory of the device of a database."""
    return os.path.dirname(os.path.dirname(_partition_directory(path)))


def _partition_directory(path: str) -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(path)))


def entries(directory: str) -> list[str]:
    """The names in a directory, sorted; empty if it is missing or cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def create_durably(path: str, build: Callable[[str], T]) -> T:
    """Create a database at ``path``; ``build`` writes the whole file to the path that it gets.

    On return the file and its name are durable. Returns the result of ``build``.

    :raises DatabaseExists: another process created it first; its file is unchanged.
    :raises OSError: nothing was created.
    """
    directory = os.path.dirname(path)
    scratch = f"{device_path_of(path)}/tmp"
    temporary = f"{scratch}/{os.path.basename(path)[:-3]}.{secrets.token_hex(8)}"
    make_private_directory(scratch)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        result = build(temporary)
        _fsync(temporary)
        _link(temporary, path)
    except FileExistsError:
        raise DatabaseExists(path) from None
    finally:
        _unlink(temporary)
    # Existing directories are fsynced, too: their creator may not have done so yet.
    for _ in range(5):
        _fsync(directory)
        directory = os.path.dirname(directory)
    return result


def _link(temporary: str, path: str) -> None:
    """Link a file to its path; another process may remove empty directories in between."""
    for tries_left in (2, 1, 0):
        make_private_directory(os.path.dirname(path))
        try:
            os.link(temporary, path)
            return
        except FileNotFoundError:
            if not tries_left:
                raise


def make_private_directory(path: str) -> None:
    """Create a directory with mode 0700, and the missing ones above it."""
    if os.path.isdir(path):
        return
    make_private_directory(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):  # another request was faster
        os.mkdir(path, 0o700)


def quarantine(path: str) -> str | None:
    """Move the directory of a damaged database to ``<device>/quarantined/<kind>/``.

    Nothing is deleted: an operator can examine it, and the data is restored from a replica. Returns
    the new directory, or None if another process has moved it already.
    """
    directory = os.path.dirname(path)
    kind = os.path.basename(os.path.dirname(_partition_directory(path)))
    shelf = f"{device_path_of(path)}/quarantined/{kind}"
    make_private_directory(shelf)
    target = f"{shelf}/{os.path.basename(directory)}"
    if os.path.lexists(target):
        target = f"{target}-{secrets.token_hex(8)}"
    try:
        os.rename(directory, target)
    except FileNotFoundError:
        return None
    _fsync(os.path.dirname(directory))
    _fsync(shelf)
    return target


def set_aside(path: str) -> None:
    """Move the directory of a database to ``tmp`` of its device, durably and in one step.

    The database is gone from its path then. A file by itself must not be unlinked: a log that is
    left behind would be replayed into the next database of that name. Nothing reads the directory
    in ``tmp``; ``clear_set_aside`` deletes it, after a crash a later call.

    :raises OSError: the directory is still in its place, or its removal may not be durable.
    """
    directory = os.path.dirname(path)
    scratch = f"{device_path_of(path)}/tmp"
    make_private_directory(scratch)
    name = f"{SET_ASIDE}{os.path.basename(directory)}.{secrets.token_hex(8)}"
    os.rename(directory, f"{scratch}/{name}")
    _fsync(os.path.dirname(directory))
    _fsync(scratch)


def clear_set_aside(device_path: str) -> None:
    """Delete what ``set_aside`` has left in ``tmp`` of a device."""
    for name in entries(f"{device_path}/tmp"):
        if name.startswith(SET_ASIDE):
            shutil.rmtree(f"{device_path}/tmp/{name}", ignore_errors=True)


def remove_empty_parents(path: str) -> None:
    """Remove the directories of the suffix and the partition of a removed database, if empty."""
    remove_empty_directories(os.path.dirname(os.path.dirname(path)), 2)


def remove_empty_directories(directory: str, levels: int) -> None:
    """Remove a directory if it is empty, and those above it, up to a number of ``levels``."""
    for _ in range(levels):
        try:
            os.rmdir(directory)
        except OSError:
            return  # something is in it, or another process was faster
        directory = os.path.dirname(directory)


def _fsync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # build failed before it created the file
