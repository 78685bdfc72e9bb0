"""A job that dies is started again, after pauses that grow."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replicator.job_process import JobProcess, Pauses
from replicator.jobs import Job

FOREVER = ("sleep", "60")
PAUSES = Pauses(first=0.5, longest=60.0, steady=10.0)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A job with a clock, without a supervisor."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.clock = Clock()
        job = Job("job", "job", Path("/etc/martlet/job.conf"), command)
        self.process = JobProcess(job, PAUSES, self.clock)

    def start(self) -> None:
        self.process.start((), ())

    def look(self) -> bool:
        return self.process.look((), ())

    def await_death(self) -> None:
        deadline = time.monotonic() + 60
        while self.process.process is not None:
            assert time.monotonic() < deadline
            self.look()
            time.sleep(0.002)

    def go_on_to_the_next_step(self) -> float:
        """Move the clock to the moment when something is due; return the time until then."""
        assert self.process.due is not None
        rest = self.process.due - self.clock.now
        self.clock.now = self.process.due
        assert self.look()
        return rest


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def maker(*command: str) -> Watched:
        made.append(Watched(command))
        return made[-1]

    yield maker
    for one in made:
        if one.process.process is not None:
            one.process.kill_group()
            one.process.process.wait()


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages without their fields."""
    return [record.getMessage().partition(" job=")[0] for record in caplog.records]


def test_pauses_double_up_to_the_longest(
    watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one = watch("sh", "-c", "exit 3")
    one.start()
    pauses = []
    for _ in range(10):
        one.await_death()
        pauses.append(one.go_on_to_the_next_step())
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert one.process.restarts == 10
    assert one.process.report()["last_exit"]["words"] == "ended with status 3"
    # A line for each change of state, not for each death.
    assert messages(caplog) == [
        "job started",
        "job died, restart after a pause",
        "job restarted",
        "job fails again and again, pauses grow",
    ]


def test_a_job_that_ran_long_is_restarted_at_once_the_next_time(
    watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one = watch(*FOREVER)
    one.start()
    for _ in range(2):
        assert one.process.process is not None
        os.kill(one.process.process.pid, signal.SIGKILL)
        one.await_death()
        one.go_on_to_the_next_step()
    assert one.process.state == "failing"
    assert one.go_on_to_the_next_step() == PAUSES.steady
    assert (one.process.state, one.process.due) == ("running", None)
    assert messages(caplog)[-1] == "job runs again"

    assert one.process.process is not None
    os.kill(one.process.process.pid, signal.SIGKILL)
    one.await_death()
    assert one.process.state == "restarting"
    assert one.go_on_to_the_next_step() == PAUSES.first
    assert one.process.report()["last_exit"]["words"] == "was killed by SIGKILL"


def test_nothing_is_due_before_its_time(watch: Callable[..., Watched]) -> None:
    one = watch("true")
    one.start()
    one.await_death()
    one.clock.now += 0.49
    assert not one.look()
    assert one.process.process is None
    one.clock.now += 0.02
    assert one.look()
    assert one.process.process is not None


def test_a_program_that_vanished_is_tried_again(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    program = tmp_path / "program"
    one = watch(str(program))
    one.start()
    assert one.process.state == "restarting"
    assert "cannot be started" in one.process.report()["last_exit"]["words"]
    one.go_on_to_the_next_step()
    assert one.process.state == "failing"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    one.go_on_to_the_next_step()
    assert one.process.process is not None
    one.go_on_to_the_next_step()
    assert one.process.state == "running"


def test_what_a_job_leaves_behind_is_killed_with_it(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    """The next process of the job must not work beside a child of the last one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    one = watch("sh", "-c", f"(echo started; exec sleep 60) > {pipe} & wait")
    one.start()
    with pipe.open() as stream:  # open as long as the child of the job lives
        assert stream.readline() == "started\n"
        assert one.process.process is not None
        os.kill(one.process.process.pid, signal.SIGTERM)
        one.await_death()
        assert stream.read() == ""
