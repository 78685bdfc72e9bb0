"""Files of at most 800 lines, functions of at most 70: what is longer is not read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import GoFile, PythonFile, SourceFile

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70


def python_functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and lines of every function; its docstring does not count."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
        yield node.name, lines


def go_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and lines of every function of a file that gofmt has formatted."""
    start, name = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"func (?:\([^)]*\) )?(\w+)", line):
            start, name = number, match.group(1)
            if line.endswith("}"):
                yield name, 1
        elif line == "}" and name:
            yield name, number - start + 1
            name = ""


def test_the_measures_themselves() -> None:
    tree = ast.parse('def f():\n    """Doc.\n\n    More.\n    """\n    x = 1\n    return x\n')
    assert list(python_functions(tree)) == [("f", 3)]
    go = "func one() {}\n\nfunc (t *T) two() {\n\tx()\n}\n"
    assert list(go_functions(go)) == [("one", 1), ("two", 3)]


def test_files_are_short(all_files: list[SourceFile]) -> None:
    lengths = {file.name: file.text.count("\n") for file in all_files}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_functions_fit_a_screen(python_files: list[PythonFile], go_files: list[GoFile]) -> None:
    long = []
    for file in python_files:
        long += [(file.name, *f) for f in python_functions(file.tree) if f[1] > FUNCTION_LINES_MAX]
    for go_file in go_files:
        long += [
            (go_file.name, *f) for f in go_functions(go_file.text) if f[1] > FUNCTION_LINES_MAX
        ]
    assert long == []
