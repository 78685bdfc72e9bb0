"""The tasks of the expirer: what they ask for, whose they are, and when they leave the queue."""

from __future__ import annotations

from hashlib import md5
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.obj.expirer import (
    ASYNC_DELETE_TYPE,
    get_delay_reaping,
    parse_task_obj,
    read_conf_for_delay_reaping_times,
)

from martlet.conf.options import ConfigError
from martlet.words.expiring import task_name
from martlet.words.timestamp import Timestamp
from replicator.expirer.options import Delays, ExpirerOptions, read_delays
from replicator.expirer.tasks import (
    End,
    Task,
    due_containers,
    end_marker,
    end_of,
    gets_no_more_tasks,
    is_due,
    parse_task,
    removed_row,
    share_of,
)

NOW = Timestamp("1700000000.50000")
WEEK = 604800.0
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: "/" not in name)


def task(due: str = "1700000000", kind: str = "text/plain", path: str = "a/c/o") -> Task:
    return parse_task({"name": f"{due}-{path}", "content_type": kind})


@given(st.integers(0, 9_999_999_999), NAMES, NAMES, st.text(min_size=1, max_size=8))
def test_a_name_is_read_as_swift_reads_it(at: int, account: str, container: str, obj: str) -> None:
    name = task_name(at, account, container, obj)
    found = parse_task({"name": name, "content_type": "text/plain;swift_expirer_bytes=5"})
    due, *swift_path = parse_task_obj(name)
    assert [found.account, found.container, found.obj] == swift_path == [account, container, obj]
    assert (found.due.normal, found.name, found.is_async) == (due.normal, name, False)


@pytest.mark.parametrize(
    "name", ["", "1700000000", "x-a/c/o", "1700000000-a/c", "1700000000-a", "-a/c/o", "1-/c/o"]
)
def test_what_is_no_task_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_task({"name": name, "content_type": "text/plain"})


def test_an_expired_object_is_deleted_only_if_it_has_that_time() -> None:
    assert task().headers == {
        "X-Timestamp": "1700000000.00000",
        "X-If-Delete-At": "1700000000.00000",
        "X-Backend-Clean-Expiring-Object-Queue": "no",
    }


def test_an_asynchronous_deletion_has_no_condition_and_a_precise_time() -> None:
    found = task("1699999999.12345", ASYNC_DELETE_TYPE)
    assert found.is_async
    assert found.headers == {"X-Timestamp": "1699999999.12345"}


@pytest.mark.parametrize(
    ("status", "age", "kind", "end"),
    [
        (204, 0, "text/plain", End.DELETED),
        (200, 0, "text/plain", End.DELETED),
        (409, 0, "text/plain", End.GONE),
        (404, 0, "text/plain", End.WAITING),
        (412, 0, "text/plain", End.WAITING),
        (404, WEEK - 1, "text/plain", End.WAITING),
        (404, WEEK, "text/plain", End.GIVEN_UP),
        (412, WEEK, "text/plain", End.GIVEN_UP),
        (404, 0, ASYNC_DELETE_TYPE, End.GONE),
        (412, 3599, ASYNC_DELETE_TYPE, End.WAITING),
        (412, 3600, ASYNC_DELETE_TYPE, End.GIVEN_UP),
        (403, 0, ASYNC_DELETE_TYPE, End.WAITING),
        (403, WEEK, ASYNC_DELETE_TYPE, End.GIVEN_UP),
        (403, WEEK, "text/plain", End.FAILED),
        (503, WEEK, "text/plain", End.FAILED),
        (507, 0, "text/plain", End.FAILED),
        (401, WEEK, "text/plain", End.FAILED),
    ],
)
def test_the_end_of_a_task(status: int, age: float, kind: str, end: End) -> None:
    now = Timestamp(1700000000 + age)
    assert end_of(status, task(kind=kind), now, WEEK) is end


def test_only_what_is_done_leaves_the_queue() -> None:
    assert {end for end in End if end.is_done} == {End.DELETED, End.GONE, End.GIVEN_UP}


@given(NAMES, st.integers(1, 9))
def test_processes_share_the_tasks_as_those_of_swift_do(name: str, processes: int) -> None:
    number = int(md5(f"1699999999/{name}".encode()).hexdigest(), 16) % processes
    assert share_of("1699999999", name, processes) == number


def test_one_process_has_all_tasks() -> None:
    assert {share_of("1", str(number), 0) for number in range(20)} == {0}


def test_containers_are_due_from_their_first_moment() -> None:
    names = ["0000000000", "1699999999", "1700000000", "1700000001", "x", "12x", "١٢"]
    assert list(due_containers(names, NOW)) == names[:3]


@given(st.integers(0, 2), st.sampled_from(["", ".99999"]), NAMES)
def test_the_end_marker_is_after_all_due_names(before: int, fraction: str, account: str) -> None:
    second = 1700000000 - before
    assert f"{second}{fraction}-{account}/c/o" < end_marker(NOW)
    assert f"{1700000001}-{account}/c/o" >= end_marker(NOW)


def test_a_container_is_kept_until_all_its_times_have_passed() -> None:
    """The tasks of a container are of its day, whose start is up to 99 seconds after its name."""
    for shard in (0, 99):
        day = 1699920000
        last = day + 86399
        container = str(day - shard)
        assert not gets_no_more_tasks(container, Timestamp(last), 86400)
        assert gets_no_more_tasks(container, Timestamp(day + 86400 + 101), 86400)
    assert gets_no_more_tasks("1699996300", Timestamp(1700000001), 3600)


def test_a_removed_row_is_newer_than_the_task() -> None:
    row = removed_row("1700000000-a/c/o", NOW)
    assert (row["created_at"], row["deleted"], row["size"]) == ("1700000000.50000", 1, 0)


# --- delays ---------------------------------------------------------------------------------------

DELAYS = {
    "delay_reaping_AUTH_test": "300.0",
    "delay_reaping_AUTH_test/test": "400",
    "delay_reaping_AUTH_test/special%0Achars%3Dshould%20be%20quoted": "5",
    "delay_reaping_other/c": "7",
    "interval": "x",
}


@pytest.mark.parametrize("account", ["AUTH_test", "other", "third"])
@pytest.mark.parametrize("container", ["test", "c", "special\nchars=should be quoted"])
def test_delays_are_those_of_swift(account: str, container: str) -> None:
    swift = read_conf_for_delay_reaping_times(DELAYS)
    found = read_delays(DELAYS, "conf").of(account, container)
    assert found == get_delay_reaping(swift, account, container)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("delay_reaping_", "1", "is not of the form delay_reaping_ACCOUNT"),
        ("delay_reaping_/c", "1", "is not of the form"),
        ("delay_reaping_a/", "1", "is not of the form"),
        ("delay_reaping_a/b/c", "1", "is not of the form"),
        ("delay_reaping_a", "-1", "expected a number, 0 or above"),
        ("delay_reaping_a", "soon", "expected a number"),
        ("delay_reaping_a", "inf", "expected a number"),
        ("delay_reaping_a", "nan", "expected a number"),
    ],
)
def test_a_wrong_delay_is_a_sentence(name: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_delays({name: value}, "conf [object-expirer]")


def test_a_delay_holds_back_expired_objects_only() -> None:
    delays = Delays({("a", ""): 10.0})
    assert is_due(task("1699999990"), NOW, delays)
    assert not is_due(task("1699999991"), NOW, delays)
    assert is_due(task("1699999991"), NOW, Delays())
    assert is_due(task("1699999991", ASYNC_DELETE_TYPE), NOW, delays)
    assert not is_due(task("1700000000.60000", ASYNC_DELETE_TYPE), NOW, delays)
    assert not is_due(task("1700000001"), NOW, Delays())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"interval": 0.0}, "interval must be above 0"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"tasks_per_second": -1.0}, "tasks_per_second must not be negative"),
        ({"processes": 2, "process": 2}, "process must be from 0 to processes - 1"),
        ({"process": 1}, "process must be from 0 to processes - 1"),
        ({"expiring_objects_container_divisor": 100}, "must be above 100"),
        ({"expiring_objects_account_name": "a/b"}, "a name without a slash"),
        ({"nice_priority": 20}, "nice_priority must be from -20 to 19"),
        ({"ionice_class": "IDLE"}, "ionice_class must be one of"),
        ({"ionice_priority": 8}, "ionice_priority must be from 0 to 7"),
    ],
)
def test_an_option_out_of_its_range_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ExpirerOptions(**options)
