"""Calls that block on a disk: others go on, and a disk that hangs takes its own callers only.

Each script runs in a process of its own, which may be patched. Events stand for disks.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from patience import patiently

from martlet.service.disk_calls import on_disk, on_disk_later

BEGIN = """
import warnings; warnings.simplefilter("ignore")
import eventlet; eventlet.monkey_patch()
import sys
from eventlet.patcher import original
from martlet.service import disk_calls
from martlet.service.disk_calls import DiskStuck, ProcessStuck, guard, limits
from martlet.service.disk_calls import on_disk, on_disk_later
native = original("threading")
disk_calls.WATCH_SECONDS = 0.02
disk_calls.SILENT_SECONDS = 0.05
disk_calls.GUARD_SECONDS = limits.disk_timeout = float(sys.argv[1])
works = {"/d1": native.Event(), "/d2": native.Event()}
for disk in works.values():
    disk.set()
disk_calls._probe = lambda disk: works[disk].wait(99)

def write(disk, value="written"):
    assert works[disk].wait(99)
    return value

def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__
"""

CALLS = """
# A blocking call lets other green threads run: without that, gate would never open.
gate = native.Event()
eventlet.spawn(gate.set)
assert on_disk("/d1", gate.wait, 10)

# It runs elsewhere, and brings back results and errors.
assert on_disk("/d1", native.get_ident) != native.get_ident()
assert outcome(on_disk, "/d1", int, "x") == "ValueError"

# Nested, it is a plain call in the thread that runs already.
outer, inner = on_disk("/d1", lambda: (native.get_ident(), on_disk("/d2", native.get_ident)))
assert outer == inner

# A waiter that is killed does not disturb the others.
release = native.Event()
victim = eventlet.spawn(on_disk, "/d1", release.wait, 10)
eventlet.sleep(0)
victim.kill()
release.set()
assert on_disk("/d1", lambda: 5) == 5
"""

FEW_THREADS = """
on_disk("/d1", int)
release = native.Event()
waiting = [eventlet.spawn(on_disk, "/d1", release.wait, 99) for _ in range(limits.threads_per_disk)]
eventlet.sleep(0)
release.set()
assert all(thread.wait() for thread in waiting)
idle = disk_calls._calls._crews["/d1"]._idle

def thread_of_a_call():
    while len(idle) < limits.threads_per_disk:
        eventlet.sleep(0.001)
    return on_disk("/d1", native.get_ident)

# Calls one after the other have one thread, and wake no other.
assert len({thread_of_a_call() for _ in range(50)}) == 1
"""

HANG = """
assert write("/d1") == on_disk("/d1", write, "/d1")
before = native.active_count()
works["/d1"].clear()
waiting = [eventlet.spawn(outcome, on_disk, "/d1", write, "/d1") for _ in range(20)]
eventlet.sleep(0)

# The other disk is not touched by it.
assert on_disk("/d2", write, "/d2") == "written"
assert [thread.wait() for thread in waiting] == ["DiskStuck"] * 20
assert native.active_count() - before <= 2 * limits.threads_per_disk

# Who comes now is refused at once: the call is not made later either.
made = []
assert outcome(on_disk, "/d1", made.append, 1) == "DiskStuck"
assert on_disk("/d2", write, "/d2") == "written"

# Work that no request waits for waits for the disk.
on_disk_later("/d1", lambda: made.append(2))
works["/d1"].set()
while outcome(on_disk, "/d1", write, "/d1") != "written":
    eventlet.sleep(0.01)
while not made:  # it came first, but another thread makes it
    eventlet.sleep(0.01)
assert made == [2], made
"""

FIRST = """
# A disk that hangs from the first on gets a probe, and no other call.
works["/d1"].clear()
made = []
assert outcome(on_disk, "/d1", made.append, 1) == "DiskStuck"
assert made == []
works["/d1"].set()
while outcome(on_disk, "/d1", write, "/d1") != "written":
    eventlet.sleep(0.01)
assert made == []
"""

HALT = """
# The process is halted longer than a disk may hang. Timers come first then, before any answer.
import os, subprocess
on_disk("/d1", int)
works["/d1"].clear()
waiting = eventlet.spawn(outcome, on_disk, "/d1", write, "/d1")
eventlet.sleep(0)
seconds = 1.5 * limits.disk_timeout
halt = f"kill -STOP {os.getpid()}; sleep {seconds}; kill -CONT {os.getpid()}"
assert subprocess.Popen(["sh", "-c", halt]).wait() == 0
works["/d1"].set()
assert waiting.wait() == "written"
assert not disk_calls._calls._crews["/d1"].is_stuck
"""

SLOW = """
# One long call on a disk that works: probes come back, so it is waited for.
release = native.Event()
slow = eventlet.spawn(outcome, on_disk, "/d1", release.wait, 99)
eventlet.sleep(1.5 * limits.disk_timeout)
assert on_disk("/d1", write, "/d1") == "written"
release.set()
assert slow.wait() is True
"""

ALL_SLOW = """
# So are long calls that have all threads of the disk, and those that wait for a thread.
release = native.Event()
most = limits.threads_per_disk
slow = [eventlet.spawn(outcome, on_disk, "/d1", release.wait, 99) for _ in range(most)]
waiting = eventlet.spawn(outcome, on_disk, "/d1", write, "/d1")
eventlet.sleep(1.5 * limits.disk_timeout)
release.set()
assert [each.wait() for each in slow] == [True] * most
assert waiting.wait() == "written"

# A disk that hangs then is noticed as ever.
release.clear()
slow = [eventlet.spawn(outcome, on_disk, "/d1", release.wait, 99) for _ in range(most)]
eventlet.sleep(0.5 * limits.disk_timeout)
works["/d1"].clear()
assert [each.wait() for each in slow] == ["DiskStuck"] * most
release.set()
works["/d1"].set()
while outcome(on_disk, "/d1", write, "/d1") != "written":
    eventlet.sleep(0.01)
"""

GUARD = """
# A disk that hangs with a lock of the process: the process says so, and refuses all.
lock, retired = native.Lock(), []
disk_calls.retire = lambda: retired.append(1)
def pass_lock():
    with lock:
        pass
guard(pass_lock)
limits.disk_timeout = 40
def write_locked(disk):
    with lock:
        return write(disk)
assert on_disk("/d1", write_locked, "/d1") == on_disk("/d2", write_locked, "/d2") == "written"
works["/d1"].clear()
waiting = [eventlet.spawn(outcome, on_disk, "/d1", write_locked, "/d1")]
while not lock.locked():
    eventlet.sleep(0.01)
waiting.append(eventlet.spawn(outcome, on_disk, "/d2", write_locked, "/d2"))
assert [thread.wait() for thread in waiting] == ["ProcessStuck"] * 2
assert retired == [1]
assert outcome(on_disk, "/d2", write, "/d2") == "ProcessStuck"

# Where no other process takes its place, it goes on when the lock is free.
works["/d1"].set()
while outcome(on_disk, "/d2", write_locked, "/d2") != "written":
    eventlet.sleep(0.01)
"""


END = """
# The last call is made whole, and no thread is left, before the interpreter is torn down.
import atexit, os, sys
running, done = native.Event(), []

def close():
    running.set()
    original("time").sleep(0.2)
    done.append("closed")

def check():
    sys.stdout.flush()
    # A thread that was joined has left the interpreter, but not yet the kernel's list of threads.
    left = len(sys._current_frames()) - 1
    if done != ["closed"] or left:
        print(done, "threads left:", left, file=sys.stderr)
        os._exit(1)

atexit.register(check)  # functions for the end run in reverse order, so this one is the last
release = native.Event()
waiting = [eventlet.spawn(on_disk, disk, release.wait, 99) for disk in ("/d1", "/d2") * 2]
eventlet.sleep(0)
release.set()
assert all(thread.wait() for thread in waiting)
on_disk_later("/d1", close)
assert running.wait(10)
"""


@pytest.mark.parametrize(
    "script", [CALLS, FEW_THREADS, HANG, FIRST, HALT, SLOW, ALL_SLOW, GUARD, END]
)
def test_under_eventlet(script: str) -> None:
    def attempt(timeout: float) -> None:
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + script + "print('passed')", str(timeout)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr

    patiently(attempt)


def test_without_green_threads_calls_are_plain_calls() -> None:
    assert on_disk("/d1", threading.get_ident) == threading.get_ident()
    seen: list[int] = []
    on_disk_later("/d1", lambda: seen.append(threading.get_ident()))
    assert seen == [threading.get_ident()]
