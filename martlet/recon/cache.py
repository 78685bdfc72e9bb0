# SPDX-License-Identifier: Apache-2.0
"""The figures of background programs, in the files that servers show under /recon/.

The form is that of OpenStack Swift's recon cache; object-server/reconcache is the same in Go. A
reader finds a whole file. Programs that write to one file at the same time lose none of each
other's keys. The files are not synced: after a power cut figures are gone, and come again.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import IO, Any

from martlet.log import fields, get_logger

DEFAULT_PATH = "/var/cache/martlet"

#: Longest wait for another program that writes to the same file, seconds.
LOCK_SECONDS = 2.0
_LOCK_PAUSE_SECONDS = 0.01

_log = get_logger("martlet.recon")


def read_figures(directory: str, kind: str, keys: Iterable[str]) -> dict[str, Any]:
    """The figures of a kind of server under these keys; None for one that was never written."""
    try:
        with open(_path(directory, kind), encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):  # there is no report yet
        found = {}
    if not isinstance(found, dict):
        found = {}
    return {key: found.get(key) for key in keys}


def write_figures(directory: str, kind: str, figures: Mapping[str, Any]) -> None:
    """Do as ``update_figures``, for work that goes on without: each error is logged once."""
    try:
        update_figures(directory, kind, figures)
    except OSError as error:
        _warn_once(directory, str(error))


@cache
def _warn_once(directory: str, error: str) -> None:
    _log.warning(
        "figures for recon cannot be written %s", fields(recon_cache_path=directory, error=error)
    )


def update_figures(directory: str, kind: str, figures: Mapping[str, Any]) -> None:
    """Set figures: those of a map are added to the map that is there; an empty map removes a key.

    :raises OSError: the file cannot be written, or another program holds its lock.
    """
    os.makedirs(directory, exist_ok=True)
    path = _path(directory, kind)
    with _locked(path) as stream:
        try:
            entries = json.load(stream)
        except ValueError:  # it is new, or damaged
            entries = {}
        if not isinstance(entries, dict):
            entries = {}
        for key, value in figures.items():
            _merge(entries, key, value)
        _replace(path, json.dumps(entries, sort_keys=True) + "\n")


def _path(directory: str, kind: str) -> str:
    return os.path.join(directory, f"{kind}.recon")


def _merge(entries: dict[str, Any], key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        entries[key] = value
    elif not value:
        entries.pop(key, None)
    else:
        before = entries.get(key)
        merged = {**(before if isinstance(before, dict) else {}), **value}
        entries[key] = {name: one for name, one in merged.items() if one != {}}


@contextmanager
def _locked(path: str) -> Iterator[IO[str]]:
    """The file of the path, which may be new, with its lock.

    :raises OSError: it cannot be opened, or another program holds the lock.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        with open(path, "a+", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another program may have replaced the file before it was locked.
                if _is_current(stream, path):
                    stream.seek(0)
                    yield stream
                    return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
        time.sleep(_LOCK_PAUSE_SECONDS)


def _is_current(stream: IO[str], path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _replace(path: str, text: str) -> None:
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f"{name}.new-", dir=folder)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
