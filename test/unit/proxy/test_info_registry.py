"""/info is put together from what each part registers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.info_registry import clear_info, collect_info, register_info


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[None]:
    clear_info()
    yield
    clear_info()


def test_sections_are_merged() -> None:
    register_info(max_file_size=5)
    register_info("swift", version="1")
    register_info("tempauth", account_acls=True)
    assert collect_info() == {
        "swift": {"max_file_size": 5, "version": "1"},
        "tempauth": {"account_acls": True},
    }


def test_answer_is_a_copy() -> None:
    register_info(policies=[{"name": "gold"}])
    collect_info()["swift"]["policies"][0]["name"] = "changed"
    assert collect_info()["swift"]["policies"] == [{"name": "gold"}]


@pytest.mark.parametrize(
    ("disallowed", "left"),
    [
        (["tempauth"], {"swift": {"a": {"b": 1, "c": 2}}}),
        (["swift.a.b"], {"swift": {"a": {"c": 2}}, "tempauth": {"account_acls": True}}),
        (["swift.x.y", "none", "swift.a.b.c"], None),
    ],
)
def test_disallowed_sections_are_left_out(
    disallowed: list[str], left: dict[str, object] | None
) -> None:
    register_info(a={"b": 1, "c": 2})
    register_info("tempauth", account_acls=True)
    expected = collect_info() if left is None else left
    assert collect_info(disallowed_sections=disallowed) == expected


def test_admin_information_is_for_admins() -> None:
    register_info("swift", admin=True, secret=1)
    assert collect_info() == {}
    assert collect_info(admin=True, disallowed_sections=["x"]) == {
        "admin": {"swift": {"secret": 1}, "disallowed_sections": ["x"]}
    }


@pytest.mark.parametrize("name", ["admin", "disallowed_sections", "with.dot"])
def test_bad_section_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"reserved|dot"):
        register_info(name, a=1)


def test_bad_value_names_are_refused() -> None:
    with pytest.raises(ValueError, match="dot"):
        register_info("swift", **{"a.b": 1})
