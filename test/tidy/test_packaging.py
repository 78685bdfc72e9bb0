"""What is installed is what is in the tree, in pinned versions."""

from __future__ import annotations

import configparser
import re
import sysconfig
from importlib.metadata import distributions

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


def pins() -> dict[str, str]:
    files = ("constraints.txt", "constraints-keystone.txt")
    lines = [line for name in files for line in (ROOT / name).read_text().splitlines()]
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonical(name): version for name, version in pairs}


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
    wanted = conf["options"]["install_requires"].split()
    for extra in conf["options.extras_require"].values():
        wanted += extra.split()
    assert {canonical(name) for name in wanted} <= pins().keys()


def test_what_is_installed_is_pinned_and_in_that_version() -> None:
    pinned = pins()
    wrong = {
        name: dist.version
        for dist in distributions(path=[sysconfig.get_path("purelib")])
        if (name := canonical(dist.metadata["Name"])) not in NOT_PINNED
        and pinned.get(name) != dist.version
    }
    assert wrong == {}
