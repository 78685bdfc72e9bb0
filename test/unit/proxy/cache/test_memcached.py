"""The cache in a real memcached; and what happens without one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import md5

import pytest
from running_cluster import free_port

from proxy.cache.memcached import MemcachedCache

MEMCACHED = shutil.which("memcached")
needs_memcached = pytest.mark.skipif(
    MEMCACHED is None, reason="no memcached program; Debian has it in the package memcached"
)


def connect(port: int, *more_ports: int, **options: float) -> MemcachedCache:
    settings = {
        "max_connections": 2,
        "connect_timeout_seconds": 20.0,
        "pool_timeout_seconds": 20.0,
        "io_timeout_seconds": 20.0,
        "error_limit": 10,
        "error_interval_seconds": 60.0,
        **options,
    }
    return MemcachedCache([f"127.0.0.1:{p}" for p in (port, *more_ports)], **settings)  # type: ignore[arg-type]


def wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, "memcached ended at its start"
            assert time.monotonic() < deadline, "memcached does not listen"


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """A memcached of our own; its port."""
    assert MEMCACHED is not None
    port = free_port()
    process = subprocess.Popen(
        [MEMCACHED, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody", "-m", "8"]
    )
    try:
        wait_until_listening(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


@needs_memcached
class TestWithMemcached:
    @pytest.mark.parametrize(
        "value",
        [{"a": [1, 2.5, None, True]}, "text é ☃", 0, "", [], {"": ""}, 12345678901234567890],
    )
    def test_json_values_come_back(self, server: int, value: object) -> None:
        cache = connect(server)
        cache.set("values", value, time=60)
        assert connect(server).get("values") == value
        assert connect(server).lookup("values")[0] == value

    def test_bytes_come_back_as_text(self, server: int) -> None:
        cache = connect(server)
        cache.set("bytes", "é".encode(), time=60)
        assert cache.get("bytes") == "é"

    def test_any_text_is_a_key(self, server: int) -> None:
        cache = connect(server)
        for key in ("with space", "new\r\nline", "é", "x" * 5000, ""):
            cache.set(key, key, time=60)
            assert cache.get(key) == key

    def test_miss_and_delete(self, server: int) -> None:
        cache = connect(server)
        assert cache.get("never set") is None
        cache.set("k", 1, time=60)
        cache.delete("k")
        assert cache.get("k") is None
        assert connect(server).lookup("k")[0] is None

    def test_time_to_live_is_whole_seconds_rounded_up(self, server: int) -> None:
        cache = connect(server)
        cache.set("short", 1, time=0.01)  # 0 would mean for ever
        deadline = time.monotonic() + 60
        while cache.get("short") is not None:
            assert time.monotonic() < deadline, "the value does not expire"
            time.sleep(0.05)

    def test_time_to_live_over_a_month_is_no_date(self, server: int) -> None:
        cache = connect(server)
        cache.set("long", 1, time=100 * 24 * 3600)
        assert cache.get("long") == 1

    def test_lease_of_an_absent_key(self, server: int) -> None:
        cache = connect(server)
        cache.delete("lease 1")
        value, lease = cache.lookup("lease 1 absent")
        assert value is None
        cache.set("lease 1 absent", "v", time=60, lease=lease)
        assert cache.get("lease 1 absent") == "v"

    def test_lease_after_a_delete_counts(self, server: int) -> None:
        cache = connect(server)
        cache.delete("lease 2")
        _, lease = cache.lookup("lease 2")
        cache.set("lease 2", "fetched after the delete", time=60, lease=lease)
        assert cache.get("lease 2") == "fetched after the delete"

    @pytest.mark.parametrize("was_deleted_before", [True, False])
    def test_lease_before_a_delete_does_not_count(
        self, server: int, was_deleted_before: bool
    ) -> None:
        reader, writer = connect(server), connect(server)
        key = f"lease 3 {was_deleted_before}"
        if was_deleted_before:
            writer.delete(key)
        _, lease = reader.lookup(key)
        writer.delete(key)
        reader.set(key, "stale", time=60, lease=lease)
        assert reader.get(key) is None

    def test_lease_before_a_new_value_does_not_count(self, server: int) -> None:
        reader, writer = connect(server), connect(server)
        _, lease = reader.lookup("lease 4")
        writer.set("lease 4", "new", time=60)
        reader.set("lease 4", "stale", time=60, lease=lease)
        assert reader.get("lease 4") == "new"

    def test_lease_of_a_lookup_that_failed_does_not_count(self, server: int) -> None:
        _, lease = connect(free_port()).lookup("lease 5")
        cache = connect(server)
        cache.set("lease 5", "perhaps stale", time=60, lease=lease)
        assert cache.get("lease 5") is None

    def test_value_too_large_for_memcached_is_a_miss(self, server: int) -> None:
        cache = connect(server)
        cache.set("large", "x" * 2_000_000, time=60)
        assert cache.get("large") is None
        cache.set("next", 1, time=60)
        assert cache.get("next") == 1

    def test_what_others_wrote_is_a_miss(self, server: int) -> None:
        cache = connect(server)
        cache.set("foreign", 1, time=60)
        for flags, body in ((1, b"cpickle"), (2, b"{no json"), (0, b"plain")):
            with socket.create_connection(("127.0.0.1", server)) as raw:
                key = md5(b"foreign").hexdigest().encode()
                raw.sendall(b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(body), body))
                assert raw.recv(100) == b"STORED\r\n"
            assert cache.get("foreign") is None

    def test_large_items_are_named_in_the_log(
        self, server: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        cache = connect(server, item_size_warning_bytes=10)
        cache.set("small", "x" * 8, time=60)
        assert not caplog.records
        cache.set("big", "x" * 9, time=60)
        assert "key=big bytes=11" in caplog.text

    def test_one_dead_server_of_two_costs_misses_only(
        self, server: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        cache = connect(server, free_port(), error_limit=0)
        for number in range(40):
            cache.set(f"k{number}", number, time=60)
        # The dead one has been found; from now on all keys belong to the other.
        for number in range(40):
            cache.set(f"k{number}", number, time=60)
        assert [cache.get(f"k{n}") for n in range(40)] == list(range(40))
        assert caplog.text.count("out of reach") == 1


GREEN_THREADS = """
import sys
from martlet.service.green import patch_standard_library
patch_standard_library()
import eventlet
from proxy.cache.memcached import MemcachedCache
cache = MemcachedCache(
    ["127.0.0.1:" + sys.argv[1]], max_connections=2, connect_timeout_seconds=60,
    pool_timeout_seconds=60, io_timeout_seconds=60, error_limit=10, error_interval_seconds=60,
)
def work(number):
    for turn in range(5):
        key = f"green {number}"
        cache.set(key, [number, turn], time=60)
        assert cache.get(key) == [number, turn], (key, turn, cache.get(key))
    return 1
print(sum(eventlet.GreenPool(200).imap(work, range(200))))
"""


@needs_memcached
def test_many_green_threads_share_two_connections(server: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GREEN_THREADS, str(server)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.stdout, done.returncode) == ("200\n", 0), done.stderr


def test_dead_memcached_means_misses(caplog: pytest.LogCaptureFixture) -> None:
    cache = connect(free_port())
    for _ in range(20):
        value, lease = cache.lookup("k")
        assert value is None
        cache.set("k", "v", time=60, lease=lease)
        cache.set("k", "v", time=60)
        cache.delete("k")
        assert cache.get("k") is None
    assert caplog.text.count("out of reach") == 1


def test_silent_memcached_is_given_up_after_the_timeout() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(20)
        cache = connect(listener.getsockname()[1], io_timeout_seconds=0.05)
        for _ in range(10):
            assert cache.get("k") is None
        listener.setblocking(False)
        listener.accept()[0].close()  # the first asks and waits, the others know
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_server_without_a_number_as_port_is_refused() -> None:
    with pytest.raises(ValueError, match="port"):
        MemcachedCache(
            ["host:port"],
            max_connections=1,
            connect_timeout_seconds=1,
            pool_timeout_seconds=1,
            io_timeout_seconds=1,
            error_limit=1,
            error_interval_seconds=1,
        )


@needs_memcached
def test_numbers_are_shared(server: int) -> None:
    one, two = connect(server), connect(server)
    found = [c.incr("number", delta) for c, delta in ((one, 5), (two, 2), (one, -3), (two, -10))]
    assert found == [5, 7, 4, 0]
    one.set("number", 100)
    assert two.incr("number", 1) == 101
    assert two.get("number") == 101


def test_without_memcached_there_are_no_numbers() -> None:
    assert connect(free_port()).incr("number", 1) is None
