"""Ids of versions are unique, and in order."""

from unittest.mock import patch

from martlet.words.timestamp import Timestamp
from proxy.middleware.versions.clock import SLOTS, VersionClock


def test_one_process_never_gives_a_timestamp_twice() -> None:
    clock = VersionClock()
    with patch("proxy.middleware.versions.clock.time.time_ns", return_value=1795223541_000_000_000):
        given = [clock.now() for _ in range(100)]
    assert given == sorted(set(given))
    with patch("proxy.middleware.versions.clock.time.time_ns", return_value=1795223540_000_000_000):
        assert clock.now() > given[-1]  # the clock was set back


def test_processes_of_one_host_give_different_ones() -> None:
    given = []
    with patch("proxy.middleware.versions.clock.time.time_ns", return_value=1795223541_000_000_000):
        for pid in range(100, 100 + SLOTS):
            with patch("proxy.middleware.versions.clock.os.getpid", return_value=pid):
                clock = VersionClock()
                given += [clock.now() for _ in range(10)]
    assert len(set(given)) == len(given)


def test_it_is_the_present_time() -> None:
    assert abs(float(VersionClock().now()) - float(Timestamp.now())) < 60
