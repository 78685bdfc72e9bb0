"""The encryption filters of OpenStack Swift and ours, each around an application.

As a program it rewrites the golden files with the data that Swift's filters store:

    PYTHONPATH=.:test/support .venv/bin/python test/support/swift_encryption.py
"""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from martlet.conf.cluster import ClusterConf, HashOptions
from martlet.conf.constraints import Constraints
from martlet.conf.storage_policies import StoragePolicy
from martlet.http.environ import WSGIApp
from proxy.middleware.encryption.encryption import Encryption, EncryptionOptions
from proxy.middleware.encryption.keymaster import Keymaster, read_secrets

GOLDEN = Path(__file__).parents[1] / "golden" / "encryption" / "objects.json"
SECRETS = {
    "encryption_root_secret": b64encode(bytes(range(32))).decode(),
    "encryption_root_secret_2026": b64encode(bytes(range(100, 140))).decode(),
}
BODY = bytes(range(256)) + b"the end"
METADATA = {"X-Object-Meta-Color": "blue", "X-Object-Meta-City": "Z\xc3\xbcrich"}
# A leading slash: version 1 of Swift's key ids treats it differently from the others.
NAMES = ("plain", "with/slashes and space", "gr\u00f6\u00dfe-\u65e5\u672c", "/in front")


@dataclass(frozen=True)
class Case:
    """A combination of name, version and secret for an object."""

    name: str
    version: str
    secret_id: str

    @property
    def path(self) -> str:
        """Return the percent-encoded path with the account and the container."""
        return quote(f"/v1/AUTH_a/c\u00f6ntainer/{self.name}")


def cases() -> Iterator[Case]:
    """Yield every combination of name, version and secret."""
    for name in NAMES:
        for version in ("1", "2", "3"):
            for secret_id in ("", "2026"):
                yield Case(name, version, secret_id)


def swift_filters(app: WSGIApp, version: str = "2", secret_id: str = "") -> WSGIApp:
    """Return real Swift's keymaster and encryption."""
    from swift.common.middleware import crypto
    from swift.common.middleware.crypto import keymaster

    conf = {**SECRETS, "active_root_secret_id": secret_id, "meta_version_to_write": version}
    inner = crypto.filter_factory({})(app)
    filtered: WSGIApp = keymaster.filter_factory({}, **conf)(inner)
    return filtered


def our_filters(
    app: WSGIApp,
    version: str = "2",
    secret_id: str = "",
    secrets: Mapping[str, str] | None = None,
    **options: Any,
) -> WSGIApp:
    """Return our keymaster and encryption."""
    inner = Encryption(app, EncryptionOptions(**options), Constraints())
    keys = read_secrets(SECRETS if secrets is None else secrets, "test")
    return Keymaster(inner, keys, secret_id or None, version)


def write_golden() -> None:
    """Put an object with Swift's filters in each case, and save the data on the devices."""
    from fake_cluster import FakeCluster
    from fake_devices import FakeDevice, FakeRing

    from proxy.app import Application
    from proxy.config import ProxyOptions
    from ring.hashing import HashPath
    from ring.ring import RingSet

    device = FakeDevice(0)
    ring: Any = FakeRing([device], 1)
    rings = RingSet(ring, ring, {0: ring}, HashPath(b"", b"salt"))
    policies = (StoragePolicy(0, "gold", is_default=True),)
    conf = ClusterConf(HashOptions("", "salt"), Constraints(), policies)
    options = ProxyOptions(account_autocreate=True)
    app = Application(options, conf, rings, logging.getLogger("golden"))
    cluster = FakeCluster([device], app)
    objects = []
    for case in cases():
        container = case.path.rsplit("/", case.name.count("/") + 1)[0]
        assert cluster.call("PUT", container).status in (201, 202)
        filtered: Any = swift_filters(app, case.version, case.secret_id)
        assert FakeCluster([device], filtered).call("PUT", case.path, BODY, METADATA).status == 201
        stored = device.stored[case.path.removeprefix("/v1")]
        objects.append(
            {
                "name": case.name,
                "version": case.version,
                "secret_id": case.secret_id,
                "headers": stored.headers,
                "body": b64encode(stored.body).decode(),
            }
        )
    device.stop()
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(objects, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    write_golden()
