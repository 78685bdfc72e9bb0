"""The options of the proxy, and the sample that shows them."""

from __future__ import annotations

import configparser
import dataclasses
import re
from pathlib import Path

import google_crc32c
import pytest

from martlet.conf.options import ConfigError, load_options, warn_once
from martlet.service.server import ServerOptions
from proxy.app import app_factory
from proxy.config import ProxyOptions

SAMPLE = Path(__file__).parents[3] / "etc" / "proxy-server.conf-sample"


def commented_options(section: str) -> dict[str, str]:
    """The ``# name = default`` lines of a section of the sample."""
    body = SAMPLE.read_text().partition(f"\n[{section}]\n")[2].partition("\n[")[0]
    return dict(re.findall(r"^# (\w+) = ?(.*)$", body, re.MULTILINE))


def test_sample_shows_every_option_with_its_default() -> None:
    shown = commented_options("app:proxy-server")
    shown["account_autocreate"] = "false"  # it is set: without it a first upload would be 404
    assert set(shown) == {field.name for field in dataclasses.fields(ProxyOptions)}
    assert load_options(ProxyOptions, shown) == ProxyOptions()


def test_sample_shows_the_options_of_the_server() -> None:
    shown = commented_options("DEFAULT")
    of_storage_servers = {"devices", "mount_check"}
    known = {field.name for field in dataclasses.fields(ServerOptions)}
    assert set(shown) == known - of_storage_servers - {"bind_port"}
    assert load_options(ServerOptions, shown) == ServerOptions()


def test_every_filter_of_the_sample_pipeline_has_its_section() -> None:
    parser = configparser.RawConfigParser()
    parser.read(SAMPLE)
    *filters, app = parser["pipeline:main"]["pipeline"].split()
    assert f"app:{app}" in parser
    assert all(f"filter:{name}" in parser for name in filters)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"sorting_method": "afinity"}, "sorting_method"),
        ({"request_node_count": "many"}, "request_node_count"),
        ({"request_node_count": "0"}, "request_node_count"),
        ({"node_timeout": "soon"}, "node_timeout"),
        ({"client_chunk_size": "0"}, "client_chunk_size"),
        ({"no_such_option": "1"}, "no_such_option"),
    ],
)
def test_bad_options_are_named(values: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        app_factory({"__file__": "proxy-server.conf"}, **values)


def test_a_policy_without_its_ring_is_named(tmp_path: Path) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = x\n"
    )
    with pytest.raises(ConfigError, match=r"object\.ring\.gz is missing: storage policy 0"):
        app_factory({"swift_dir": str(tmp_path)})


@pytest.mark.parametrize(("implementation", "count"), [("c", 0), ("python", 1)])
def test_slow_checksums_are_a_warning(
    implementation: str,
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(google_crc32c, "implementation", implementation)
    warn_once.cache_clear()
    for _ in range(2):  # several parts of a service may make the application
        with pytest.raises(ConfigError):  # there is no cluster here
            app_factory({"swift_dir": str(tmp_path)})
    warnings = [record for record in caplog.records if "google_crc32c" in record.message]
    assert len(warnings) == count
    assert all("install a release of google-crc32c" in one.message for one in warnings)


@pytest.mark.parametrize(
    ("text", "replicas", "count"),
    [("2 * replicas", 3, 6), ("5", 3, 5), ("3*replicas", 2, 6), ("1 * replicas", 4, 4)],
)
def test_request_node_count(text: str, replicas: int, count: int) -> None:
    assert ProxyOptions(request_node_count=text).node_count(replicas) == count
