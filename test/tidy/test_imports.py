"""Dependencies point one way (ARCHITECTURE.md), in Python and in Go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from source_tree import GO_MODULE, PACKAGES, PythonFile

MAY_IMPORT = {
    "martlet": set(),
    "ring": {"martlet"},
    "storage": {"ring", "martlet"},
    "account": {"storage", "ring", "martlet"},
    "container": {"storage", "ring", "martlet"},
    "replicator": {"account", "container", "storage", "ring", "martlet"},
    "proxy": {"ring", "martlet"},
    "cluster": {"ring", "martlet"},
}

# A Go package may import packages of a lower level only.
# Benchmarks are programs, so they stand on top; what they share is below everything.
GO_LEVELS = {
    "vfs": 0,
    "awake": 0,
    "ring": 0,
    "bench/blockstat": 0,
    "grid/auth": 0,
    "grid/certs": 0,
    "grid/frame": 0,  # no I/O
    "grid/rarely": 0,
    "grid/login": 1,
    "grid": 1,
    "firstthread": 0,
    "background": 1,
    "failpoint": 0,
    "reconcache": 0,
    "proof": -1,  # for tests of all the others
    "bundle/buffers": 0,
    "bundle/format": 0,  # no I/O, so not even vfs
    "bundle/compact": 2,
    "bundle/index": 1,
    "bundle/segment": 1,
    "bundle/sethash": 1,
    "bundle/versions": 1,
    "bundle": 3,
    "bundle/inspect": 4,
    "device/journal": 4,
    "device/partpower": 4,
    "device": 5,
    "updates": 5,
    "server/calls": 1,
    "server/descriptors": 0,
    "server/marker": 0,
    "server/message": 0,
    "server/option": 0,
    "server/ranges": 0,
    "server/ratelimit": 1,
    "server/versionid": 1,
    "replicator/wire": 6,
    "server/conf": 6,
    "server/devices": 6,
    "replicator/serve": 7,
    "server/recon": 7,
    "server/metrics": 8,
    "server/relink": 7,
    "server": 9,
    "auditor": 10,
    "lifecycle": 10,
    "replicator": 10,
    "cmd": 11,
    "bench": 11,
}

# What decides without touching a disk: it is handed bytes, or an interface to read by.
GO_WITHOUT_IO = (
    "bundle/format",
    "bundle/index",
    "bundle/sethash",
    "bundle/versions",
    "bundle/compact",
    "grid/auth",
    "grid/frame",
)
GO_IO = {f"{GO_MODULE}/vfs", "io/fs", "io/ioutil", "net", "net/http"}

# The modules that know eventlet: the WSGI server, and what needs concurrency.
EVENTLET_AT = {
    "martlet/grid/hub_loop.py",
    "martlet/service/green.py",
    "martlet/service/hub_socket.py",
    "martlet/service/server.py",
    "martlet/service/disk_calls.py",
    "martlet/service/worker_processes.py",
    "storage/concurrency.py",
}


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Every module named in an import statement, at any depth of the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module if node.module and not node.level else "." * node.level


def wrong_imports(package: str, tree: ast.Module) -> list[str]:
    """Imports in a module of ``package`` that it may not make."""
    allowed = MAY_IMPORT[package] | {package}
    wrong = []
    for name in imported_names(tree):
        top = name.partition(".")[0]
        if (top in PACKAGES and top not in allowed) or not top:
            wrong.append(name)
    return wrong


def go_level(path: str) -> int | None:
    """The level of a Go import path; None for packages of others."""
    if not path.startswith(GO_MODULE + "/"):
        return None
    name = path.removeprefix(GO_MODULE + "/")
    return GO_LEVELS[name if name in GO_LEVELS else name.partition("/")[0]]


@pytest.mark.parametrize(
    ("package", "line", "is_wrong"),
    [
        ("ring", "import martlet.words.names", False),
        ("ring", "from ring.devices import Device", False),
        ("martlet", "from ring import ring", True),
        ("proxy", "def f():\n    import container.server", True),
        ("account", "from container.schema import X", True),
        ("ring", "from . import devices", True),
        ("ring", "import os", False),
    ],
)
def test_the_check_itself(package: str, line: str, is_wrong: bool) -> None:
    assert bool(wrong_imports(package, ast.parse(line))) == is_wrong


def test_python_imports_point_one_way(modules: list[PythonFile]) -> None:
    assert {file.package for file in modules} == set(MAY_IMPORT)
    found = {
        file.name: wrong for file in modules if (wrong := wrong_imports(file.package, file.tree))
    }
    assert found == {}


def test_python_packages_have_no_import_circle_of_modules(modules: list[PythonFile]) -> None:
    """Within a package, too: a circle hides which of two modules rests on the other."""
    names = {
        file.name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for file in modules
    }
    graph = {}
    for file in modules:
        name = file.name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        graph[name] = {target for target in top_level_imports(file.tree) if target in names} - {
            name
        }
    assert circles(graph) == []


def room_of(name: str) -> str:
    """The folder of a module inside a package; a module on the package's first level by itself."""
    folder = name.rpartition("/")[0]
    return folder if "/" in folder else name


def test_python_rooms_have_no_import_circle(modules: list[PythonFile]) -> None:
    """Folders within a package: none imports one that rests on it."""
    rooms = {
        file.name.removesuffix(".py").replace("/", "."): room_of(file.name) for file in modules
    }
    graph: dict[str, set[str]] = {room: set() for room in rooms.values()}
    for file in modules:
        room = room_of(file.name)
        graph[room] |= {rooms.get(target, room) for target in top_level_imports(file.tree)}
    assert circles({room: targets - {room} for room, targets in graph.items()}) == []


def top_level_imports(tree: ast.Module) -> Iterator[str]:
    """Modules imported when the module is loaded; ``from a import b`` counts as a and as a.b."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What is left when modules that import none of the rest are taken away, again and again."""
    left = {name: set(targets) for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    return [sorted(left)] if left else []


def test_the_circle_check_itself() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["a", "b", "c"]]


def test_eventlet_stays_at_the_edge(modules: list[PythonFile]) -> None:
    found = {
        file.name
        for file in modules
        if any(name.partition(".")[0] == "eventlet" for name in imported_names(file.tree))
    }
    assert found <= EVENTLET_AT


def test_go_imports_point_one_way(go_packages: list[dict[str, Any]]) -> None:
    wrong = []
    for package in go_packages:
        own = go_level(package["ImportPath"])
        assert own is not None
        for path in (*package.get("Imports", ()), *package.get("TestImports", ())):
            level = go_level(path)
            if level is not None and level >= own and path != package["ImportPath"]:
                wrong.append((package["ImportPath"], path))
    assert wrong == []


def test_rooms_of_the_engine_without_io(go_packages: list[dict[str, Any]]) -> None:
    imports = {package["ImportPath"]: set(package.get("Imports", ())) for package in go_packages}
    found = {name: imports[f"{GO_MODULE}/{name}"] & GO_IO for name in GO_WITHOUT_IO}
    assert found == {name: set() for name in GO_WITHOUT_IO}
