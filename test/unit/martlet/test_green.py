# SPDX-License-Identifier: Apache-2.0
"""Names are looked up in threads; a resolver that hangs stops no other green thread."""

from __future__ import annotations

import subprocess
import sys

# The C library's resolver, of which the test decides when it answers.
SCRIPT = """
import _socket, _thread, os, socket, sys
hang = _thread.allocate_lock()
def resolve(host, port, family=0, type=0, proto=0, flags=0, real=_socket.getaddrinfo):
    if host != "slow.test":
        return real(host, port, family, type, proto, flags)
    if flags & socket.AI_NUMERICHOST:
        raise socket.gaierror(socket.EAI_NONAME, "not an address")
    with hang:
        pass
    return real("127.0.0.1", port, family, type, proto, 0)
_socket.getaddrinfo = resolve
from martlet.service.green import patch_standard_library
patch_standard_library()
import eventlet

def look_up_beside_another():
    hang.acquire()
    lookup = eventlet.spawn(socket.create_connection, ("slow.test", port))
    for _ in range(3):
        eventlet.sleep(0.01)
    assert not lookup.dead
    socket.create_connection(("127.0.0.1", port)).close()  # an address does not wait
    hang.release()
    lookup.wait().close()

listener = eventlet.listen(("127.0.0.1", 0))
port = listener.getsockname()[1]
eventlet.spawn_n(eventlet.serve, listener, lambda sock, peer: sock.close())
look_up_beside_another()
"""
FORK = """
child = os.fork()
if child == 0:
    try:
        with eventlet.Timeout(20):
            assert socket.getaddrinfo("slow.test", 80)[0][4][0] == "127.0.0.1"
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
ERRORS = """
for asked in (("a.invalid", 80), ("::1", 80, socket.AF_INET), ("127.0.0.1", "no such service")):
    try:
        print(socket.getaddrinfo(*asked))
    except socket.gaierror as error:
        print(error.errno < 0)
assert "dns" not in sys.modules
"""
WITHOUT_ASYNCIO = """
import sys
from martlet.service.green import patch_standard_library
patch_standard_library()
assert "asyncio" not in sys.modules
import asyncio
asyncio.run(asyncio.sleep(0))
"""


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_lookup_that_hangs() -> None:
    run(SCRIPT)


def test_a_worker_looks_names_up_though_its_parent_has() -> None:
    run(SCRIPT + FORK)


def test_errors_are_those_of_the_library() -> None:
    assert run(SCRIPT + ERRORS) == "True\n" * 3


def test_asyncio_is_loaded_only_where_it_is_used() -> None:
    run(WITHOUT_ASYNCIO)
