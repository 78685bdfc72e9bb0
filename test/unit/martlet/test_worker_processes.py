# SPDX-License-Identifier: Apache-2.0
"""Workers that die or retire are replaced, once each."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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


# Each worker writes its work; the conf is a file, and "bad" cannot be used.
RELOADS = """
import os, signal, sys
from pathlib import Path
from martlet.log import setup_logging
from martlet.service.worker_processes import ReloadRefused, supervise

setup_logging("INFO")
conf = Path(sys.argv[1])

def load():
    text = conf.read_text()
    if text == "bad":
        raise ReloadRefused("it is bad")
    def work(number):
        print(text, flush=True)
        while True:
            signal.pause()
    return work

sys.exit(supervise(1, load(), new_work=load))
"""


def test_a_reload_gives_new_work_to_a_new_worker(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.write_text("one")
    command = [sys.executable, "-W", "ignore", "-c", RELOADS, str(conf)]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline() == "one\n"
        conf.write_text("bad")
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline().endswith("reload signal=SIGHUP\n")
        assert "the work goes on with the old conf: it is bad" in process.stderr.readline()
        conf.write_text("two")
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "two\n"
    finally:
        process.terminate()
    rest, log = process.communicate(timeout=60)
    assert (rest, process.returncode) == ("", 0), log
