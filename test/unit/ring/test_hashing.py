"""A name's partition is the same for every version and every language, or data is lost."""

import json
from pathlib import Path

import pytest

from ring.errors import HashConfError
from ring.hashing import HashPath, partition_of

GOLDEN = Path(__file__).parents[2] / "golden" / "ring"


def test_hashes_and_partitions_are_those_of_openstack_swift() -> None:
    cases = json.loads((GOLDEN / "assignments.json").read_text())["hashes"]
    assert len(cases) >= 5
    for case in cases:
        hash_path = HashPath(case["prefix"].encode("latin-1"), case["suffix"].encode("latin-1"))
        assert hash_path.hexdigest(*case["path"]) == case["hash"]
        for shift, partition in case["partition_by_part_shift"].items():
            assert partition_of(hash_path.digest(*case["path"]), int(shift)) == partition


def test_an_object_needs_a_container() -> None:
    with pytest.raises(ValueError, match="needs a container"):
        HashPath(b"", b"x").digest("a", None, "o")


def test_a_name_that_utf8_cannot_express_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        HashPath(b"", b"x").digest("a", "c", "\udc80")


def test_prefix_and_suffix_come_from_the_conf_byte_by_byte(tmp_path: Path) -> None:
    conf = tmp_path / "martlet.conf"
    conf.write_bytes(
        b"[swift-hash]\nswift_hash_path_prefix = pr\xe9 # x\nswift_hash_path_suffix = 5%%x\n"
    )
    assert HashPath.from_conf(conf) == HashPath(b"pr\xe9 # x", b"5%x")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "set swift_hash_path_prefix or swift_hash_path_suffix"),
        ("[swift-hash]\n", "set swift_hash_path_prefix or swift_hash_path_suffix"),
        ("[swift-hash]\nswift_hash_path_suffix =\n", "set swift_hash_path_prefix"),
        ("swift_hash_path_suffix = x\n", "no section headers"),
        ("[swift-hash]\nswift_hash_path_suffix = 5%x\n", "'%' must be followed"),
    ],
)
def test_a_conf_without_secrets_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    conf = tmp_path / "martlet.conf"
    conf.write_text(content)
    with pytest.raises(HashConfError, match=sentence) as caught:
        HashPath.from_conf(conf)
    assert str(conf) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_conf_is_named(tmp_path: Path) -> None:
    with pytest.raises(HashConfError, match=r"martlet\.conf: cannot be read"):
        HashPath.from_conf(tmp_path / "martlet.conf")
