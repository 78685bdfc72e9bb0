# SPDX-License-Identifier: Apache-2.0
"""A background job in a worker process, which a reload replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from martlet.conf.options import ConfigError
from martlet.service.server import use_own_poller
from martlet.service.worker_processes import ReloadRefused, supervise
from ring.errors import RingError

Job = TypeVar("Job")


def run_until_stopped(job: Job, load: Callable[[], Job], run_forever: Callable[[Job], None]) -> int:
    """Run a job in a worker, which is replaced if a disk blocks it; return the exit status.

    A reload loads the job anew: all options apply, also the secret of the cluster. It is refused if
    the conf cannot be used. The old worker is killed in its pass, of which each step may be
    repeated.
    """

    def work_of(loaded: Job) -> Callable[[int], None]:
        def work(_number: int) -> None:
            use_own_poller()
            run_forever(loaded)

        return work

    def new_work() -> Callable[[int], None]:
        try:
            return work_of(load())
        except (ConfigError, RingError, ValueError, OSError) as error:
            raise ReloadRefused(str(error)) from error

    return supervise(1, work_of(job), new_work=new_work)
