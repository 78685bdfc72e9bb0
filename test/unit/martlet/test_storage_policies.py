"""Storage policies are read by OpenStack Swift's rules."""

import configparser
from pathlib import Path

import pytest
from swift.common.storage_policy import PolicyError, parse_storage_policies

from martlet.conf.cluster import ClusterConf
from martlet.conf.options import ConfigError
from martlet.conf.storage_policies import StoragePolicy, read_policies

GOLD = "[storage-policy:0]\nname=gold\n"
DEFAULT_GOLD = GOLD + "default=yes\n"


def read(text: str) -> tuple[StoragePolicy, ...]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return read_policies("x.conf", {name: dict(parser[name]) for name in parser.sections()})


def swift_reads(text: str) -> list[tuple[int, str, bool, bool, list[str]]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return [
        (int(p), p.name, p.is_default, p.is_deprecated, p.alias_list)
        for p in parse_storage_policies(parser)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOLD,
        DEFAULT_GOLD + "aliases = yellow, au\n[storage-policy:1]\nname=silver\naliases=white\n",
        GOLD + "deprecated=yes\n[storage-policy:1]\nname=silver\ndefault=true\n",
        DEFAULT_GOLD + "[storage-policy:07]\nname=b-7\n[storage-policy:3]\nname=three\n",
        DEFAULT_GOLD + "aliases=Policy-0\n",
    ],
)
def test_policies_are_those_of_openstack_swift(text: str) -> None:
    ours = [(p.index, p.name, p.is_default, p.is_deprecated, list(p.names)) for p in read(text)]
    assert ours == sorted(swift_reads(text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOLD + "[storage-policy:1]\nname=b\n", "exactly one storage policy"),
        (DEFAULT_GOLD + "[storage-policy:1]\nname=b\ndefault=yes\n", "exactly one"),
        (DEFAULT_GOLD + "deprecated=yes\n[storage-policy:1]\nname=b\n", "not deprecated"),
        (GOLD + "deprecated=yes\n", "not deprecated"),
        ("[storage-policy:1]\nname=b\ndefault=yes\n", r"\[storage-policy:0\] section is required"),
        (DEFAULT_GOLD + "[storage-policy:00]\nname=b\n", "two sections for storage policy 0"),
        (DEFAULT_GOLD + "[storage-policy:1]\nname=GOLD\n", "the same name"),
        (DEFAULT_GOLD + "aliases=b\n[storage-policy:1]\nname=B\n", "the same name"),
        (DEFAULT_GOLD + "[storage-policy:1]\nname=policy-0\n", "reserved for storage policy 0"),
        ("[storage-policy:0]\nname=go ld\n", "'go ld' is not a name"),
        ("[storage-policy:0]\nname=a\naliases=b_c\n", "'b_c' is not a name"),
        (DEFAULT_GOLD + "[storage-policy:1]\n", "'' is not a name"),
        (DEFAULT_GOLD + "[storage-policy:x]\nname=b\n", r"unknown section \[storage-policy:x\]"),
    ],
)
def test_what_openstack_swift_refuses_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(PolicyError):
        swift_reads(text)
    with pytest.raises(ConfigError, match=sentence):
        read(text)


def test_an_alias_names_its_policy(tmp_path: Path) -> None:
    salt = "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = x\n"
    (tmp_path / "martlet.conf").write_text(salt + DEFAULT_GOLD + "aliases=au\n")
    conf = ClusterConf.load(tmp_path)
    assert conf.policy_by_name("AU") == conf.policy_by_name("gold") == conf.default_policy
    assert conf.policy_by_name("ag") is None
