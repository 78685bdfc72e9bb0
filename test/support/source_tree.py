"""The source files of the project, for tests that look at the code itself."""

from __future__ import annotations

import ast
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("martlet", "ring", "storage", "account", "container", "proxy", "replicator", "cluster")
GO_MODULE = "martlet/object-server"


@dataclass(frozen=True)
class SourceFile:
    """A file of the project; ``name`` is its path from the root."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))


@dataclass(frozen=True)
class PythonFile(SourceFile):
    """A Python file, parsed."""

    tree: ast.Module

    @property
    def package(self) -> str:
        """Return the first-level folder."""
        return self.path.relative_to(ROOT).parts[0]


@dataclass(frozen=True)
class GoFile(SourceFile):
    """A Go file that is not generated."""


def read_python(*folders: str) -> list[PythonFile]:
    """Return every Python file below the folders, parsed."""
    files = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            files.append(PythonFile(path, text, ast.parse(text, str(path))))
    return files


def read_go() -> list[GoFile]:
    """Return every Go file that is not generated."""
    files = []
    for path in sorted((ROOT / "object-server").rglob("*.go")):
        text = path.read_text(encoding="utf-8")
        if "\n// Code generated" not in "\n" + text[:400]:
            files.append(GoFile(path, text))
    return files


def list_go_packages() -> list[dict[str, Any]]:
    """Return the output of ``go list`` for every package of the module."""
    command = ["go", "list", "-json=ImportPath,Dir,Imports,TestImports,GoFiles,Doc", "./..."]
    output = subprocess.run(
        command, cwd=ROOT / "object-server", check=True, capture_output=True, text=True
    ).stdout
    decoder, position, found = json.JSONDecoder(), 0, []
    while position < len(output.rstrip()):
        package, position = decoder.raw_decode(output, position)
        found.append(package)
        position += 1  # the newline between two
    return found
