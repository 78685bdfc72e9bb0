"""`fork_child` in a process of its own: the child is as if its command had been executed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from martlet.service.child_process import is_alive

_FRAME = """\
import json, os, signal, sys, time
from martlet.service.forked_child import fork_child
{before}
def main(words):
{body}
lock = os.open("/dev/null", os.O_RDONLY)
other = os.open("/dev/null", os.O_RDONLY)
child = fork_child(main, ["/somewhere/martlet-job", "a.conf", "--once"], {mask}, (lock,){more})
{after}
"""


def run(
    body: str, after: str = "", before: str = "", mask: str = "set()", more: str = ""
) -> tuple[str, str]:
    """Run a script whose child has a body; return the output and the errors."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    script = _FRAME.format(body=lines, after=after, before=before, mask=mask, more=more)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout, done.stderr


def test_the_child_is_like_an_executed_program() -> None:
    body = """\
status = open("/proc/self/status").read().splitlines()
def now(name): return next(l.split()[1] for l in status if l.startswith(name + ":"))
print(json.dumps({
    "words": words, "argv": sys.argv, "executed": sys.orig_argv == [sys.executable, *sys.argv],
    "title": open("/proc/self/cmdline").read().strip("\\0"),
    "name": now("Name"), "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "files": [n for n in (0, 1, 2, lock, other) if os.path.exists(f"/proc/self/fd/{n}")],
    "input": os.read(0, 1).decode(), "own_group": os.getpgid(0) == os.getpid(), "lock": lock,
}))
return 0"""
    out, _ = run(body, "child.wait()", mask="{signal.SIGUSR1}")
    seen: dict[str, Any] = json.loads(out)
    assert seen["words"] == ["a.conf", "--once"]
    assert seen["argv"] == ["/somewhere/martlet-job", "a.conf", "--once"]
    assert seen["executed"]
    assert seen["title"] == "martlet-job a.conf --once"
    assert seen["name"] == "martlet-job"
    assert seen["blocked"] == [signal.SIGUSR1]
    assert seen["files"] == [0, 1, 2, seen["lock"]]
    assert seen["input"] == ""
    assert seen["own_group"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("return 0", 0, ""),
        ("return None", 0, ""),
        ("return 3", 3, ""),
        ("sys.exit(2)", 2, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('it is wrong')", 1, "it is wrong\n"),
        ("raise ValueError('bad conf')", 1, "ValueError: bad conf\n"),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
    ],
)
def test_the_status_is_that_of_the_program(body: str, status: int, error: str) -> None:
    out, errors = run(body, "print(child.wait())")
    assert out == f"{int(status)}\n"
    assert errors.endswith(error)
    assert bool(errors) == bool(error)


def test_the_steps_of_the_parent_are_not_those_of_the_child() -> None:
    after = """\
try:
    child.wait()
finally:
    print("cleaned up")"""
    out, _ = run("print('child')", after)
    assert out.splitlines() == ["child", "cleaned up"]


def test_what_is_to_run_at_exit_runs() -> None:
    out, _ = run(
        "return 0", "child.wait(); os._exit(0)", "import atexit; atexit.register(print, 1)"
    )
    assert out == "1\n"


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    body = f"""\
open({str(told)!r}, "w").write(str(os.getpid()))
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)"""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(body, "child.wait()")
    assert caught.value.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while is_alive(int(told.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_can_use_eventlet_that_the_parent_has_loaded() -> None:
    before = "from martlet.service.green import patch_standard_library; patch_standard_library()"
    body = "patch_standard_library()\ntime.sleep(0.01)\nprint('slept')\nreturn 0"
    out, _ = run(body, "print(child.wait())", before)
    assert out == "slept\n0\n"


def test_it_has_another_hub_than_a_parent_that_waits_in_its_own() -> None:
    before = """\
from martlet.service.green import patch_standard_library
patch_standard_library()
import socket
left, right = socket.socketpair()
left.settimeout(0.01)
try:
    left.recv(1)
except TimeoutError:
    print("waited", flush=True)"""
    body = """\
left, right = socket.socketpair()
left.settimeout(0.01)
try:
    left.recv(1)
except TimeoutError:
    print('waited, too')
return 0"""
    after = "right.send(b'x')\nprint(child.wait(), left.recv(1), flush=True)"
    out, _ = run(body, after, before)
    assert out == "waited\nwaited, too\n0 b'x'\n"


def test_its_output_goes_to_a_file_and_it_may_stay_in_the_group(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = f"log = open({str(log)!r}, 'wb')"
    body = "print(os.getpgid(0) == os.getpgid(os.getppid()))\nos.write(2, b'error\\n')\nreturn 0"
    out, errors = run(body, "child.wait()", before, more=", log, own_group=False")
    assert (out, errors) == ("", "")
    assert sorted(log.read_text().splitlines()) == ["True", "error"]


@pytest.mark.parametrize("method", ["terminate", "kill"])
def test_it_can_be_ended(method: str) -> None:
    after = f"""\
assert child.poll() is None and child.returncode is None
child.{method}()
print(child.wait(), child.poll(), child.returncode)
child.{method}()  # nothing: the number may be another process's"""
    out, _ = run("time.sleep(600)", after)
    number = -(signal.SIGTERM if method == "terminate" else signal.SIGKILL)
    assert out == f"{number} {number} {number}\n"
