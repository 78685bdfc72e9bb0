"""A library to preload: waits of the kernel begin late, so that signals come just before them.

Python has no step between a wait and the moment before it. There a signal is noted, and its handler
runs when the wait has ended.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>

static void be_late(void) {
    struct timespec left = {0, MILLISECONDS * 1000000L};
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

pid_t wait(int *status) {
    pid_t (*real)(int *) = dlsym(RTLD_NEXT, "wait");
    be_late();
    return real(status);
}

int poll(struct pollfd *files, nfds_t count, int timeout) {
    int (*real)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
    if (timeout) be_late();
    return real(files, count, timeout);
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout) {
    int (*real)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
    if (timeout) be_late();
    return real(epoll, events, count, timeout);
}
"""


def late_waits(directory: Path, milliseconds: int) -> Path:
    """Build the library; each wait begins so late."""
    source, library = directory / "late.c", directory / "late.so"
    source.write_text(_SOURCE)
    command = ["gcc", "-shared", "-fPIC", f"-DMILLISECONDS={milliseconds}"]
    subprocess.run([*command, "-o", library, source, "-ldl"], check=True)
    return library
