"""Packages, requirements, pins and versions of Python agree with one another."""

from __future__ import annotations

import configparser
import re
import sysconfig
from importlib.metadata import distributions

from packaging.requirements import Requirement
from setuptools import find_packages  # type: ignore[import-untyped]
from source_tree import PACKAGES, ROOT

# Installed with every environment, or ours.
NOT_PINNED = {"pip", "martlet", "wheel"}


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(*files: str) -> dict[str, str]:
    lines = [line for name in files for line in (ROOT / name).read_text().splitlines()]
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonical(name): version for name, version in pairs}


def pins_of_the_tests() -> dict[str, str]:
    return pins("constraints.txt", "constraints-keystone.txt")


def requirements(text: str) -> list[Requirement]:
    """Of an option of setup.cfg; one line each."""
    return [Requirement(line) for line in text.splitlines() if line]


def test_every_folder_with_python_is_packed() -> None:
    include = setup_cfg()["options.packages.find"]["include"].split()
    packed = set(find_packages(str(ROOT), include=include))
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert packed == folders


def test_every_package_says_that_it_is_typed() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "py.typed").exists()] == []


def test_every_requirement_is_pinned() -> None:
    conf = setup_cfg()
    wanted = requirements(conf["options"]["install_requires"])
    for extra in conf["options.extras_require"].values():
        wanted += requirements(extra)
    assert {canonical(one.name) for one in wanted} <= pins_of_the_tests().keys()


def test_every_requirement_has_a_lower_bound_that_its_pin_meets() -> None:
    pinned = pins_of_the_tests()
    for one in requirements(setup_cfg()["options"]["install_requires"]):
        assert [bound.operator for bound in one.specifier] == [">="], str(one)
        assert one.specifier.contains(pinned[canonical(one.name)]), str(one)


def test_what_is_pinned_twice_has_one_version() -> None:
    both = pins_of_the_tests()
    others = ("ansible", "conformance", "console", "doc")
    for name in (f"constraints-{one}.txt" for one in others):
        other = pins(name)
        assert {n: v for n, v in other.items() if both.get(n, v) != v} == {}, name


def test_the_versions_of_python_are_the_same_everywhere() -> None:
    conf = setup_cfg()
    mark = "Programming Language :: Python :: 3."
    named = [line for line in conf["metadata"]["classifiers"].splitlines() if line.startswith(mark)]
    minors = [line.removeprefix(mark) for line in named]
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    assert f"py3{{{','.join(minors)}}}" in tox["tox"]["envlist"]
    workflow = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    quoted = ", ".join(f'"3.{minor}"' for minor in minors)
    assert f"python: [{quoted}]" in workflow
    assert conf["options"]["python_requires"] == f">=3.{minors[0]}"


def test_what_is_installed_is_pinned_and_in_that_version() -> None:
    pinned = pins_of_the_tests()
    wrong = {
        name: dist.version
        for dist in distributions(path=[sysconfig.get_path("purelib")])
        if (name := canonical(dist.metadata["Name"])) not in NOT_PINNED
        and pinned.get(name) != dist.version
    }
    assert wrong == {}
