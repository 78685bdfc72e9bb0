"""The in-process cache: time to live, bounded size, and truth between worker processes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cache.generations import SharedGenerations
from proxy.cache.local import LocalCache


class Clock:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_value_lives_until_its_time_is_over() -> None:
    clock = Clock()
    cache = LocalCache(clock=clock)
    cache.set("k", {"a": 1}, time=60)
    clock.now += 59.9
    assert cache.get("k") == {"a": 1}
    clock.now += 0.1
    assert cache.get("k") is None
    assert len(cache) == 0


def test_no_time_means_no_end() -> None:
    clock = Clock()
    cache = LocalCache(clock=clock)
    cache.set("k", "v")
    clock.now += 1e9
    assert cache.get("k") == "v"


def test_bytes_are_kept_as_text() -> None:
    cache = LocalCache()
    cache.set("k", "é".encode())
    assert cache.get("k") == "é"


def test_least_recently_used_goes_first() -> None:
    cache = LocalCache(max_entries=2)
    cache.set("a", 1)
    cache.set("b", 2)
    assert cache.get("a") == 1
    cache.set("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_deleted_is_gone() -> None:
    cache = LocalCache()
    cache.set("k", 1)
    cache.delete("k")
    assert cache.get("k") is None


def test_fetched_value_is_kept_under_its_lease() -> None:
    cache = LocalCache()
    value, lease = cache.lookup("k")
    assert value is None
    cache.set("k", "fetched", lease=lease)
    assert cache.lookup("k")[0] == "fetched"


def test_value_fetched_before_a_change_is_not_kept_after_it() -> None:
    cache = LocalCache()
    _, lease = cache.lookup("k")
    cache.delete("k")
    cache.set("k", "fetched before the change", lease=lease)
    assert cache.get("k") is None


@pytest.mark.parametrize("with_lease", [True, False])
def test_two_workers_that_fetch_the_same_key_both_keep_it(with_lease: bool) -> None:
    generations = SharedGenerations()
    one, two = LocalCache(generations=generations), LocalCache(generations=generations)
    for cache in (one, two):
        lease = cache.lookup("k")[1]
        cache.set("k", "v", lease=lease if with_lease else None)
    assert (one.get("k"), two.get("k")) == ("v", "v")


@pytest.mark.parametrize("count", [0, -1, 3, 1000])
def test_slot_count_must_be_a_power_of_two(count: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        SharedGenerations(count)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["lookup", "store", "delete", "set"]),
            st.integers(0, 2),  # which worker
            st.sampled_from(["a", "b", "c"]),
        ),
        max_size=60,
    )
)
def test_no_worker_ever_serves_what_was_changed_since_it_was_fetched(
    steps: list[tuple[str, int, str]],
) -> None:
    """Against a model with one true value a key; one slot, so that all keys collide."""
    generations = SharedGenerations(1)
    workers = [LocalCache(generations=generations) for _ in range(3)]
    truth = dict.fromkeys("abc", 0)
    fetched: dict[tuple[int, str], tuple[int, int | bytes]] = {}
    for number, (step, worker, key) in enumerate(steps, start=1):
        cache = workers[worker]
        if step == "lookup":
            value, lease = cache.lookup(key)
            assert value in (None, truth[key])
            fetched[worker, key] = (truth[key], lease)
        elif step == "store" and (worker, key) in fetched:
            value, lease = fetched[worker, key]
            cache.set(key, value, lease=lease)
        elif step in ("delete", "set"):
            truth[key] = number
            cache.delete(key)
            if step == "set":
                cache.set(key, number)
    for cache in workers:
        for key, true_value in truth.items():
            assert cache.get(key) in (None, true_value)


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked process and return its pid; it exits 0 when nothing was raised."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


class Turn:
    """A pipe: one process waits until another says it is its turn."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def give(self) -> None:
        os.write(self._write, b".")

    def wait(self) -> None:
        assert os.read(self._read, 1) == b"."


def test_change_in_one_process_is_seen_in_the_other() -> None:
    cache = LocalCache()  # before the fork, as the pipeline is loaded
    to_child, to_parent = Turn(), Turn()

    def reader() -> None:
        cache.set("k", "old", lease=cache.lookup("k")[1])
        cache.set("other", "kept", lease=cache.lookup("other")[1])
        _, lease = cache.lookup("fetching")
        to_parent.give()
        to_child.wait()
        assert cache.get("k") is None
        assert cache.get("other") == "kept"
        cache.set("fetching", "stale", lease=lease)
        assert cache.get("fetching") is None
        cache.set("k", "new", lease=cache.lookup("k")[1])
        assert cache.get("k") == "new"

    pid = in_child(reader)
    to_parent.wait()
    cache.delete("k")
    cache.delete("fetching")
    to_child.give()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_forked_workers_never_choose_the_same_generation() -> None:
    generations = SharedGenerations(2)
    before = Turn()
    pids = []
    for slot in (0, 1):

        def bump(slot: int = slot) -> None:
            before.wait()
            generations.bump(slot)

        pids.append(in_child(bump))
    before.give()
    before.give()
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert generations.current(0) != generations.current(1)
    assert 0 not in (generations.current(0), generations.current(1))


def test_an_empty_cache_is_a_cache() -> None:
    cache = LocalCache()
    assert len(cache) == 0
    assert cache


def test_numbers() -> None:
    cache = LocalCache()
    assert [cache.incr("n", delta) for delta in (5, 2, -3, -10, 1)] == [5, 7, 4, 0, 1]
    cache.set("n", 100)
    assert cache.incr("n", 1) == 101
