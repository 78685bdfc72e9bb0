"""Priorities reach every thread, also those that start later."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, threading
from replicator.priority import ionice_of, set_priority

end = threading.Event()
def start():
    began = threading.Event()
    threading.Thread(target=lambda: (began.set(), end.wait()), daemon=True).start()
    began.wait()

start()
set_priority(7, "IOPRIO_CLASS_BE", 6)
start()
for thread in map(int, os.listdir("/proc/self/task")):
    print(os.getpriority(os.PRIO_PROCESS, thread), *ionice_of(thread))
end.set()
"""


def test_every_thread_has_the_priority() -> None:
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    assert output.splitlines() == ["7 2 6"] * 3
