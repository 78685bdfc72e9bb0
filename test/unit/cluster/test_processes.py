"""The supervisor keeps its services running, and nothing outlives it.

It blocks signals, so each test runs it in a process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from martlet.service.child_process import exit_words, is_alive

# Runs one service, `sh -c argv[3]`, under a supervisor with its files in argv[1]. Its processes
# have argv[2] seconds to stop. A further argument is a background job.
_SUPERVISOR = """
import signal
import sys
from pathlib import Path
from cluster import logs, processes
from cluster.errors import Stopped
from cluster.services import Service
processes.STOP_SECONDS = float(sys.argv[2])
logs.LOG_BYTES_MAX, logs.LOOK_SECONDS = 100_000, 0.05
for number in (signal.SIGINT, signal.SIGHUP):  # ignored where the tests run under nohup
    signal.signal(number, signal.SIG_DFL)
home = Path(sys.argv[1])
services = [Service("front", ("sh", "-c", sys.argv[3]), 0, is_front=True)]
for script in sys.argv[4:]:
    services.append(Service("background", ("sh", "-c", script), None, status_path=home / "none"))
supervisor = processes.Supervisor(services, home, home, lambda text: print(text, flush=True))
try:
    supervisor.start()
    assert not (home / "background.pid").exists()
    supervisor.start(is_background=True)
    print("started", flush=True)
    supervisor.watch()
except Stopped as name:
    print(f"stopped by {name}", flush=True)
finally:
    supervisor.stop()
"""
_FOREVER = "exec sleep 60"


class Run:
    """A running supervisor with one service, and perhaps a background job."""

    def __init__(self, home: Path, *scripts: str, stop_seconds: float = 60.0) -> None:
        self.pid_path = home / "front.pid"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, str(home), str(stop_seconds), *scripts],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        assert self.output.readline() == "started\n"

    @property
    def service_pid(self) -> int:
        return int(self.pid_path.read_text())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def starter(*scripts: str, **options: float) -> Run:
        runs.append(Run(tmp_path, *scripts, **options))
        return runs[-1]

    yield starter
    for run in runs:
        run.process.kill()
        run.process.wait()
        run.output.close()


def await_true(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition did not come true"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_supervisor_and_service(
    start: Callable[..., Run], number: signal.Signals
) -> None:
    run = start(_FOREVER)
    service = run.service_pid
    run.process.send_signal(number)
    assert run.process.wait(60) == 0
    assert run.output.read() == f"stopped by {number.name}\n"
    assert not is_alive(service)
    assert not run.pid_path.exists()


def test_a_service_that_will_not_stop_is_killed(start: Callable[..., Run], tmp_path: Path) -> None:
    deaf = f"trap '' TERM; touch {tmp_path}/deaf; while :; do sleep 0.1; done"
    run = start(deaf, stop_seconds=2.0)
    await_true((tmp_path / "deaf").exists)
    service = run.service_pid
    run.process.terminate()
    assert run.process.wait(60) == 0
    assert "front did not stop in time and is killed" in run.output.read()
    assert not is_alive(service)


def test_background_jobs_stop_before_the_services(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    ready, order = tmp_path / "ready", tmp_path / "order"
    # The job takes a while to end; the service must be there until then.
    front = (
        f"trap 'echo front >> {order}; exit' TERM; touch {ready}.1; while :; do sleep 0.01; done"
    )
    job = f"trap 'sleep 0.3; echo job >> {order}; exit' TERM; touch {ready}.2; " + (
        "while :; do sleep 0.01; done"
    )
    run = start(front, job)
    await_true(lambda: len([*tmp_path.glob("ready.*")]) == 2)
    run.process.terminate()
    assert run.process.wait(60) == 0
    assert order.read_text() == "job\nfront\n"


def test_a_service_does_not_outlive_a_killed_supervisor(start: Callable[..., Run]) -> None:
    run = start(_FOREVER)
    service = run.service_pid
    run.process.kill()
    await_true(lambda: not is_alive(service))


def test_a_dead_service_is_restarted_with_a_line_that_says_so(start: Callable[..., Run]) -> None:
    run = start(_FOREVER)
    first = run.service_pid
    os.kill(first, signal.SIGKILL)
    line = run.output.readline()
    assert line.startswith("front was killed by SIGKILL; restart in 0.1 s")
    await_true(lambda: run.service_pid != first and is_alive(run.service_pid))


def test_restarts_come_slower_each_time(start: Callable[..., Run]) -> None:
    run = start("exit 3")
    waits = [run.output.readline().split(" restart in ")[1].split(" s")[0] for _ in range(4)]
    assert waits == ["0.1", "0.2", "0.4", "0.8"]


def test_what_a_service_prints_is_in_its_log(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start("echo out; echo err >&2; exec sleep 60")
    await_true(lambda: (tmp_path / "front.log").read_text() == "out\nerr\n")
    assert is_alive(run.service_pid)


def test_logs_do_not_grow_for_ever(start: Callable[..., Run], tmp_path: Path) -> None:
    # Each line is 100 bytes. The supervisor gets the time to look at a log that is too large. What
    # is written meanwhile may be lost, which is more the longer a busy machine delays it.
    line, log = "x" * 92, tmp_path / "front.log"
    start(
        "n=0; while [ $n -lt 8000 ]; do n=$((n+1)); printf '%06d %s\\n' $n " + line + "; "
        f"[ $((n % 100)) = 0 ] && while [ $(stat -c %s {log}) -gt 100000 ]; do sleep 0.02; done; "
        f"done; touch {tmp_path}/done; exec sleep 60"
    )
    await_true((tmp_path / "done").exists)
    logs = [tmp_path / f"front.log{end}" for end in (".2", ".1", "")]
    await_true(lambda: logs[2].stat().st_size <= 100_000)
    kept = "".join(path.read_text() for path in logs)
    numbers = [int(row.split()[0]) for row in kept.splitlines()]
    assert numbers[-1] == 8000
    assert numbers == sorted(numbers)
    assert len(numbers) > 2000
    # Lines are lost that are written between the copy and the cut: at most the rest of a burst of
    # 100 in each of the two changes.
    assert len(numbers) >= numbers[-1] - numbers[0] + 1 - 200
    assert not (tmp_path / "front.log.3").exists()
    assert {path.stat().st_mode & 0o777 for path in logs} == {0o600}


def test_a_service_gets_no_signal_mask(start: Callable[..., Run]) -> None:
    run = start(_FOREVER)
    status = Path(f"/proc/{run.service_pid}/status").read_text()
    blocked = next(line for line in status.splitlines() if line.startswith("SigBlk"))
    assert int(blocked.split()[1], 16) == 0


def test_words_of_an_exit_status() -> None:
    assert exit_words(3) == "ended with status 3"
    assert exit_words(-9) == "was killed by SIGKILL"
    assert exit_words(-40) == "was killed by signal 40"


def test_a_supervisor_that_was_suspended_goes_on(start: Callable[..., Run]) -> None:
    run = start(_FOREVER)
    for _ in range(3):
        run.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{run.process.pid}/stat")
        await_true(lambda stat=stat: ") T " in stat.read_text())  # type: ignore[misc]
        suspended = time.monotonic()
        # Longer than a wait of the supervisor, which then ends with neither signal nor time.
        await_true(lambda since=suspended: time.monotonic() > since + 0.2)  # type: ignore[misc]
        run.process.send_signal(signal.SIGCONT)
        service = run.service_pid
        os.kill(service, signal.SIGKILL)
        await_true(lambda before=service: run.service_pid != before)  # type: ignore[misc]
    assert run.process.poll() is None
