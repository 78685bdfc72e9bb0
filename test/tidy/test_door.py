"""The pages at the door name files, commands and functions that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import ROOT

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))
# Made by the reader of CONTRIBUTING.md.
EXAMPLES = {
    "proxy/middleware/web/hello.py",
    "test/unit/proxy/middleware/test_hello.py",
    "object-server/server/check.go",
    "object-server/server/check_test.go",
}
# Made by `make`.
BUILT = (".venv/", "build/", "./")
# What CONTRIBUTING.md says of a file's contents.
NAMED = {
    "setup.cfg": ["paste.filter_factory"],
    "test/tidy/test_options.py": ["SAMPLES", "proxy-server.conf-sample"],
    "test/unit/proxy/middleware/test_any_request.py": ["FILTERS"],
    "test/unit/proxy/middleware/conftest.py": ["ask(app, path, method, headers"],
    "test/unit/proxy/middleware/test_small_filters.py": ["StorageApp()"],
    "cluster/confs.py": ["PIPELINE"],
    "object-server/server/server.go": ["handler", "dispatch", "Allow"],
    "object-server/server/recon.go": ["whoAmI", "Allow"],
    "object-server/server/get.go": ["head"],
    "object-server/server/delete.go": ["remove"],
    "object-server/server/exchange.go": ["answerEmpty("],
    "object-server/server/fake_test.go": ["fakeStore"],
    "object-server/server/server_test.go": ["newFixture", "TestDeleteLeavesATombstone"],
    "account/app.py": ["self.handlers"],
    "container/app.py": ["self.handlers"],
}

_CODE = re.compile(r"`([^`\n]+)`|^ {4,}(\S.*)$", re.MULTILINE)
_PATH = re.compile(
    r"(?<![\w./*:$-])((?:[\w.*-]+/)+[\w.*-]*|\.?[\w-]+\.(?:py|md|cfg|toml|txt|yaml))(?![\w/])"
)
_MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code_of(text: str) -> Iterator[str]:
    """Code spans, and lines of code."""
    for span, line in _CODE.findall(text):
        yield span or line.partition("  #")[0]


def paths_of(text: str) -> set[str]:
    """Files and folders that a page names, without those that the reader or `make` makes."""
    found = {path for code in code_of(text) for path in _PATH.findall(code)}
    found |= set(_LINK.findall(text))
    return {path for path in found - EXAMPLES if not path.startswith(BUILT)}


def test_the_search_for_paths() -> None:
    text = "See `ring/ring.py`, `build/bin`, [a page](doc/ring.md#x), `127.0.0.1:80`, `a:b/c`.\n\n"
    text += "    .venv/bin/pytest test/unit -k x\n    curl http://host/v1/path\n"
    assert paths_of(text) == {"ring/ring.py", "doc/ring.md", "test/unit"}


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    missing = [
        path
        for path in paths_of(read(page))
        if not any(ROOT.glob(path.rstrip("/"))) and not any(ROOT.glob(f"test/unit/**/{path}"))
    ]
    assert missing == []


def test_examples_are_named_and_their_folders_exist() -> None:
    page = read("CONTRIBUTING.md")
    for path in EXAMPLES:
        assert path in page or path.rpartition("/")[2] in page
        assert (ROOT / path).parent.is_dir()


@pytest.mark.parametrize(("path", "names"), NAMED.items())
def test_what_is_said_of_a_file_is_in_it(path: str, names: list[str]) -> None:
    page, text = read("CONTRIBUTING.md"), read(path)
    assert [name for name in names if name not in page or name not in text] == []


@pytest.mark.parametrize("page", [*PAGES, ".github/pull_request_template.md"])
def test_named_commands_are_targets(page: str) -> None:
    named = {target for code in code_of(read(page)) for target in _MAKE.findall(code)}
    assert named <= targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets(path: Path) -> None:
    named = re.findall(r"run: make ([a-z-]+)", path.read_text(encoding="utf-8"))
    assert set(named) <= targets()


def targets() -> set[str]:
    """Those with a line in `make help`."""
    return set(re.findall(r"^([a-z-]+):.*## ", read("Makefile"), re.MULTILINE))


def test_every_target_is_phony() -> None:
    makefile = read("Makefile").replace("\\\n", " ")
    phony = " ".join(re.findall(r"^\.PHONY: (.*)", makefile, re.MULTILINE))
    assert targets() <= set(phony.split())
