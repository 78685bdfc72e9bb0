# SPDX-License-Identifier: Apache-2.0
"""Workers that die or retire are replaced, once each."""

from __future__ import annotations

import subprocess
import sys

# The first worker dies when it has noted its wish, before its parent has looked.
DIES_AS_IT_RETIRES = """
import os, signal, sys
from martlet.service import worker_processes
from martlet.service.worker_processes import supervise

first = os.memfd_create("first")

def work(number):
    wishes = worker_processes._place.words
    if not os.fstat(first).st_size:
        os.write(first, b"x")
        wishes[number] = 1
        return
    print("wish", wishes[number], flush=True)
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()

sys.exit(supervise(1, work))
"""


def test_the_wish_of_a_dead_worker_dies_with_it() -> None:
    command = [sys.executable, "-c", DIES_AS_IT_RETIRES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "wish 0\n", done.stderr


def test_a_worker_that_retires_has_no_more_time_by_a_reload() -> None:
    code = "import signal; from martlet.service.worker_processes import make_way\n"
    code += "make_way(10); make_way(86400); print(signal.alarm(0))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) <= 10
