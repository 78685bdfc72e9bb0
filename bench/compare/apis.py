# SPDX-License-Identifier: Apache-2.0
"""The two APIs in the words of this benchmark: authorization, paths and statuses."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import quote

from compare.client import Access, Step
from proxy.s3.wire.signature_v4 import ALGORITHM, Scope, signing_key_of, string_to_sign

REGION = "us-east-1"
_SIGNED = "host;x-amz-content-sha256;x-amz-date"
LIST_NAMES_MAX = 1000


@dataclass(frozen=True)
class SwiftAccess:
    """Requests with a token."""

    token: str

    def headers(self, method: str, target: str, body_sha256: str) -> dict[str, str]:
        """The headers that authorize the request."""
        return {"X-Auth-Token": self.token}


@dataclass(frozen=True)
class S3Access:
    """Requests signed with version 4; the hash of the body is part of what is signed."""

    host: str
    access_key: str
    secret: str

    def headers(self, method: str, target: str, body_sha256: str) -> dict[str, str]:
        """The headers that authorize the request."""
        timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path, _, query = target.partition("?")
        canonical = (
            f"{method}\n{path}\n{query}\nhost:{self.host}\nx-amz-content-sha256:{body_sha256}\n"
            f"x-amz-date:{timestamp}\n\n{_SIGNED}\n{body_sha256}"
        )
        scope = Scope(self.access_key, timestamp[:8], REGION, "s3")
        text = string_to_sign(timestamp, scope, canonical.encode())
        key = signing_key_of(self.secret, scope.date, REGION)
        signature = hmac.new(key, text, hashlib.sha256).hexdigest()
        return {
            "X-Amz-Date": timestamp,
            "X-Amz-Content-SHA256": body_sha256,
            "Authorization": f"{ALGORITHM} Credential={self.access_key}/{scope}, "
            f"SignedHeaders={_SIGNED}, Signature={signature}",
        }


@dataclass(frozen=True)
class Target:
    """A running peer as seen through one API."""

    api: str
    port: int
    access: Access
    #: The path of the account; empty for S3.
    root: str

    @property
    def container(self) -> str:
        """The container of the measured objects: two APIs of a peer share their names."""
        return f"compare-{self.api}"

    @property
    def _is_swift(self) -> bool:
        return self.api == "swift"

    def make_container(self, container: str) -> Step:
        """Create a container or bucket."""
        return Step("PUT", f"{self.root}/{container}", 201 if self._is_swift else 200)

    def put(self, path: str, size_bytes: int) -> Step:
        """Write an object."""
        status = 201 if self._is_swift else 200
        return Step("PUT", f"{self.root}/{path}", status, size_bytes)

    def get(self, path: str, size_bytes: int) -> Step:
        """Read an object that has this size."""
        return Step("GET", f"{self.root}/{path}", 200, 0, size_bytes)

    def head(self, path: str) -> Step:
        """Ask for the headers of an object."""
        return Step("HEAD", f"{self.root}/{path}", 200)

    def delete(self, path: str) -> Step:
        """Delete an object."""
        return Step("DELETE", f"{self.root}/{path}", 204)

    def listing(self, container: str, prefix: str) -> Step:
        """Ask for the first page of the names with a prefix."""
        quoted = quote(prefix, safe="")
        if self._is_swift:
            query = f"format=json&limit={LIST_NAMES_MAX}&prefix={quoted}"
        else:
            query = f"list-type=2&max-keys={LIST_NAMES_MAX}&prefix={quoted}"
        return Step("GET", f"{self.root}/{container}?{query}", 200)
