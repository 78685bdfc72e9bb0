"""Requests without a schema: known headers, parameters and paths with senseless values.

The answer to every request must be a status below 500, and the servers must continue. A seed
determines the sequence of requests; a finding names the request.
"""

from __future__ import annotations

import http.client
import json
import random
from collections import Counter
from urllib.parse import quote, urlsplit

from suite import Result

_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "COPY", "OPTIONS", "PATCH", "REPORT")
_HEADER_NAMES = """
    accept accept-encoding access-control-request-headers access-control-request-method
    cache-control content-disposition content-encoding content-type destination
    destination-account etag expect if-match if-modified-since if-none-match if-unmodified-since
    origin range referer x-account-access-control x-account-meta-a x-account-meta-quota-bytes
    x-account-meta-temp-url-key x-account-quota-bytes x-account-quota-count x-auth-token
    x-backend-storage-policy-index x-container-meta-a
    x-container-meta-access-control-allow-origin x-container-meta-quota-bytes
    x-container-meta-quota-count x-container-meta-web-index x-container-meta-web-listings
    x-container-read x-container-sync-key x-container-sync-to x-container-write x-copy-from
    x-copy-from-account x-delete-after x-delete-at x-detect-content-type x-fresh-metadata
    x-history-location x-if-delete-at x-newest x-object-manifest x-object-meta-a x-object-meta-
    x-object-sysmeta-a x-open-expired x-remove-container-meta-a x-remove-container-read
    x-remove-delete-at x-service-token x-static-large-object x-storage-policy x-symlink-target
    x-symlink-target-account x-symlink-target-etag x-timestamp x-trans-id-extra
    x-versions-enabled x-versions-location
"""
_HEADERS = _HEADER_NAMES.split()
_PARAMETER_NAMES = """
    allow_download bulk-delete delimiter end_marker extract-archive filename format heartbeat
    inline limit marker multipart-manifest part-number path prefix reverse states symlink
    temp_url_expires temp_url_ip_range temp_url_prefix temp_url_sig version-id version_marker
    versions
"""
_PARAMETERS = _PARAMETER_NAMES.split()
_WORDS = (
    "0", "1", "-1", "2147483648", "9223372036854775808", "1e9", "nan", "", " ", "true", "false",
    "on",
    "*", "null", "\x00", "\xff\xfe", "%00", "%ff", "%2F", "a/b", "/", "//", "/c/o", "c/o", "fz/o1",
    "fz/slo", "fz/link", "fz", "../..", "put", "get", "delete", "raw", "tar", "tar.gz", "json",
    "xml",
    "bytes=0-", "bytes=-5", "bytes=5-2", "bytes=0-0,2-3,-1", "bytes=" + "0-1," * 60, "{}", "[]",
    '{"a":1}', ".r:*,.rlistings", ".r:", "a:b:c", "Sat, 21 Nov 2026 00:00:00 GMT", "//realm/c/a/c",
    "d41d8cd98f00b204e9800998ecf8427e", '"d41d8cd98f00b204e9800998ecf8427e"', "Policy-0", "silver",
    "100-continue", "chunked", "application/json", "text/plain; charset=\xfc", "a;b=c;d", ",",
    "x" * 300,
    "1795289479.69636", "1795289479.69636_0000000000000001", "AUTH_test", "AUTH_none", "\u00e4",
)  # fmt: skip
_PLACES = (
    "", "/fz", "/fz/o1", "/fz/slo", "/fz/dlo", "/fz/link", "/fv", "/fv/o", "/none", "/none/o",
)  # fmt: skip
_ELSEWHERE = (
    "/", "/info", "/healthcheck", "/auth", "/auth/v1.0", "/v1", "/v1/", "/v2/AUTH_test",
    "/v1/AUTH_none/c/o", "/v1//c/o", "/v1/SERVICE_test", "/v1/.misplaced_objects",
)  # fmt: skip
_BODIES = (
    b"", b"x", b"\x00" * 10, b"{", b"[]", b"[{}]", b'[{"path": "/fz/o1"}]',
    b'[{"path": "fz/o1", "etag": null, "size_bytes": "x"}]', b'[{"data": "eA=="}]', b"[" * 2000,
    b'[{"path": "/fz/o1", "range": "1-"}]', b'[{"path": "/fz/slo", "size_bytes": -1}]',
    b"fz/o1\nfz/none",
    b"\xff\xfe\n/\n\n", b"<xml/>", b"ustar" * 200, b"\x1f\x8b\x08\x00", b'{"path": 1}',
)  # fmt: skip


class NonsenseClient:
    def __init__(self, url: str, seed: int) -> None:
        self._address = urlsplit(url).netloc
        self._chance = random.Random(seed)
        self._connection = http.client.HTTPConnection(self._address, timeout=60)
        self._token = ""
        self._account = ""

    def log_in(self) -> None:
        """Get a token, and create the objects of the requests."""
        headers = {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}
        self._connection.request("GET", "/auth/v1.0", headers=headers)
        answer = self._connection.getresponse()
        answer.read()
        self._token = answer.headers["X-Auth-Token"]
        self._account = urlsplit(answer.headers["X-Storage-Url"]).path
        for container in ("fz", "fv"):
            path = f"{self._account}/{container}"
            self.ask("PUT", path, {}, b"")
            for name in ("meta-quota-bytes", "meta-quota-count", "read", "write"):
                self.ask("POST", path, {f"x-remove-container-{name}": "x"}, b"")
        for name in ("o1", "o2"):
            self.ask("PUT", f"{self._account}/fz/{name}", {}, b"")
        manifest = json.dumps([{"path": "/fz/o1", "size_bytes": 0}, {"data": "eA=="}]).encode()
        self.ask("PUT", f"{self._account}/fz/slo?multipart-manifest=put", {}, manifest)
        self.ask("PUT", f"{self._account}/fz/dlo", {"X-Object-Manifest": "fz/o"}, b"")
        self.ask("PUT", f"{self._account}/fz/link", {"X-Symlink-Target": "fz/o1"}, b"")
        self.ask("POST", f"{self._account}/fv", {"X-Versions-Enabled": "true"}, b"")

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
        """Return the status; 0 if the server closed the connection without one."""
        try:
            self._connection.putrequest(
                method, path, skip_accept_encoding=True, skip_host="host" in headers
            )
            for name, value in ({"X-Auth-Token": self._token} | headers).items():
                self._connection.putheader(name, value.encode("utf-8"))
            if body or method in ("PUT", "POST"):
                self._connection.putheader("Content-Length", str(len(body)))
            self._connection.endheaders(body or None)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0
        if answer.will_close:
            self._connection.close()
        return answer.status

    def ask_nonsense(self) -> tuple[str, int]:
        """Send one request; return its description and its status."""
        chance = self._chance
        method = chance.choice(_METHODS)
        path = self._account + chance.choice(_PLACES)
        if chance.random() < 0.05:
            path = chance.choice(_ELSEWHERE)
        if chance.random() < 0.15:
            path += "/" + quote(self._word().encode("utf-8"), safe="/")
        pairs = [
            f"{chance.choice(_PARAMETERS)}={quote(self._word().encode('utf-8'))}"
            for _ in range(chance.choice((0, 0, 1, 1, 2)))
        ]
        if pairs:
            path += "?" + "&".join(pairs)
        headers = {
            chance.choice(_HEADERS): self._header() for _ in range(chance.choice((0, 1, 1, 2, 3)))
        }
        body = chance.choice(_BODIES) if method in ("PUT", "POST", "DELETE") else b""
        return f"{method} {path} {headers} {body[:40]!r}", self.ask(method, path, headers, body)

    def _word(self) -> str:
        return self._chance.choice(_WORDS)

    def _header(self) -> str:
        """Return a word that a client can send."""
        return self._word().replace("\x00", "").strip()


def run_fuzz(url: str, requests: int, seed: int) -> list[Result]:
    """Return one result for each status class; it failed if an answer was 5xx or missing."""
    client = NonsenseClient(url, seed)
    client.log_in()
    statuses: Counter[int] = Counter()
    findings = []
    for number in range(requests):
        if number % 200 == 199:
            client.log_in()  # a request may have deleted its objects
        described, status = client.ask_nonsense()
        statuses[status] += 1
        if status >= 500 or not status:
            findings.append(Result(f"fuzz.{seed}.{number}", "failed", f"{status} {described}"))
    said = " ".join(f"{status}:{count}" for status, count in sorted(statuses.items()))
    print(f"conformance: fuzz, seed {seed}: {requests} requests, {said}")
    return findings or [Result(f"fuzz.{seed}", "passed")]
