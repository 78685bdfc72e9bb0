# SPDX-License-Identifier: Apache-2.0
"""The text of an access line: ``key=value`` fields, or the operator's own template."""

from __future__ import annotations

import os
import re
import time
from urllib.parse import quote

from martlet.http.environ import Environ
from martlet.http.request import Request
from proxy.middleware.access_log.request_record import RequestRecord
from proxy.middleware.access_log.secrets import AccessSecrets
from proxy.middleware.access_log.template import AccessTemplate

_PLAIN_TEXT = re.compile(r"[!-&(-~]+").fullmatch
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.~-]*").fullmatch


class AccessLine:
    """Renders the lines of one filter."""

    def __init__(
        self,
        secrets: AccessSecrets,
        template: AccessTemplate | None,
        has_headers: bool,
        only_headers: frozenset[str],
    ) -> None:
        """``only_headers``: the headers to show if ``has_headers``, lower case; empty: all."""
        self._secrets = secrets
        self._template = template
        self._has_headers = has_headers
        self._only_headers = only_headers

    def render(self, record: RequestRecord, status: int) -> str:
        """The line of a request that has ended with ``status``."""
        if self._template is not None:
            return self._template.render(self._fields(record, status))
        environ = record.environ
        user = environ.get("swift.access_logging")
        info = environ.get("swift.log_info")
        optional = (
            ("referer", self._referer(environ)),
            ("user_agent", environ.get("HTTP_USER_AGENT")),
            ("client_etag", environ.get("HTTP_ETAG")),
            ("user", user.get("user_id") if user else None),
            ("policy_index", record.policy_index),
            ("source", environ.get("swift.source")),
            ("log_info", ",".join(info) if info else None),
            ("headers", self._shown_headers(environ)),
        )
        return (
            f"client_ip={_as_value(_client_ip(environ))}"
            f" remote_addr={environ.get('REMOTE_ADDR', '-')}"
            f" method={_as_value(record.method)}"
            f" path={self._shown_path(record)}"
            f" protocol={environ.get('SERVER_PROTOCOL', '-')}"
            f" status={status}"
            f" bytes_recvd={record.bytes_received}"
            f" bytes_sent={record.bytes_sent}"
            f" trans_id={environ.get('swift.trans_id', '-')}"
            f" request_time={time.time() - record.started:.4f}"
            f" ttfb={record.ttfb:.4f}"
            + "".join([f" {key}={_as_value(value)}" for key, value in optional if value])
        )

    def _fields(self, record: RequestRecord, status: int) -> dict[str, object]:
        """The fields of a template."""
        environ, ended = record.environ, time.time()
        user = environ.get("swift.access_logging") or {}
        names = [*record.path.split("/", 4), "", "", "", "", ""]
        token = environ.get("HTTP_X_AUTH_TOKEN") or environ.get("HTTP_X_STORAGE_TOKEN") or ""
        return {
            "client_ip": _client_ip(environ),
            "remote_addr": environ.get("REMOTE_ADDR"),
            "start_time": record.started,
            "end_time": ended,
            "method": record.method,
            "domain": environ.get("HTTP_HOST", "").partition(":")[0],
            "path": self._shown_path(record),
            "protocol": environ.get("SERVER_PROTOCOL"),
            "status_int": status,
            "wire_status_int": record.status or status,
            "referer": self._referer(environ),
            "user_agent": environ.get("HTTP_USER_AGENT"),
            "auth_token": self._secrets.token(token),
            "bytes_recvd": record.bytes_received or "",
            "bytes_sent": record.bytes_sent or "",
            "client_etag": environ.get("HTTP_ETAG"),
            "transaction_id": environ.get("swift.trans_id"),
            "headers": self._shown_headers(environ),
            "request_time": f"{ended - record.started:.4f}",
            "source": environ.get("swift.source"),
            "log_info": ",".join(environ.get("swift.log_info") or []),
            "policy_index": record.policy_index,
            "access_user_id": user.get("user_id"),
            "account": names[2],
            "container": names[3],
            "object": names[4],
            "ttfb": f"{record.ttfb:.4f}",
            "pid": os.getpid(),
        }

    def _shown_headers(self, environ: Environ) -> str:
        """The headers of the request, one a line, without the secrets in them."""
        if not self._has_headers:
            return ""
        lines = []
        for name, value in sorted(Request(environ).headers.items()):
            if not self._only_headers or name.lower() in self._only_headers:
                lines.append(f"{name}: {self._secrets.header(name, value)}")
        return "\n".join(lines)

    def _shown_path(self, record: RequestRecord) -> str:
        path = record.path
        if not _PLAIN_PATH(path):
            path = quote(path, encoding="latin-1")
        if not record.query:
            return path
        query = self._secrets.url(record.query)
        return f"{path}?{quote(query, safe='%&=/:+,~*', encoding='latin-1')}"

    def _referer(self, environ: Environ) -> str | None:
        # A page that was opened by a temporary URL has the signature in its own URL.
        referer = environ.get("HTTP_REFERER")
        return self._secrets.url(referer) if referer else referer


def _client_ip(environ: Environ) -> str:
    forwarded = environ.get("HTTP_X_CLUSTER_CLIENT_IP") or environ.get("HTTP_X_FORWARDED_FOR")
    if forwarded:
        first: str = forwarded.split(",", 1)[0].strip()
        return first
    address: str = environ.get("REMOTE_ADDR", "-")
    return address


def _as_value(value: str) -> str:
    """A text of the client, escaped where it would read as several fields or lines."""
    return value if _PLAIN_TEXT(value) else ascii(value)
