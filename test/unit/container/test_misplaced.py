"""Names, times and steps of the queue of misplaced objects are OpenStack Swift's."""

from types import SimpleNamespace
from typing import Any

import pytest
from swift.container import reconciler as swift

from container.misplaced import (
    Entry,
    Step,
    next_step,
    parse_entry,
    queue_container,
    queue_row,
)
from container.record import Record
from martlet.words.timestamp import Timestamp

TIME = "1700000000.12345"
RECLAIM_AGE = 1000.0


def entry(is_deletion: bool = False, written_at: str = TIME) -> Entry:
    times = Timestamp(written_at), Timestamp("1700000005.00000")
    return Entry("1:/a/c/o", 1, "a", "c", "o", is_deletion, *times)


def listed(**values: Any) -> dict[str, Any]:
    default = {
        "name": "1:/a/c/o/p",
        "hash": TIME,
        "content_type": "application/x-put",
        "last_modified": "2023-11-14T22:13:25.000010",
        "bytes": 0,
    }
    return default | values


@pytest.mark.parametrize("deleted", [0, 1])
@pytest.mark.parametrize("created_at", [TIME, TIME + "_5", TIME + "+10+20"])
def test_rows_are_those_of_openstack_swift(created_at: str, deleted: int) -> None:
    record = Record("o/p", created_at, 7, "text/plain", "etag", deleted, 3)
    broker = SimpleNamespace(root_account="a", root_container="c")
    wanted = swift.get_row_to_q_entry_translator(broker)(record._asdict())
    container, row = queue_row("a", "c", record)
    assert {**row, "deleted": 0} == {**wanted, "storage_policy_index": 0}
    assert container == swift.get_reconciler_container_name(created_at.partition("+")[0])


@pytest.mark.parametrize(
    "row",
    [
        listed(),
        listed(content_type="application/x-delete", hash=TIME + "_000000000000000a"),
        listed(hash=TIME + "+10+20", name="12:/AUTH_x/c d/é"),
    ],
)
def test_entries_are_read_as_openstack_swift_reads_them(row: dict[str, Any]) -> None:
    found, wanted = parse_entry(row), swift.parse_raw_obj(row)
    assert found == Entry(
        row["name"],
        wanted["q_policy_index"],
        wanted["account"],
        wanted["container"],
        wanted["obj"],
        wanted["q_op"] == "DELETE",
        Timestamp(wanted["q_ts"].internal),
        Timestamp(wanted["q_record"].internal),
    )


@pytest.mark.parametrize(
    "values",
    [
        {"name": "a/c/o"},
        {"name": "x:/a/c/o"},
        {"name": "1:/a/c"},
        {"content_type": "text/plain"},
        {"hash": "none"},
        {"last_modified": "yesterday"},
    ],
)
def test_what_is_no_entry_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the sentences are of several functions
        parse_entry(listed(**values))


def test_an_hour_of_objects_shares_a_container() -> None:
    hour = 1699999200
    assert queue_container(Timestamp(hour)) == str(hour)
    assert queue_container(Timestamp(hour + 3599.99999)) == str(hour)
    assert queue_container(Timestamp(hour + 3600)) == str(hour + 3600)


def test_each_step_outranks_what_it_replaces_and_no_later_write() -> None:
    queued = entry(written_at=TIME + "_4")
    assert queued.removed_at(Timestamp(0)).internal == TIME + "_0000000000000005"
    assert queued.deleted_at.internal == TIME + "_0000000000000007"
    assert queued.moved_at(Timestamp(0)).internal == TIME + "_0000000000000007"
    newer = Timestamp("1700000001.00000_2")
    assert queued.moved_at(newer).internal == "1700000001.00000_0000000000000005"
    assert queued.removed_at(newer).internal == "1700000001.00000_0000000000000003"
    assert queued.done_at.internal == "1700000005.00000_0000000000000002"
    for step in (queued.removed_at(Timestamp(0)), queued.deleted_at):
        assert queued.written_at < step < Timestamp("1700000000.12346")


OLDER, NEWER = "1600000000.00000", "1700000001.00000"


@pytest.mark.parametrize(
    ("is_deletion", "status", "source", "age", "step"),
    [
        (False, 200, TIME, 1, Step.COPY),
        (False, 200, NEWER, 5000, Step.COPY),
        (True, 200, NEWER, 1, Step.COPY),  # it was put again after the delete
        (False, 200, OLDER, 999, Step.WAIT),
        (False, 404, "0", 999, Step.WAIT),
        (False, 503, "0", 999, Step.WAIT),
        (False, 200, OLDER, 1001, Step.GIVE_UP),
        (False, 404, "0", 1001, Step.GIVE_UP),
        (True, 404, TIME, 1, Step.DELETE),
        (True, 404, "0", 1, Step.DELETE),
        (True, 404, "0", 5000, Step.DELETE),
        (True, 200, OLDER, 1, Step.WAIT),
        (True, 503, "0", 1, Step.WAIT),
        (True, 503, "0", 1001, Step.GIVE_UP),
    ],
)
def test_the_next_step(is_deletion: bool, status: int, source: str, age: float, step: Step) -> None:
    now = Timestamp(float(Timestamp(TIME)) + age)
    assert next_step(entry(is_deletion), status, Timestamp(source), now, RECLAIM_AGE) is step
