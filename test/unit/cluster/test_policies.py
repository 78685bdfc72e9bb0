"""The storage policies of a home: those of its martlet.conf stay, those wanted are added."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.confs import write_confs
from cluster.errors import ClusterError
from cluster.layout import Home, Layout
from cluster.policies import WantedPolicy, parse_wanted, read_cluster_policies
from martlet.conf.cluster import ClusterConf
from martlet.conf.storage_policies import StoragePolicy


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "etc").mkdir()
    return Home(tmp_path)


def start(home: Home, *wanted: str) -> ClusterConf:
    """What `martlet up` writes, as the services read it."""
    layout = Layout.create(1)
    for directory in home.directories(layout):
        directory.mkdir(parents=True, exist_ok=True)
    policies = read_cluster_policies(home, [parse_wanted(text) for text in wanted])
    ports = {"account": 1, "container": 2, "object": 3}
    layout.nodes[0].ports.update(ports)  # type: ignore[attr-defined]
    write_confs(home, layout, policies)
    conf = ClusterConf.load(home.etc)
    assert conf.policies == policies.policies
    return conf


def names(conf: ClusterConf) -> list[str]:
    return [policy.name for policy in conf.policies]


def test_a_new_home_has_one_policy(home: Home) -> None:
    assert start(home).policies == (StoragePolicy(0, "Policy-0", is_default=True),)


def test_the_first_wanted_of_a_new_home_is_the_default(home: Home) -> None:
    conf = start(home, "gold", "silver:2", "Silver")
    assert names(conf) == ["gold", "silver"]
    assert conf.default_policy.index == 0
    assert names(start(home)) == ["gold", "silver"]


def test_a_used_home_gets_what_it_lacks(home: Home) -> None:
    start(home)
    assert names(start(home, "silver", "policy-0")) == ["Policy-0", "silver"]
    conf = start(home, "bronze", "SILVER")
    assert names(conf) == ["Policy-0", "silver", "bronze"]
    assert conf.default_policy.name == "Policy-0"


def test_what_an_operator_wrote_is_kept(home: Home) -> None:
    (home.etc / "martlet.conf").write_text(
        "[swift-hash]\nswift_hash_path_suffix = old\n"
        "[swift-constraints]\nmax_file_size = 12345\n"
        "[storage-policy:0]\nname = gold\naliases = yellow,\n  au\ndeprecated = yes\n"
        "[storage-policy:7]\nname = silver\ndefault = yes\n"
    )
    for wanted in ((), ("AU", "bronze"), ()):
        conf = start(home, *wanted)
        assert conf.constraints.max_file_size == 12345
        gold = StoragePolicy(0, "gold", is_deprecated=True, aliases=("yellow", "au"))
        assert conf.policies[:2] == (gold, StoragePolicy(7, "silver", is_default=True))
        assert conf.hash.swift_hash_path_suffix != "old"  # cluster.json knows it
    assert conf.policies[2:] == (StoragePolicy(8, "bronze"),)


@pytest.mark.parametrize("number", ["0", "00"])
def test_policy_0_becomes_the_default_when_a_second_comes(home: Home, number: str) -> None:
    (home.etc / "martlet.conf").write_text(f"[storage-policy:{number}]\nname = gold\n")
    assert start(home, "silver").default_policy.name == "gold"


@pytest.mark.parametrize(
    ("conf", "wanted", "sentence"),
    [
        (None, ["go ld"], "'go ld' is not a name"),
        (None, [""], "'' is not a name"),
        (None, ["a", "Policy-0"], "reserved for storage policy 0"),
        (None, ["a:x"], "--policy a:x: 'x' is not a number of replicas"),
        (None, ["a:0"], "'0' is not a number of replicas"),
        (None, ["a:nan"], "'nan' is not a number of replicas"),
        (None, ["a:"], "'' is not a number of replicas"),
        (None, ["a:2", "A:3"], "--policy A is given with two numbers of replicas"),
        ("[storage-policy:0]\nname = a\ncolour = red\n", [], "unknown option 'colour'"),
        ("[elsewhere]\n", [], r"unknown section \[elsewhere\]"),
        ("[swift-constraints]\nmax_file_size = big\n", [], "max_file_size"),
        ("[storage-policy:1]\nname = a\n", [], r"\[storage-policy:0\] section is required"),
        ("not an ini file", [], "not a valid ini file"),
    ],
)
def test_a_mistake_is_a_sentence_and_changes_nothing(
    home: Home, conf: str | None, wanted: list[str], sentence: str
) -> None:
    path = home.etc / "martlet.conf"
    if conf is not None:
        path.write_text(conf)
    with pytest.raises(ClusterError, match=sentence):
        start(home, *wanted)
    assert (path.read_text() if path.exists() else None) == conf


def test_wanted_replicas_may_have_a_fraction() -> None:
    assert parse_wanted("gold:2.5") == WantedPolicy("gold", 2.5)
