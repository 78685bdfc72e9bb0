# SPDX-License-Identifier: Apache-2.0
"""Container sync, the receiving end: requests that another cluster of a realm has signed.

``X-Container-Sync-Auth: <realm> <nonce> <signature>`` lets a request bypass auth and keep its
timestamp. It must be signed with the realm's key and the key that the container's owner set
(``X-Container-Sync-Key``). doc/container-sync.md explains both ends. Place the filter right of
cache and left of auth.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from martlet.conf.options import option
from martlet.conf.sync_realms import SyncRealms, sync_signature
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import Response, error_response
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.info_registry import register_info
from proxy.middleware.subrequest import get_container_info

_SOURCE = "CS"
_REFUSAL = "X-Container-Sync-Auth header not valid; contact cluster operator for support."


@dataclass(frozen=True)
class ContainerSyncOptions:
    """``[filter:container_sync]``."""

    allow_full_urls: bool = option(
        True, "Accept URLs in X-Container-Sync-To; if false, only //realm/cluster/account/container"
    )
    current: str = option("", "The realm and name of this cluster, //REALM/CLUSTER, for /info")

    def __post_init__(self) -> None:
        if self.current and len(self._current_names()) != 2:
            raise ValueError("current must be //REALM/CLUSTER")

    def _current_names(self) -> list[str]:
        return [name for name in self.current.upper().strip("/").split("/") if name]

    @property
    def is_current(self) -> Callable[[str, str], bool]:
        """Whether a realm and cluster are the current ones."""
        current = self._current_names()
        return lambda realm, cluster: [realm, cluster] == current


class ContainerSync:
    """The filter."""

    def __init__(self, app: WSGIApp, options: ContainerSyncOptions, realms: SyncRealms) -> None:
        self._app = app
        self._allow_full_urls = options.allow_full_urls
        self._realms = realms

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 401 for a wrong signature, 400 for a full URL where none is allowed."""
        target = environ.get("HTTP_X_CONTAINER_SYNC_TO")
        if not target and "HTTP_X_CONTAINER_SYNC_AUTH" not in environ:
            return self._app(environ, start_response)
        names = _container_of(environ)
        if names is None:
            return self._app(environ, start_response)
        if target and not self._allow_full_urls and not target.startswith("//"):
            text = (
                "Full URLs are not allowed for X-Container-Sync-To values. Only realm values of"
                " the format //realm/cluster/account/container are allowed.\n"
            )
            return error_response(400, text)(environ, start_response)
        if "HTTP_X_CONTAINER_SYNC_AUTH" in environ:
            complaint = self._check(environ, names)
            environ.setdefault("swift.log_info", []).append(f"cs:{complaint or 'valid'}")
            if complaint:
                return _refused()(environ, start_response)
            environ["swift.authorize_override"] = True
            # A manifest or link of the other cluster is stored unchanged.
            environ["swift.slo_override"] = True
            environ["swift.symlink_override"] = True
        return self._app(environ, start_response)

    def _check(self, environ: Environ, names: tuple[str, str]) -> str:
        """Return the fault as one word for the log; empty if the signature is valid."""
        words = environ["HTTP_X_CONTAINER_SYNC_AUTH"].split()
        if len(words) != 3:
            return "not-3-args"
        realm_name, nonce, signature = words
        realm = self._realms.all().get(realm_name.upper())
        if realm is None or not realm.keys:
            return "no-local-realm-key"
        info = get_container_info(environ, self._app, *names, _SOURCE)
        user_key = info.get("sync_key")
        if not user_key:
            return "no-local-user-key"
        # The gatekeeper has moved the client's timestamp to this header.
        timestamp = environ.get("HTTP_X_BACKEND_INBOUND_X_TIMESTAMP") or environ.get(
            "HTTP_X_TIMESTAMP", ""
        )
        path = quote(environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"], encoding="latin-1")
        method = environ["REQUEST_METHOD"]
        good = [sync_signature(method, path, timestamp, nonce, key, user_key) for key in realm.keys]
        given = signature.encode("latin-1")
        if not any([hmac.compare_digest(one.encode(), given) for one in good]):
            return "invalid-sig"
        if timestamp:
            environ["HTTP_X_TIMESTAMP"] = timestamp
        return ""


def _container_of(environ: Environ) -> tuple[str, str] | None:
    """Return account and container of a request about a container or an object."""
    try:
        _, account, container, _ = split_path(environ["PATH_INFO"], 3, 4, True)
        return wsgi_to_str(account or ""), wsgi_to_str(container or "")
    except (ValueError, BadNameError):
        return None


def _refused() -> Response:
    return error_response(401, _REFUSAL, {"WWW-Authenticate": 'Swift realm="unknown"'})


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], ContainerSync]:
    """PasteDeploy's entry point."""
    options = load_filter_options(ContainerSyncOptions, "container_sync", global_conf, local_conf)
    realms = SyncRealms(global_conf.get("swift_dir", "/etc/martlet"))
    shown: dict[str, Any] = {}
    for realm_name, realm in realms.all().items():
        clusters = {
            name: ({"current": True} if options.is_current(realm_name, name) else {})
            for name in realm.endpoints
        }
        if clusters:
            shown[realm_name] = {"clusters": clusters}
    register_info("container_sync", realms=shown)
    return lambda app: ContainerSync(app, options, realms)
