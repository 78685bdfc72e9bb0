"""Options are checked once, at start, with sentences that name what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from martlet.conf.cluster import ClusterConf
from martlet.conf.constraints import ConstraintError, Constraints
from martlet.conf.grid import GridConf, GridOptions
from martlet.conf.options import ConfigError, load_options, option
from martlet.grid.secrets import Secrets

SECRET = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"


@dataclass(frozen=True)
class Sample:
    count: int = option(3, "How many")
    wait: float = option(0.5, "How long", "s")
    on: bool = option(False, "Whether")
    names: list[str] = option(["a"], "Which")
    maybe: int | None = option(None, "If any")


def test_values_are_converted() -> None:
    values = {"count": "7", "wait": "1.25", "on": "yes", "names": "x, y", "maybe": "2"}
    assert load_options(Sample, values) == Sample(7, 1.25, True, ["x", "y"], 2)
    assert load_options(Sample, {}) == Sample()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"cuont": "7"}, "unknown option 'cuont'"),
        ({"count": "seven"}, "option count = 'seven': expected a whole number"),
        ({"on": "maybe"}, "expected true or false"),
        ({"wait": "long"}, "expected a number"),
    ],
)
def test_mistakes_are_named(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_options(Sample, values, "x.conf [app:x]")


def test_options_of_swift_that_do_nothing_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    values = {"read_affinity": "r1=100", "log_name": "swift", "log_statsd_port": "8125"}
    for _ in range(2):
        assert load_options(Sample, values, "told.conf [app:proxy-server]") == Sample()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert caplog.messages[0] == (
        "told.conf [app:proxy-server]: option read_affinity of OpenStack Swift has no effect here: "
        "replicas are read in random order, one after the other"
    )
    with pytest.raises(ConfigError, match="unknown option 'read_affinity'"):
        load_options(Sample, values, "told.conf [filter:slo]")


def test_an_option_of_swift_on_which_safety_hangs_is_refused() -> None:
    sentence = "cert_file of OpenStack Swift: martlet does not support TLS"
    with pytest.raises(ConfigError, match=sentence):
        load_options(Sample, {"cert_file": "/x"}, "x.conf [DEFAULT]")
    with pytest.raises(ConfigError, match="PROXY"):
        load_options(Sample, {"require_proxy_protocol": "true"}, "x.conf [app:proxy-server]")
    off = {"require_proxy_protocol": "false"}
    assert load_options(Sample, off, "x.conf [app:proxy-server]") == Sample()


def write_conf(directory: Path, text: str) -> Path:
    (directory / "martlet.conf").write_text(text)
    return directory


def test_cluster_conf(tmp_path: Path) -> None:
    write_conf(
        tmp_path,
        f"[grid]\ngrid_secret = {SECRET}\ngrid_plain_http = 10.1.0.0/16, fd00::1\n"
        "[swift-hash]\nswift_hash_path_suffix = s%%alt\n[swift-constraints]\nmax_meta_count = 5\n"
        "[storage-policy:0]\nname = gold\n[storage-policy:2]\nname = silver\ndefault = yes\n",
    )
    conf = ClusterConf.load(tmp_path)
    assert conf.hash.swift_hash_path_suffix == "s%alt"
    assert conf.constraints.max_meta_count == 5
    assert [(p.index, p.name) for p in conf.policies] == [(0, "gold"), (2, "silver")]
    assert conf.default_policy.index == 2
    assert conf.policy_by_name("GOLD") == conf.policy_by_index(0)
    assert conf.grid.secrets == Secrets.parse(SECRET)
    assert "10.1.2.3" in conf.grid.plain_http
    assert not conf.grid.checksum


HASH = "[swift-hash]\nswift_hash_path_suffix = x\n"


@pytest.mark.parametrize(
    ("options", "secrets"),
    [
        ("grid_secret = none", Secrets()),
        (f"grid_secret = {SECRET}", Secrets((SECRET.encode(),))),
        (
            f"grid_secret = {OTHER}\ngrid_secret_previous = {SECRET}",
            Secrets((OTHER.encode(), SECRET.encode())),
        ),
    ],
)
def test_the_secrets_of_the_cluster(tmp_path: Path, options: str, secrets: Secrets) -> None:
    grid = ClusterConf.load(write_conf(tmp_path, f"{HASH}[grid]\n{options}\n")).grid
    assert grid.secrets == secrets


def test_a_checksum_is_wanted(tmp_path: Path) -> None:
    text = f"{HASH}[grid]\ngrid_secret = none\ngrid_checksum = yes\n"
    assert ClusterConf.load(write_conf(tmp_path, text)).grid.checksum


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        (
            "",
            r"martlet\.conf \[grid\]: grid_secret must be set: at least 32 .*openssl rand -hex 32",
        ),
        ("[grid]\n", "grid_secret must be set"),
        ("[grid]\ngrid_secret = short\n", "grid_secret has 5 characters"),
        (f"[grid]\ngrid_secret = '{SECRET}'\n", "grid_secret may have ASCII letters"),
        (f"[grid]\ngrid_secret = {SECRET}\n  more\n", "grid_secret may have ASCII letters"),
        (f"[grid]\ngrid_secret = {SECRET}ü\n", "grid_secret may have ASCII letters"),
        (f"[grid]\ngrid_secret = none\ngrid_secret_previous = {SECRET}", "combined with 'none'"),
        ("[grid]\ngrid_secret = none\ngrid_plain_http = host7\n", "grid_plain_http: 'host7'"),
        ("[grid]\ngrid_secret = none\ngrid_plain_http = 10.1.1.1/16\n", "has host bits set"),
        ("[grid]\ngrid_secret = none\ngrid_checksum = x\n", "grid_checksum = 'x'"),
        ("[grid]\ngrid_secret = none\ngrid_x = 1\n", "unknown option 'grid_x'"),
    ],
)
def test_mistakes_in_the_section_of_the_grid(tmp_path: Path, section: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        ClusterConf.load(write_conf(tmp_path, HASH + section))
    assert SECRET not in str(caught.value)


def test_a_secret_is_not_shown() -> None:
    options = GridOptions(SECRET, OTHER)
    assert SECRET not in repr(options)
    assert SECRET not in repr(GridConf(Secrets.parse(SECRET)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[swift-hash]\n", "set swift_hash_path_prefix or"),
        ("[swift-hash]\nswift_hash_path_suffix = x\n[other]\n", r"unknown section \[other\]"),
        ("[swift-hash]\nswift_hash_path_suffix = x\n[storage-policy:1]\nname=a\n", "policy:0"),
        ("nonsense", "no section headers"),
    ],
)
def test_cluster_conf_mistakes(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ClusterConf.load(write_conf(tmp_path, text))


def test_missing_cluster_conf(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"martlet\.conf: cannot be read: No such file"):
        ClusterConf.load(tmp_path)


def test_names_are_held_to_their_limits() -> None:
    limits = Constraints()
    limits.check_object_name("ü" * 512)
    for name, status in (("ü" * 513, 400), ("a\x00b", 412)):
        with pytest.raises(ConstraintError) as caught:
            limits.check_object_name(name)
        assert caught.value.status == status
    for check in (limits.check_account_name, limits.check_container_name):
        check("a" * 256)
        check("." + "a" * 511)
        with pytest.raises(ConstraintError, match="slashes"):
            check("a/b")
        for name in ("a" * 257, "." + "a" * 512):
            with pytest.raises(ConstraintError, match=f"length of {len(name)} longer than"):
                check(name)


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Object-Meta-", "v")],
        [("X-Object-Meta-" + "k" * 129, "v")],
        [("X-Object-Meta-K", "v" * 257)],
        [(f"X-Object-Meta-{i}", "v") for i in range(91)],
        [(f"X-Object-Meta-{i}", "v" * 256) for i in range(17)],
        [("X-Whatever", "v" * 8193)],
    ],
)
def test_metadata_over_a_limit_is_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ConstraintError):
        Constraints().check_metadata("object", headers)


def test_metadata_of_objects_alone_may_be_any_bytes() -> None:
    Constraints().check_metadata("object", [("X-Object-Meta-K", "\xff")])
    with pytest.raises(ConstraintError):
        Constraints().check_metadata("container", [("X-Container-Meta-K", "\xff")])


def test_metadata_at_the_limits_is_taken() -> None:
    headers = [(f"X-Object-Meta-{i:02d}", "v" * 43) for i in range(90)]
    Constraints().check_metadata("object", [*headers, ("X-Object-Meta-U", "\xc3\xbc")][:90])
