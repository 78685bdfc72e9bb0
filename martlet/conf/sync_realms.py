# SPDX-License-Identifier: Apache-2.0
"""Realms of container sync: clusters that copy objects to each other, and their shared keys.

``container-sync-realms.conf`` is OpenStack Swift's: a section for each realm with ``key``,
``key2`` and ``cluster_<name> = <endpoint>/v1/``. Names of realms and clusters are
case-insensitive. The file may change while services run.
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from martlet.log import get_logger

CONF_NAME = "container-sync-realms.conf"
_CHECK_SECONDS = 300.0

log = get_logger("martlet.container_sync")


@dataclass(frozen=True)
class Realm:
    """``keys``: the signing key, then another accepted key; ``endpoints``: URLs by cluster."""

    keys: tuple[str, ...] = ()
    endpoints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SyncTarget:
    """The remote container: its URL; realm and key are empty if the client gave the URL itself."""

    url: str
    realm: str = ""
    key: str = ""


class SyncRealms:
    """The realms of the file; none if it is missing or damaged."""

    def __init__(self, swift_dir: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = os.path.join(swift_dir, CONF_NAME)
        self._clock = clock
        self._next_check = 0.0
        self._interval = _CHECK_SECONDS
        self._mtime_ns = 0
        self._realms: dict[str, Realm] = {}

    def all(self) -> Mapping[str, Realm]:
        """Realms by name, in capitals."""
        now = self._clock()
        if now >= self._next_check:
            self._look_for_change()
            self._next_check = now + self._interval
        return self._realms

    def _look_for_change(self) -> None:
        try:
            mtime_ns = os.stat(self._path).st_mtime_ns
        except OSError:
            mtime_ns = 0
        if mtime_ns == self._mtime_ns:
            return
        self._mtime_ns = mtime_ns
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(self._path, encoding="utf-8")
            self._interval = parser["DEFAULT"].getfloat("mtime_check_interval", _CHECK_SECONDS)
            self._realms = {name.upper(): _realm(parser[name]) for name in parser.sections()}
        except (configparser.Error, ValueError) as error:
            log.error("event=bad_realms path=%s error=%r", self._path, str(error))

    def parse(self, value: str, allowed_hosts: Collection[str]) -> SyncTarget:
        """Parse an ``X-Container-Sync-To``: ``//realm/cluster/account/container`` or a URL.

        :raises ValueError: the value is invalid; the message may be sent to the client.
        """
        value = value.rstrip("/")
        if value.startswith("//"):
            return self._in_realm(value)
        try:
            parts = urlsplit(value)
            host = parts.hostname or ""
        except ValueError:
            raise ValueError(f"Invalid X-Container-Sync-To {value!r}") from None
        if parts.scheme not in ("http", "https"):
            raise ValueError(
                f"Invalid scheme {parts.scheme!r} in X-Container-Sync-To,"
                ' must be "//", "http", or "https".'
            )
        if not parts.path or parts.query or parts.fragment:
            raise ValueError("X-Container-Sync-To needs a path, and no query or fragment")
        if host not in allowed_hosts:
            raise ValueError(f"Invalid host {host!r} in X-Container-Sync-To")
        return SyncTarget(value)

    def _in_realm(self, value: str) -> SyncTarget:
        names = value[2:].split("/")
        if len(names) != 4 or not all(names):
            raise ValueError(f"Invalid X-Container-Sync-To format {value!r}")
        realm_name, cluster, account, container = names
        realm = self.all().get(realm_name.upper(), Realm())
        if not realm.keys:
            raise ValueError(f"No realm key for {realm_name!r}")
        endpoint = realm.endpoints.get(cluster.upper())
        if not endpoint:
            raise ValueError(f"No cluster endpoint for {realm_name!r} {cluster!r}")
        url = f"{endpoint.rstrip('/')}/{account}/{container}"
        return SyncTarget(url, realm_name.upper(), realm.keys[0])


def _realm(section: configparser.SectionProxy) -> Realm:
    keys = tuple(section[name] for name in ("key", "key2") if section.get(name))
    prefix = "cluster_"
    endpoints = {n[len(prefix) :].upper(): v for n, v in section.items() if n.startswith(prefix)}
    return Realm(keys, endpoints)


def sync_signature(
    method: str, path: str, timestamp: str, nonce: str, realm_key: str, user_key: str
) -> str:
    """The signature of a request between clusters; ``path`` is percent-encoded."""
    message = "\n".join([method, path, timestamp, nonce, user_key])
    return hmac.new(realm_key.encode(), message.encode(), hashlib.sha1).hexdigest()
