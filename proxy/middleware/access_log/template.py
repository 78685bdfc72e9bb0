# SPDX-License-Identifier: Apache-2.0
"""Access lines in the operator's own format: ``log_msg_template``.

A template is text with ``{field}`` in it. Fields of clients have ``{field.anonymized}``, times have
``{start_time.datetime}``, ``.asctime``, ``.iso8601``, ``.s``, ``.ms``, ``.us``, ``.ns`` and the
letters of strftime. The fields are OpenStack Swift's; each is percent-encoded, ``-`` if empty.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from urllib.parse import quote

#: Fields about the client, which a law may require to hide.
_ANONYMIZABLE = frozenset(
    [
        "account",
        "client_etag",
        "client_ip",
        "container",
        "domain",
        "headers",
        "object",
        "path",
        "referer",
        "remote_addr",
        "user_agent",
    ]
)
_TIMES = frozenset({"start_time", "end_time"})
_OTHERS = frozenset(
    [
        "access_user_id",
        "auth_token",
        "bytes_recvd",
        "bytes_sent",
        "log_info",
        "method",
        "pid",
        "policy_index",
        "protocol",
        "request_time",
        "source",
        "status_int",
        "transaction_id",
        "ttfb",
        "wire_status_int",
    ]
)
#: Every field that a template may name.
FIELDS = _ANONYMIZABLE | _TIMES | _OTHERS
_TIME_FORMATS = {
    "datetime": "%d/%b/%Y/%H/%M/%S",
    "asctime": "%a %b %d %H:%M:%S %Y",
    "iso8601": "%Y-%m-%dT%H:%M:%S",
    **{letter: f"%{letter}" for letter in "aAbBcdHIjmMpSUwWxXyYZ"},
}
#: Parts of a second.
_UNITS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class _Text:
    """A field that can be anonymized."""

    def __init__(self, value: str, method: str, salt: str) -> None:
        self._value = value
        self._method = method
        self._salt = salt

    def __str__(self) -> str:
        return _shown(self._value)

    @property
    def anonymized(self) -> str:
        """A digest of the value, the same for the same value."""
        if not self._value:
            return "-"
        data = (self._salt + self._value).encode("utf-8", "surrogateescape")
        digest = hashlib.new(self._method, data, usedforsecurity=False).hexdigest()
        return f"{{{'S' if self._salt else ''}{self._method.upper()}}}{digest}"


class _Time:
    """A moment; seconds since 1970."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __str__(self) -> str:
        return f"{self._seconds:.9f}"

    def __getattr__(self, name: str) -> str:
        if name == "s":
            return str(int(self._seconds))
        if name in _UNITS:
            return str(int(self._seconds % 1 * _UNITS[name]))
        if name in _TIME_FORMATS:
            return _shown(time.strftime(_TIME_FORMATS[name], time.gmtime(self._seconds)))
        raise AttributeError(name)


class AccessTemplate:
    """A checked template."""

    def __init__(self, template: str, anonymization_method: str, salt: str) -> None:
        """
        :raises ValueError: the digest or a field of the template does not exist.
        """
        if anonymization_method.lower() not in hashlib.algorithms_guaranteed:
            raise ValueError(f"log_anonymization_method: no digest {anonymization_method!r}")
        self._template = template
        self._method = anonymization_method
        self._salt = salt
        try:
            self.render(dict.fromkeys(_ANONYMIZABLE | _OTHERS, "") | dict.fromkeys(_TIMES, 0.0))
        except (KeyError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"log_msg_template cannot be filled in: {error}") from None

    def render(self, fields: Mapping[str, object]) -> str:
        """The line; ``fields`` has every field, times as seconds since 1970."""
        values = {name: self._value(name, value) for name, value in fields.items()}
        return self._template.format(**values)

    def _value(self, name: str, value: object) -> object:
        if name in _TIMES:
            return _Time(float(str(value)))
        if name in _ANONYMIZABLE:
            return _Text(str(value or ""), self._method, self._salt)
        return _shown("" if value is None else str(value))


def _shown(value: str) -> str:
    return quote(value, safe="/:{}", errors="surrogateescape") or "-"
