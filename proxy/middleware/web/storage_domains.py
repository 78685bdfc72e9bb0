# SPDX-License-Identifier: Apache-2.0
"""Host names below the domains that are the cluster's own."""

from __future__ import annotations

from collections.abc import Iterable

from martlet.http.environ import Environ


def host_of(environ: Environ) -> tuple[str, str]:
    """Name and port (with its colon, or empty) that a request was sent to; "" for an IPv6 host."""
    host: str = environ.get("HTTP_HOST") or environ.get("SERVER_NAME") or ""
    if host.startswith("["):
        return "", ""
    name, colon, port = host.partition(":")
    return name, colon + port


def dotted(domains: Iterable[str]) -> list[str]:
    """The domains of an option, each with one dot before it."""
    return [f".{domain.lower().lstrip('.')}" for domain in domains]


def label_in(name: str, domains: Iterable[str]) -> str | None:
    """What stands before the first of ``domains`` that ``name`` is below; None for none."""
    for domain in domains:
        if name.lower().endswith(domain):
            return name[: -len(domain)]
    return None
