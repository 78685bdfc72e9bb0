#!/usr/bin/env python3
"""usage: changed_tests.py python|go [BASE]    prints the unit tests of the changed files.

A file is changed if it differs from the commit at which this branch left BASE (`main`), or if git
does not know it yet.

`python` prints test files below test/unit. One is chosen if

- it is changed, or a changed file of test/support or a conftest.py above it is its own; or
- it imports a changed module. If no test file imports that module, the test files are chosen
  from which the fewest imports lead to it.

`go` prints Go packages as `go test` takes them in object-server, each with the pattern for its
option -run. For a changed file `x.go` these are the tests in `x_test.go` beside it; without such a
file those in the test file with the package's name; without that one all tests of the package.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GO_MODULE = "object-server"
UNIT_TESTS = "test/unit"
TEST_SUPPORT = ("test/support", "test/conformance", "bench")
GO_TEST = re.compile(r"^func ((?:Test|Fuzz|Example)\w*)\(", re.MULTILINE)
# Folders that hold no modules of ours.
SKIPPED = {"build", "var", "node_modules"}


def changed_files(base: str) -> set[str]:
    """Paths from the root, deleted files included.

    :raises subprocess.CalledProcessError: git does not know ``base``.
    """
    start = git("merge-base", base, "HEAD").strip()
    differing = git("diff", "--name-only", "--no-renames", start).splitlines()
    return {*differing, *git("ls-files", "--others", "--exclude-standard").splitlines()}


def git(*arguments: str) -> str:
    """The output of a git command."""
    command = ["git", "-c", "core.quotepath=off", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def read_imports(root: Path) -> dict[str, set[str]]:
    """The imports of each Python file: paths from the root, of files that are there."""
    files = [path for path in python_files(root) if path.is_file()]
    names = {module_name(str(path.relative_to(root))): path for path in files}
    found = {}
    for path in files:
        targets = imported_names(ast.parse(path.read_text(encoding="utf-8")))
        own = str(path.relative_to(root))
        found[own] = {str(names[name].relative_to(root)) for name in targets if name in names}
    return found


def python_files(root: Path) -> Iterator[Path]:
    """Every Python file, but those of hidden folders and of what was built."""
    for top in sorted(root.iterdir()):
        if top.is_dir() and not top.name.startswith(".") and top.name not in SKIPPED:
            yield from sorted(top.rglob("*.py"))


def module_name(path: str) -> str:
    """The name under which a file is imported; tests find TEST_SUPPORT by its file names."""
    for folder in TEST_SUPPORT:
        if path.startswith(f"{folder}/"):
            path = path.removeprefix(f"{folder}/")
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Modules in import statements; ``from a import b`` counts as a and as a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def choose_tests(changed: Iterable[str], imports: Mapping[str, set[str]]) -> set[str]:
    """The test files of the changed files, by the rule above."""
    tests = {path for path in imports if is_unit_test(path)}
    chosen = set()
    for path in changed:
        if path in tests:
            chosen.add(path)
        elif path.endswith("/conftest.py"):
            chosen |= {test for test in tests if test.startswith(path.removesuffix("conftest.py"))}
        elif path in imports:
            chosen |= nearest(path, imports, tests)
    return chosen


def is_unit_test(path: str) -> bool:
    """A file that pytest collects below test/unit."""
    return path.startswith(f"{UNIT_TESTS}/") and Path(path).name.startswith("test_")


def nearest(path: str, imports: Mapping[str, set[str]], tests: set[str]) -> set[str]:
    """The test files with the fewest imports between them and ``path``."""
    seen, level = {path}, {path}
    while level:
        level = {file for file, targets in imports.items() if targets & level} - seen
        if found := level & tests:
            return found
        seen |= level
    return set()


def choose_go_tests(changed: Iterable[str], root: Path) -> dict[str, str]:
    """Go packages with a changed file, and the pattern of the tests to run, by the rule above."""
    files: dict[str, set[Path]] = {}
    for path in changed:
        folder = Path(path).parent
        while "testdata" in folder.parts:
            folder = folder.parent
        if folder.is_relative_to(GO_MODULE) and any((root / folder).glob("*.go")):
            package = f"./{folder.relative_to(GO_MODULE)}"
            files.setdefault(package, set()).add(test_file_of(root / path, root / folder))
    return {package: go_test_pattern(found) for package, found in files.items()}


def test_file_of(path: Path, folder: Path) -> Path:
    """The test file of a changed file of the package in ``folder``; it may not exist."""
    if path.suffix == ".go" and path.parent == folder:
        own = folder / f"{path.stem.removesuffix('_test')}_test.go"
        if own.exists():
            return own
    return folder / f"{folder.name}_test.go"


def go_test_pattern(files: Iterable[Path]) -> str:
    """For the option -run of ``go test``: the tests in these files; all if a file is not there."""
    names = []
    for file in files:
        if not file.exists():
            return "."
        names += GO_TEST.findall(file.read_text(encoding="utf-8"))
    return f"^({'|'.join(sorted(names))})$"


def main(kind: str, base: str = "main") -> int:
    """Prints the tests, sorted."""
    try:
        changed = changed_files(base)
    except subprocess.CalledProcessError:
        print(f"changed_tests: git knows no commit {base!r}: name another BASE", file=sys.stderr)
        return 1
    if kind == "go":
        lines = [" ".join(pair) for pair in choose_go_tests(changed, ROOT).items()]
    else:
        lines = list(choose_tests(changed, read_imports(ROOT)))
    for line in sorted(lines):
        print(line)
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("python", "go"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
