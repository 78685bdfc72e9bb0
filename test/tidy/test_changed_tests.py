"""The tests that `make quick` runs are those of the changed files (.ci/changed_tests.py)."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from source_tree import ROOT

#: Module -> what it imports; one test reaches far.py through near.py only.
IMPORTS = {
    "proxy/near.py": {"proxy/far.py"},
    "proxy/far.py": set(),
    "proxy/alone.py": set(),
    "test/support/store.py": set(),
    "test/unit/proxy/test_near.py": {"proxy/near.py", "test/support/store.py"},
    "test/unit/proxy/test_both.py": {"proxy/near.py", "proxy/far.py"},
    "test/unit/ring/test_ring.py": {"ring/ring.py"},
}


def load(name: str) -> ModuleType:
    """A program of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f".ci/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return load("changed_tests")


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["proxy/near.py"], {"proxy/test_near.py", "proxy/test_both.py"}),
        (["proxy/far.py"], {"proxy/test_both.py"}),
        (["proxy/alone.py"], set()),
        (["test/support/store.py"], {"proxy/test_near.py"}),
        (["test/unit/proxy/test_near.py"], {"proxy/test_near.py"}),
        (["test/unit/proxy/conftest.py"], {"proxy/test_near.py", "proxy/test_both.py"}),
        (["test/unit/proxy/test_deleted.py", "doc/ring.md"], set()),
    ],
)
def test_python(program: ModuleType, changed: list[str], chosen: set[str]) -> None:
    assert program.choose_tests(changed, IMPORTS) == {f"test/unit/{name}" for name in chosen}


def test_a_module_without_a_test_of_its_own_has_those_of_its_importers(
    program: ModuleType,
) -> None:
    imports = {**IMPORTS, "test/unit/proxy/test_both.py": {"proxy/near.py"}}
    found = program.choose_tests(["proxy/far.py"], imports)
    assert found == {"test/unit/proxy/test_near.py", "test/unit/proxy/test_both.py"}


def test_imports_of_the_tree(program: ModuleType) -> None:
    imports = program.read_imports(ROOT)
    test = imports["test/unit/proxy/middleware/test_small_filters.py"]
    assert {"proxy/middleware/limits/read_only.py", "test/support/storage_app.py"} <= test
    assert not [path for path in imports if path.startswith(".")]


@pytest.fixture
def go_tree(tmp_path: Path) -> Path:
    """A module with a package of two test files and one of its own name."""
    server = tmp_path / "object-server/server"
    (server / "testdata/fuzz").mkdir(parents=True)
    plain = tmp_path / "object-server/plain"
    plain.mkdir()
    (plain / "plain.go").write_text("package plain\n")
    for name, tests in (("get_test.go", "Get"), ("server_test.go", "Any")):
        text = f"package server\n\nfunc Test{tests}(t *testing.T) {{}}\n\nfunc help() {{}}\n"
        (server / name).write_text(text)
    for name in ("get.go", "put.go"):
        (server / name).write_text("package server\n")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["server/get.go"], {"./server": "^(TestGet)$"}),
        (["server/get_test.go"], {"./server": "^(TestGet)$"}),
        (["server/put.go"], {"./server": "^(TestAny)$"}),
        (["server/put.go", "server/get.go"], {"./server": "^(TestAny|TestGet)$"}),
        (["server/testdata/fuzz/FuzzX"], {"./server": "^(TestAny)$"}),
        (["plain/plain.go"], {"./plain": "."}),
        (["go.mod", "gone/gone.go"], {}),
    ],
)
def test_go(program: ModuleType, go_tree: Path, changed: list[str], chosen: dict[str, str]) -> None:
    paths = [f"object-server/{path}" for path in changed]
    assert program.choose_go_tests([*paths, "ring/ring.py"], go_tree) == chosen


def test_what_git_says(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed on the branch, not committed, and not known to git; not what main has since."""
    monkeypatch.setattr(program, "ROOT", tmp_path)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-qm", name)

    git("init", "-q", "-b", "main")
    commit("old.py")
    git("checkout", "-qb", "mine")
    commit("committed.py")
    git("checkout", "-q", "main")
    commit("theirs.py")
    git("checkout", "-q", "mine")
    (tmp_path / "old.py").write_text("changed")
    (tmp_path / "née.py").write_text("new")
    assert program.changed_files("main") == {"committed.py", "old.py", "née.py"}
    with pytest.raises(subprocess.CalledProcessError):
        program.changed_files("no-such-branch")


def test_the_table_of_coverage() -> None:
    """Blocks of a Go profile count once, however many programs name them."""
    table = load("coverage_table")
    profile = (
        "mode: set\nm/object-server/vfs/os.go:1.1,2.2 3 0\n"
        "m/object-server/vfs/os.go:1.1,2.2 3 1\nm/object-server/ring/ring.go:1.1,2.2 1 0\n"
    )
    lines = [line.split() for line in table.table(table.go_counts(profile), "Go")]
    assert lines == [
        ["object-server/ring", "1", "0", "0.0%"],
        ["object-server/vfs", "3", "3", "100.0%"],
        ["Go", "4", "3", "75.0%"],
    ]
    report = '{"files": {"ring/a.py": {"summary": {"num_statements": 4, "covered_lines": 1}}}}'
    lines = [line.split() for line in table.table(table.python_counts(report), "Python")]
    assert lines == [["ring", "4", "1", "25.0%"], ["Python", "4", "1", "25.0%"]]
