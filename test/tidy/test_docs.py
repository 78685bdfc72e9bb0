"""Everything says what it is: modules, packages, public names."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from source_tree import PythonFile, SourceFile

BANNED_NAMES = {"utils", "util", "helpers", "misc", "common", "common2"}


def test_every_module_has_a_docstring(python_files: list[PythonFile]) -> None:
    assert [file.name for file in python_files if not ast.get_docstring(file.tree)] == []


def test_every_public_name_has_a_docstring(modules: list[PythonFile]) -> None:
    """Public: a class or function of a module whose name has no underscore in front."""
    bare = [
        f"{file.name}:{node.lineno} {node.name}"
        for file in modules
        for node in file.tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


def test_every_go_package_has_one_package_doc(go_packages: list[dict[str, Any]]) -> None:
    wrong = {}
    for package in go_packages:
        folder = Path(package["Dir"])
        documented = [
            name
            for name in package.get("GoFiles", ())
            if re.search(r"(^//(?!go:).*|\*/)\npackage ", (folder / name).read_text(), re.MULTILINE)
        ]
        if len(documented) != 1:
            wrong[package["ImportPath"]] = documented
    assert wrong == {}


def test_no_file_is_a_drawer_for_everything(all_files: list[SourceFile]) -> None:
    drawers = [
        file.name
        for file in all_files
        if file.path.stem in BANNED_NAMES or file.path.parent.name in BANNED_NAMES
    ]
    assert drawers == []


def test_what_is_left_to_do_names_its_issue(all_files: list[SourceFile]) -> None:
    mark = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!\(#\d+\))")
    found = [
        f"{file.name}:{number}"
        for file in all_files
        for number, line in enumerate(file.text.splitlines(), 1)
        if mark.search(line)
    ]
    assert found == []
