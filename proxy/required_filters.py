# SPDX-License-Identifier: Apache-2.0
"""Filters that every proxy needs: those missing in a pipeline are inserted at the right place.

OpenStack Swift does the same. Without gatekeeper a client could send internal headers to the
storage servers. Without the others it would get raw listings and manifests. A pipeline with
``internal_pipeline = true`` in its application's section stays unchanged.
"""

from __future__ import annotations

from typing import Any

from martlet.conf.options import ConfigError, parse_bool
from martlet.log import get_logger

_log = get_logger("proxy.pipeline")

_OUTERMOST = ("catch_errors", "gatekeeper", "proxy_logging")
_AUTH = ("tempauth", "keystoneauth")
_QUOTAS = ("container_quotas", "account_quotas")
#: In the order of the pipeline: a filter, and those that must be to the left of it, if present.
_REQUIRED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("catch_errors", ()),
    ("gatekeeper", ("catch_errors",)),
    ("listing_formats", (*_OUTERMOST, "cache", "memcache")),
    ("copy", (*_OUTERMOST, *_AUTH, "staticweb")),
    ("dlo", (*_OUTERMOST, *_AUTH, "staticweb", "copy", *_QUOTAS)),
    ("versioned_writes", (*_OUTERMOST, *_AUTH, "staticweb", "copy", *_QUOTAS, "slo", "dlo")),
)


def insert_required_filters(context: Any) -> None:
    """Insert the missing filters into PasteDeploy's context of ``[pipeline:main]``, and log each.

    :raises ConfigError: it is no pipeline, or has keystoneauth without authtoken to the left of it.
        Then a client could choose its identity itself.
    """
    where = context.global_conf.get("__file__", "the conf")
    if context.object_type.name != "pipeline":
        raise ConfigError(f"{where}: there is no [pipeline:main]")
    _flatten(context)
    if _is_internal(context.app_context.local_conf):
        return
    filters = context.filter_contexts
    _check_keystone([_name(one) for one in filters], where)
    for name, left_ones in reversed(_REQUIRED):
        names = [_name(one) for one in filters]
        if name in names:
            continue
        place = 0
        if name != "gatekeeper" or names[:1] == ["catch_errors"]:
            place = max((names.index(one) + 1 for one in left_ones if one in names), default=0)
        filters.insert(place, _required(name, context.global_conf))
        _log.warning(
            "event=filter_inserted filter=%s right_of=%s conf=%s",
            name,
            names[place - 1] if place else "-",
            where,
        )


def _flatten(context: Any) -> None:
    """Join a pipeline with the pipeline that it names as its application."""
    while context.app_context.object_type.name == "pipeline":
        inner = context.app_context
        context.filter_contexts += inner.filter_contexts
        context.app_context = inner.app_context


def _is_internal(app_conf: dict[str, str]) -> bool:
    try:
        return parse_bool(app_conf.get("internal_pipeline", "false"))
    except ValueError:
        return False  # the application refuses to start with it


def _name(context: Any) -> str:
    """The kind of a filter: the last name of its module. Its section may have any name."""
    return str(getattr(context.object, "__module__", "")).rpartition(".")[2]


def _required(name: str, global_conf: dict[str, str]) -> Any:
    from paste.deploy.loadwsgi import FILTER, loadcontext

    return loadcontext(FILTER, f"egg:martlet#{name}", global_conf=global_conf)


def _check_keystone(names: list[str], where: str) -> None:
    if "keystoneauth" not in names:
        return
    if "auth_token" not in names[: names.index("keystoneauth")]:
        raise ConfigError(
            f"{where} [pipeline:main]: keystoneauth needs authtoken (keystonemiddleware's "
            "auth_token) to the left of it, which authenticates the client"
        )
