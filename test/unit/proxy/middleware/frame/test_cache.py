"""The choice of the pipeline's cache by the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from proxy.cache.local import LocalCache
from proxy.cache.memcached import MemcachedCache
from proxy.middleware.frame.cache import filter_factory, load_cache_options


def test_memory_of_the_process_by_default(ask: Any, Inner: Any, tmp_path: Path) -> None:
    inner = Inner()
    app = filter_factory({"swift_dir": str(tmp_path)}, local_max_entries="7")(inner)
    ask(app, "/")
    ask(app, "/")
    caches = [environ["swift.cache"] for environ in inner.environs]
    assert isinstance(caches[0], LocalCache)
    assert caches[0] is caches[1]
    for number in range(9):
        caches[0].set(str(number), number)
    assert len(caches[0]) == 7


def test_memcached_when_it_is_named(ask: Any, Inner: Any, tmp_path: Path) -> None:
    inner = Inner()
    servers = "127.0.0.1:1, [::1]:2"
    ask(filter_factory({"swift_dir": str(tmp_path)}, memcache_servers=servers)(inner), "/")
    assert isinstance(inner.environ["swift.cache"], MemcachedCache)


def test_memcache_conf_is_below_the_filter(tmp_path: Path) -> None:
    (tmp_path / "memcache.conf").write_text(
        "[memcache]\nmemcache_servers = a:1, b:2\nio_timeout = 5\nconnect_timeout = 6\n"
    )
    options = load_cache_options({"swift_dir": str(tmp_path)}, {"io_timeout": "7"})
    assert options.memcache_servers == ["a:1", "b:2"]
    assert (options.io_timeout, options.connect_timeout, options.pool_timeout) == (7, 6, 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"memcache_servers": "a:port"}, "port"),
        ({"memcache_max_connections": "0"}, "at least 1"),
        ({"local_max_entries": "0"}, "at least 1"),
        ({"tries": "3"}, "unknown option 'tries'"),
        (
            {"memcache_servers": "a:1", "tls_enabled": "yes", "tls_cafile": "/does/not/exist"},
            "No such file",
        ),
    ],
)
def test_bad_options_are_named(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    conf = {"swift_dir": str(tmp_path), "__file__": "p.conf"}
    with pytest.raises(ConfigError, match=reason) as caught:
        filter_factory(conf, **options)
    assert str(caught.value).startswith("p.conf [filter:cache]")


def test_bad_memcache_conf_is_named(tmp_path: Path) -> None:
    (tmp_path / "memcache.conf").write_text("[memcache]\nserver = a:1\n")
    with pytest.raises(ConfigError, match=r"memcache\.conf \[memcache\]: unknown option 'server'"):
        filter_factory({"swift_dir": str(tmp_path)})
