# SPDX-License-Identifier: Apache-2.0
"""Maps host names to accounts and containers.

``container.AUTH-account.example.com/object`` becomes ``/v1/AUTH_account/container/object`` if
``example.com`` is a ``storage_domain``. DNS has no underscores and ignores case. So the first
hyphen of the account stands for an underscore, and reseller prefixes match in any case. Place the
filter right of cname_lookup and left of all filters that read the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.response import error_response
from proxy.info_registry import register_info
from proxy.middleware.web.storage_domains import dotted, host_of, label_in


@dataclass(frozen=True)
class DomainRemapOptions:
    """``[filter:domain_remap]``."""

    storage_domain: list[str] = option(
        ["example.com"], "Domains whose subdomains name accounts and containers"
    )
    path_root: str = option("v1", "First part of paths, before the account")
    reseller_prefixes: list[str] = option(["AUTH"], "Prefixes of accounts, in their exact case")
    default_reseller_prefix: str = option(
        "", "Prefix for accounts that have none of them; empty: such hosts are not mapped"
    )
    mangle_client_paths: bool = option(
        False, "Remove the path_root from a client's path, for old clients that send it"
    )


class DomainRemap:
    """The filter."""

    def __init__(self, app: WSGIApp, options: DomainRemapOptions) -> None:
        self._app = app
        self._domains = dotted(options.storage_domain)
        self._root = options.path_root.strip("/")
        self._prefixes = options.reseller_prefixes
        self._default_prefix = options.default_reseller_prefix
        self._mangle = options.mangle_client_paths

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Map the host, or return 400 for more than two labels or an empty one."""
        label = label_in(host_of(environ)[0], self._domains)
        if label is None:
            return self._app(environ, start_response)
        labels = label.split(".")
        if len(labels) > 2 or not all(labels):
            text = "Bad domain in host header"
            return error_response(400, text)(environ, start_response)
        account = self._account(labels[-1])
        if account is None:
            return self._app(environ, start_response)
        names = [self._root, account, *labels[:-1]]
        remapped = "/" + "/".join(name for name in names if name)
        path: str = environ["PATH_INFO"]
        environ["PATH_INFO"] = f"{remapped}/{self._mangled(path.removeprefix('/'))}"
        return self._app(environ, _Unmapping(environ, start_response, path))

    def _account(self, name: str) -> str | None:
        """Return the account of a label of a host name."""
        name = name.replace("-", "_", 1) if "_" not in name.partition("-")[0] else name
        lowered = name.lower()
        for prefix in self._prefixes:
            if lowered.startswith(f"{prefix.lower()}_"):
                return prefix + name[len(prefix) :]
        return f"{self._default_prefix}_{name}" if self._default_prefix else None

    def _mangled(self, path: str) -> str:
        if not self._mangle:
            return path
        if path == self._root:
            return ""
        return path.removeprefix(f"{self._root}/")


class _Unmapping:
    """A start_response that maps a Location on the same host back to the client's form."""

    def __init__(self, environ: Environ, start_response: StartResponse, path: str) -> None:
        self._host = environ.get("HTTP_HOST", "")
        self._start_response = start_response
        self._path = quote(path, encoding="latin-1")
        self._remapped = quote(environ["PATH_INFO"], encoding="latin-1")

    def __call__(self, status: str, headers: HeaderList, exc_info: Any = None) -> Any:
        mapped = [
            (name, self._unmapped(value) if name.lower() == "location" else value)
            for name, value in headers
        ]
        return self._start_response(status, mapped, exc_info)

    def _unmapped(self, location: str) -> str:
        for scheme in ("http", "https"):
            origin = f"{scheme}://{self._host}"
            if location.startswith(origin + self._remapped):
                return origin + self._path + location.removeprefix(origin + self._remapped)
        return location


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], DomainRemap]:
    """PasteDeploy's entry point."""
    options = load_filter_options(DomainRemapOptions, "domain_remap", global_conf, local_conf)
    default = options.default_reseller_prefix or None
    register_info("domain_remap", default_reseller_prefix=default)
    return lambda app: DomainRemap(app, options)
