"""The environments of the judges, separate from ours, with their requirements and sources."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from source_tree import ROOT

WORK = ROOT / "build" / "conformance"
_CONSTRAINTS = tuple(ROOT / f"constraints{part}.txt" for part in ("", "-conformance", "-keystone"))


def pinned(package: str) -> str:
    """Return the version of ``package`` in the constraints."""
    match = re.search(rf"(?m)^{re.escape(package)}==(\S+)$", _pins())
    assert match, f"no constraint pins {package}"
    return match.group(1)


def _pins() -> str:
    return "".join(path.read_text() for path in _CONSTRAINTS)


def environment(name: str, *requirements: str) -> Path:
    """Return ``bin`` of a virtual environment with the requirements, created at the first call."""
    home = WORK / name
    stamp = home / "installed"
    wanted = "\n".join([*requirements, _pins()])
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        pins = [word for path in _CONSTRAINTS for word in ("-c", str(path))]
        subprocess.run([*pip, *pins, *requirements], check=True)
        stamp.write_text(wanted)
    return home / "bin"


def source(package: str) -> Path:
    """Return the unpacked source distribution of ``package`` in the pinned version."""
    name = f"{package}-{pinned(package)}"
    found = [*WORK.glob(f"{name.replace('-', '?')}/setup.py")]
    if not found:
        WORK.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        pip += ["--no-deps", "--no-binary", package, "-d", str(WORK)]
        subprocess.run([*pip, f"{package}=={pinned(package)}"], check=True)
        (archive,) = WORK.glob(f"{name.replace('-', '?')}.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(WORK, filter="data")
        found = [*WORK.glob(f"{name.replace('-', '?')}/setup.py")]
    return found[0].parent
