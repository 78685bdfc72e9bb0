# SPDX-License-Identifier: Apache-2.0
"""The programs of the project, and the search for them."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

OBJECT_SERVER = "martlet-object-server"
OBJECT_SERVER_VARIABLE = "MARTLET_OBJECT_SERVER"


class ProgramMissing(Exception):
    """A program is not installed; the message is one sentence."""


def find_program(name: str) -> str:
    """Find a program by its name, the object server where it is built, the others as scripts.

    :raises ProgramMissing: it is not installed.
    """
    return find_object_server() if name == OBJECT_SERVER else find_script(name)


def find_script(name: str) -> str:
    """Find a program installed with this package.

    :raises ProgramMissing: it is not installed.
    """
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise ProgramMissing(f"{name} is not installed in {beside.parent} nor in PATH")
    return found


def find_main(program: str) -> Callable[[list[str]], int] | None:
    """The function behind a script of this environment, by its path; None for another program."""
    script = Path(program)
    if script.parent != Path(sysconfig.get_path("scripts")):
        return None
    ours = importlib.metadata.distribution("martlet").entry_points
    found = ours.select(group="console_scripts", name=script.name)
    for entry in found:
        main: Callable[[list[str]], int] = entry.load()
        return main
    return None


def preload(main: Callable[[list[str]], int]) -> None:
    """Load the modules that a program needs, if its own module has a function ``preload``."""
    load = getattr(sys.modules[main.__module__], "preload", None)
    if load is not None:
        load()


def find_object_server() -> str:
    """Find the Go server: from MARTLET_OBJECT_SERVER, beside this environment, or in PATH.

    :raises ProgramMissing: it is in none of these places.
    """
    named = os.environ.get(OBJECT_SERVER_VARIABLE)
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise ProgramMissing(f"{OBJECT_SERVER_VARIABLE}={named} is not a program")
        return os.path.abspath(named)
    prefix = Path(sys.prefix)
    for beside in (prefix / "bin" / OBJECT_SERVER, prefix.parent / "build" / "bin" / OBJECT_SERVER):
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which(OBJECT_SERVER)
    if found is None:
        raise ProgramMissing(
            f"{OBJECT_SERVER} is not found: build it with `make build`, or set "
            f"{OBJECT_SERVER_VARIABLE}"
        )
    return found
