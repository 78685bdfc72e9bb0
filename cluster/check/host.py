# SPDX-License-Identifier: Apache-2.0
"""The host itself: its clock, its limits, and the files that hold secrets."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

from cluster.check.finding import Finding, error, warning
from cluster.confs import TRIAL_USERS
from martlet.conf.cluster import CONF_NAME
from martlet.conf.options import ConfigError, read_ini

#: Of adjtimex: the clock is not synchronized.
_TIME_ERROR = 5
_OPEN_FILES_MIN = 65536
_SECRET_MIN = 32
#: Words of samples and manuals that end up in confs.
_WELL_KNOWN = {"changeme", "change-me", "password", "secret", "swift", "martlet", "testing"}
_PERSONAL = re.compile(r"user_|.*(secret|password|key)", re.IGNORECASE)


def check_clock() -> Iterator[Finding]:
    """The kernel knows whether a program keeps its clock synchronized."""
    timex = ctypes.create_string_buffer(512)  # struct timex, all zeros: only read
    state = ctypes.CDLL(None, use_errno=True).adjtimex(timex)
    if state == _TIME_ERROR:
        yield warning(
            "clock", "is not synchronized: run chrony or another client of NTP; newest wins"
        )


def check_open_files() -> Iterator[Finding]:
    """The limit of this shell is the one that a service started from it has."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _OPEN_FILES_MIN:
        yield warning(
            "open files",
            f"the hard limit is {hard}; a storage server needs {_OPEN_FILES_MIN} (LimitNOFILE)",
        )


def check_secrets(swift_dir: Path, confs: list[Path]) -> Iterator[Finding]:
    """Secrets are long, are not those of a manual, and other users cannot read them."""
    cluster = swift_dir / CONF_NAME
    yield from _check_cluster_secrets(cluster)
    for path in [cluster, *confs]:
        try:
            mode = path.stat().st_mode
        except OSError:
            continue  # the services have said so
        if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP) and _has_secret(path):
            shown = stat.filemode(mode)
            yield error(path, f"has secrets, and its mode is {shown}: chmod 0640")
        yield from _check_users(path)


def _check_cluster_secrets(path: Path) -> Iterator[Finding]:
    try:
        parser = read_ini(path, encoding="latin-1")
    except ConfigError as problem:
        yield error(path, str(problem))
        return
    secret = parser.get("grid", "grid_secret", fallback="")
    if secret == "none":  # noqa: S105 - the word that turns proofs off
        yield warning(path, "grid_secret = none: any program that reaches a storage port is served")
    elif secret and len(secret) < _SECRET_MIN:
        yield warning(path, f"grid_secret has {len(secret)} characters: openssl rand -hex 32")
    for name in ("swift_hash_path_prefix", "swift_hash_path_suffix"):
        if parser.get("swift-hash", name, fallback="").lower() in _WELL_KNOWN:
            yield error(path, f"{name} is well known: choose another before the first PUT")


def _has_secret(path: Path) -> bool:
    try:
        parser = read_ini(path, encoding="latin-1")
    except ConfigError:
        return False
    names = [name for section in parser.sections() for name in parser[section]]
    return path.name == CONF_NAME or any(map(_PERSONAL.match, names))


def _check_users(path: Path) -> Iterator[Finding]:
    """Users of `martlet up`, whose keys are in its source."""
    try:
        parser = read_ini(path, encoding="latin-1")
    except ConfigError:
        return
    trial = {
        f"user_{name.replace(':', '_')}": value.split()[0] for name, value in TRIAL_USERS.items()
    }
    for section in parser.sections():
        for name, value in parser[section].items():
            key = value.split()[0] if value.split() else ""
            if name.startswith("user_") and (key in _WELL_KNOWN or trial.get(name) == key):
                yield error(path, f"{name} has a key that is well known")


def check_recon_cache(folder: Path, uid: int) -> Iterator[Finding]:
    """Background jobs write their figures there."""
    if not folder.is_dir():
        yield warning(folder, "does not exist: background jobs cannot show their figures")
    elif folder.stat().st_uid != uid and os.geteuid() != uid:
        yield warning(folder, "belongs to another user than the services")
