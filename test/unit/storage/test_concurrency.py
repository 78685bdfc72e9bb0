"""Writers share commits; several things are done at once."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from storage.concurrency import for_each
from storage.group_commit import GroupCommit


def test_a_lone_writer_does_not_wait() -> None:
    groups: list[list[int]] = []

    def commit(works: list[int]) -> list[Any]:
        groups.append(works)
        return [work * 10 for work in works]

    queue = GroupCommit(commit)
    assert [queue.submit(n) for n in (1, 2)] == [10, 20]
    assert groups == [[1], [2]]


def test_works_are_committed_in_order_of_arrival_and_each_gets_its_outcome() -> None:
    entered, may_go_on = threading.Event(), threading.Event()
    groups: list[list[int]] = []

    def commit(works: list[int]) -> list[Any]:
        groups.append(works)
        if len(groups) == 1:
            entered.set()
            assert may_go_on.wait(10)
        return [ValueError(str(work)) if work == 3 else work * 10 for work in works]

    queue = GroupCommit(commit)
    with ThreadPoolExecutor(8) as pool:
        futures = {0: pool.submit(queue.submit, 0)}
        assert entered.wait(10)
        for work in range(1, 6):
            futures[work] = pool.submit(queue.submit, work)
            while len(queue._queue) < work:
                assert not futures[work].done()
        may_go_on.set()
        with pytest.raises(ValueError, match="3"):
            futures.pop(3).result(10)
        assert {work: future.result(10) for work, future in futures.items()} == {
            work: work * 10 for work in (0, 1, 2, 4, 5)
        }
    assert groups == [[0], [1, 2, 3, 4, 5]]


def test_a_failed_commit_fails_all_of_its_group_and_none_after_it() -> None:
    outcomes: list[Any] = [OSError("no space"), [7]]

    def commit(works: list[str]) -> list[Any]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return list(outcome)

    queue = GroupCommit(commit)
    with pytest.raises(OSError, match="no space"):
        queue.submit("a")
    assert queue.submit("b") == 7


def test_many_threads_and_few_commits() -> None:
    lock = threading.Lock()
    running = 0
    committed: list[int] = []

    def commit(works: list[int]) -> list[Any]:
        nonlocal running
        with lock:
            running += 1
            assert running == 1  # never two at once
        committed.extend(works)
        with lock:
            running -= 1
        return works

    queue = GroupCommit(commit)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(queue.submit, range(2000))) == list(range(2000))
    assert sorted(committed) == list(range(2000))


def test_without_green_threads_things_come_one_after_another() -> None:
    seen: list[int] = []
    for_each(seen.append, [1, 2, 3], at_once=2)
    assert seen == [1, 2, 3]


GREEN = """
import warnings; warnings.simplefilter("ignore")
import eventlet; eventlet.monkey_patch()
from eventlet.patcher import original
from martlet.service.disk_calls import on_disk
from storage.concurrency import for_each
from storage.group_commit import GroupCommit
native = original("threading")

# While one commit blocks, the others gather.
groups, release = [], native.Event()
def commit(works):
    groups.append(list(works))
    if len(groups) == 1:
        assert release.wait(10)
    return works
queue = GroupCommit(lambda works: on_disk("/d1", commit, works))
results = []
threads = [eventlet.spawn(lambda n=n: results.append(queue.submit(n))) for n in range(50)]
while len(queue._queue) < 49:
    eventlet.sleep(0)
release.set()
for thread in threads:
    thread.wait()
assert [len(group) for group in groups] == [1, 49], groups
assert sorted(results) == list(range(50))

at_once, most = 0, 0
def item(_):
    global at_once, most
    at_once += 1
    most = max(most, at_once)
    eventlet.sleep(0)
    at_once -= 1
for_each(item, range(20), 4)
assert most == 4
print("passed")
"""


def test_under_eventlet() -> None:
    """In a process of its own, which may be patched."""
    done = subprocess.run(
        [sys.executable, "-c", GREEN], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "passed\n"
