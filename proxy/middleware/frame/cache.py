# SPDX-License-Identifier: Apache-2.0
"""The filter that puts the cache into ``environ['swift.cache']``.

The cache is memcached if ``memcache_servers`` is set here or in ``memcache.conf``; otherwise it is
in the memory of the process. ``proxy.cache.interface`` documents its use.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from martlet.conf.options import ConfigError, load_options, option, read_ini
from martlet.filters.filter_options import load_filter_options, where
from martlet.http.environ import Environ, StartResponse, WSGIApp
from proxy.cache.interface import Cache
from proxy.cache.local import DEFAULT_MAX_ENTRIES, LocalCache
from proxy.cache.memcached import MemcachedCache


@dataclass(frozen=True)
class CacheOptions:
    """``[filter:cache]``, which overrides ``[memcache]`` in ``memcache.conf``."""

    memcache_servers: list[str] = option(
        [], "memcached servers as host:port, ...; empty: cache in the memory of each worker"
    )
    memcache_max_connections: int = option(2, "Connections of a worker to each memcached")
    connect_timeout: float = option(0.3, "Longest wait for a connection to memcached", "s")
    pool_timeout: float = option(1.0, "Longest wait for a free connection", "s")
    io_timeout: float = option(2.0, "Longest wait for memcached to answer", "s")
    error_suppression_interval: float = option(
        60.0, "How long a memcached that keeps failing is not used", "s"
    )
    error_suppression_limit: int = option(10, "Failures after which a memcached is not used")
    item_size_warning_threshold: int = option(
        -1, "Values larger than this are logged; -1 never", "bytes"
    )
    tls_enabled: bool = option(False, "Use TLS to memcached")
    tls_cafile: str = option("", "CA certificates (PEM) for memcached; empty: the system's")
    tls_certfile: str = option("", "Client certificate (PEM) for memcached")
    tls_keyfile: str = option("", "Key of the client certificate; empty: in tls_certfile")
    local_max_entries: int = option(
        DEFAULT_MAX_ENTRIES, "Most values in the memory of a worker without memcached"
    )

    def __post_init__(self) -> None:
        if self.memcache_max_connections < 1:
            raise ValueError("memcache_max_connections must be at least 1")
        if self.local_max_entries < 1:
            raise ValueError("local_max_entries must be at least 1")


class CacheFilter:
    """The filter."""

    def __init__(self, app: WSGIApp, cache: Cache) -> None:
        self._app = app
        self.cache = cache

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Add the cache to the environ."""
        environ["swift.cache"] = self.cache
        return self._app(environ, start_response)


def make_cache(options: CacheOptions) -> Cache:
    """Return the cache that the options select.

    :raises ValueError: a server is not ``host[:port]``.
    :raises OSError: a certificate cannot be read.
    """
    if not options.memcache_servers:
        return LocalCache(options.local_max_entries)
    return MemcachedCache(
        options.memcache_servers,
        max_connections=options.memcache_max_connections,
        connect_timeout_seconds=options.connect_timeout,
        pool_timeout_seconds=options.pool_timeout,
        io_timeout_seconds=options.io_timeout,
        error_limit=options.error_suppression_limit,
        error_interval_seconds=options.error_suppression_interval,
        tls_context=_tls_context(options),
        item_size_warning_bytes=options.item_size_warning_threshold,
    )


def _tls_context(options: CacheOptions) -> ssl.SSLContext | None:
    if not options.tls_enabled:
        return None
    context = ssl.create_default_context(cafile=options.tls_cafile or None)
    if options.tls_certfile:
        context.load_cert_chain(options.tls_certfile, options.tls_keyfile or None)
    return context


def load_cache_options(global_conf: dict[str, str], local_conf: dict[str, str]) -> CacheOptions:
    """Return the options of the filter, which override those of ``memcache.conf`` in ``swift_dir``.

    :raises ConfigError: either file has a bad option; the message names the file.
    """
    path = Path(global_conf.get("swift_dir", "/etc/martlet")) / "memcache.conf"
    shared: dict[str, str] = {}
    if path.exists():
        parser = read_ini(path)
        if parser.has_section("memcache"):
            shared = dict(parser.items("memcache"))
        load_options(CacheOptions, shared, f"{path} [memcache]")
    return load_filter_options(CacheOptions, "cache", global_conf, {**shared, **local_conf})


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], CacheFilter]:
    """PasteDeploy's entry point."""
    options = load_cache_options(global_conf, local_conf)
    try:
        # Created here, before the workers are forked, because they share part of it.
        cache = make_cache(options)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{where('cache', global_conf)}: {error}") from None
    return lambda app: CacheFilter(app, cache)
