"""One cluster in a home at a time, and the home is free only when the last process has gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.lock import lock_home, running_supervisor
from martlet.service.child_process import is_alive

# Holds the lock, starts a process that inherits it, says so, and waits.
_HOLDER = """
import subprocess, sys, time
from pathlib import Path
from cluster.lock import lock_home
lock = lock_home(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], pass_fds=(lock.descriptor,), stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    yield process, child
    process.kill()
    process.wait()
    process.stdout.close()
    if is_alive(child):
        os.kill(child, signal.SIGKILL)


def test_a_second_supervisor_is_refused_in_one_sentence(
    tmp_path: Path, holder: tuple[subprocess.Popen[str], int]
) -> None:
    process, _ = holder
    assert running_supervisor(tmp_path) == process.pid
    with pytest.raises(ClusterError, match=rf"already runs in .* \(process {process.pid}\)"):
        lock_home(tmp_path)


def test_after_a_kill_the_next_one_waits_for_the_last_process(
    tmp_path: Path, holder: tuple[subprocess.Popen[str], int]
) -> None:
    process, child = holder
    process.kill()
    process.wait()
    assert running_supervisor(tmp_path) is None
    waiter = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiter.wait(0.5)
        os.kill(child, signal.SIGKILL)
        assert waiter.stdout is not None
        grandchild = int(waiter.stdout.readline())
        assert running_supervisor(tmp_path) == waiter.pid
        os.kill(grandchild, signal.SIGKILL)
    finally:
        waiter.kill()
        waiter.communicate()


def test_a_free_home_has_no_supervisor(tmp_path: Path) -> None:
    assert running_supervisor(tmp_path) is None
    lock = lock_home(tmp_path)
    os.close(lock.descriptor)
    assert running_supervisor(tmp_path) is None


def test_a_process_that_has_ended_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert not is_alive(process.pid)
    assert is_alive(os.getpid())
