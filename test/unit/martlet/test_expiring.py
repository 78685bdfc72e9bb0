"""The names of the queue of expiring objects are those of OpenStack Swift."""

from __future__ import annotations

from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.obj.expirer import ExpirerConfig, build_task_obj

from martlet.words.expiring import is_task_container, task_container, task_name

TIMES = st.integers(86400, 9_999_999_999)


@given(TIMES, st.binary(min_size=16, max_size=16))
def test_a_container_is_of_the_day_and_near(delete_at: int, digest: bytes) -> None:
    name = task_container(digest, delete_at)
    assert len(name) == 10
    day = delete_at // 86400 * 86400
    assert day - 100 < int(name) <= day
    assert is_task_container(int(name))


def test_the_container_of_swift() -> None:
    """Its queue must be found by its expirer."""
    digest = md5(b"/AUTH_a/c/osalt").digest()
    expected = f"{1700000000 // 86400 * 86400 - int.from_bytes(digest, 'big') % 100:010d}"
    assert task_container(digest, 1700000000) == expected


@pytest.mark.parametrize("divisor", [86400, 3600])
def test_swift_expects_the_same_containers(divisor: int) -> None:
    conf = {"expiring_objects_container_divisor": str(divisor)}
    swift = ExpirerConfig({} if divisor == 86400 else conf)
    day = 1700000000 // 86400 * 86400
    for number in (*range(day - 300, day + 300), *range(day - 3600 - 150, day - 3600 + 150)):
        found = is_task_container(number, divisor)
        assert found == swift.is_expected_task_container(number), number


@given(TIMES, st.text(min_size=1, max_size=20))
def test_the_name_of_a_task_is_that_of_swift(delete_at: int, name: str) -> None:
    assert task_name(delete_at, "a", "c", name) == build_task_obj(delete_at, "a", "c", name)
