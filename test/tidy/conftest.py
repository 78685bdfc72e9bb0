"""What the tidy tests look at, read once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from source_tree import (
    PACKAGES,
    GoFile,
    PythonFile,
    SourceFile,
    list_go_packages,
    read_go,
    read_python,
)


@pytest.fixture(scope="session", autouse=True)
def collector() -> Iterator[None]:
    """No collection of garbage, which would look at all parsed files again and again."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def modules() -> list[PythonFile]:
    """Every module of our packages."""
    return read_python(*PACKAGES)


@pytest.fixture(scope="session")
def python_files() -> list[PythonFile]:
    """Every Python file: packages, tests and benchmarks."""
    return read_python(*PACKAGES, "bench", "test")


@pytest.fixture(scope="session")
def go_files() -> list[GoFile]:
    """Every Go file that a person wrote."""
    return read_go()


@pytest.fixture(scope="session")
def all_files(python_files: list[PythonFile], go_files: list[GoFile]) -> list[SourceFile]:
    """Both."""
    return [*python_files, *go_files]


@pytest.fixture(scope="session")
def go_packages() -> list[dict[str, Any]]:
    """Every Go package, in the words of ``go list``."""
    return list_go_packages()
