# SPDX-License-Identifier: Apache-2.0
"""An account through the proxy, for commands: login, PUT, and whole listings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from cluster.errors import ClusterError

_PAGE = 10_000


@dataclass(frozen=True)
class Login:
    """A user, or the URL of an account and a token."""

    auth_url: str = ""
    user: str = ""
    key: str = ""
    storage_url: str = ""
    token: str = ""


class ProxyAccount:
    """An open account. Any thread may use it."""

    def __init__(self, pool: urllib3.PoolManager, storage_url: str, token: str) -> None:
        self._pool = pool
        self._url = storage_url.rstrip("/")
        self._token = token
        #: Its name in the rings.
        self.name = urlsplit(self._url).path.rpartition("/")[2]

    @classmethod
    def open(
        cls, login: Login, at_once: int, timeout: float, retries: int, is_insecure: bool = False
    ) -> ProxyAccount:
        """Log in, unless there is a token already.

        :raises ClusterError: no user is known, or the login is refused.
        """
        pool = urllib3.PoolManager(
            maxsize=at_once,
            block=True,
            timeout=timeout,
            retries=urllib3.Retry(
                retries,
                backoff_factor=0.2,
                status_forcelist=(500, 502, 503, 504),
                allowed_methods=None,
                raise_on_status=False,
            ),
            cert_reqs="CERT_NONE" if is_insecure else "CERT_REQUIRED",
        )
        if login.storage_url and login.token:
            return cls(pool, login.storage_url, login.token)
        if not (login.auth_url and login.user and login.key):
            raise ClusterError(
                "a user of the proxy is needed: set --auth-url, --user and --key, or ST_AUTH, "
                "ST_USER and ST_KEY, or OS_STORAGE_URL and OS_AUTH_TOKEN, or a dispersion.conf"
            )
        headers = {"X-Auth-User": login.user, "X-Auth-Key": login.key}
        answer = _request(pool, "GET", login.auth_url, headers)
        url, token = answer.headers.get("X-Storage-Url"), answer.headers.get("X-Auth-Token")
        if answer.status != 200 or not url or not token:
            raise ClusterError(
                f"{login.auth_url} answers {answer.status} to the login of {login.user}: check the "
                "user and the key. A user of Keystone needs OS_STORAGE_URL and OS_AUTH_TOKEN"
            )
        return cls(pool, url, token)

    def put(self, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """PUT a container or an object.

        :raises ClusterError: it is refused.
        """
        sent = {"X-Auth-Token": self._token, **(headers or {})}
        answer = _request(self._pool, "PUT", f"{self._url}/{quote(path)}", sent, body)
        if not 200 <= answer.status < 300:
            raise ClusterError(f"PUT of {path} is answered with {answer.status}")

    def names(self, container: str = "", prefix: str = "") -> Iterator[str]:
        """The names of containers, or of objects, that begin so; none in a container that is not.

        :raises ClusterError: the listing is refused.
        """
        marker = ""
        while True:
            query = {"format": "json", "limit": _PAGE, "prefix": prefix, "marker": marker}
            url = f"{self._url}{container and '/' + quote(container)}?{urlencode(query)}"
            answer = _request(self._pool, "GET", url, {"X-Auth-Token": self._token})
            if answer.status == 404:
                return
            if answer.status not in (200, 204):
                raise ClusterError(f"GET of {container or 'the account'} answers {answer.status}")
            page: list[dict[str, Any]] = json.loads(answer.data or b"[]")
            if not page:
                return
            yield from (str(row["name"]) for row in page if "name" in row)
            marker = str(page[-1].get("name", ""))


def _request(
    pool: urllib3.PoolManager,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> urllib3.BaseHTTPResponse:
    """:raises ClusterError: there is no answer."""
    try:
        return pool.request(method, url, headers=dict(headers), body=body)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise ClusterError(f"{method} {url.partition('?')[0]} has no answer: {error}") from None
