"""The confs of a node say which background jobs it needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from martlet.conf.options import ConfigError
from replicator.jobs import JOB_KINDS, Job, JobKind, jobs_to_run, read_jobs


@pytest.fixture
def kinds(tmp_path: Path) -> tuple[JobKind, ...]:
    """Two jobs of one conf, of which the second is not installed, and one of another conf."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return (
        JobKind("first", "one.conf", "first", (str(program), "word")),
        JobKind("second", "one.conf", "second", ("martlet-not-installed",)),
        JobKind("third", "two.conf", "third", (str(program),)),
    )


def conf_dir(path: Path, **confs: str) -> Path:
    path.mkdir()
    for name, text in confs.items():
        (path / f"{name}.conf").write_text(text)
    return path


def named(jobs: list[Job], name: str) -> Job:
    (found,) = (job for job in jobs if job.name == name)
    return found


def test_a_job_is_on_if_its_section_exists_even_an_empty_one(
    tmp_path: Path, kinds: tuple[JobKind, ...]
) -> None:
    etc = conf_dir(tmp_path / "etc", one="[DEFAULT]\nbind_port = 1\n[first]\n")
    jobs = read_jobs([etc], kinds)
    assert [job.name for job in jobs if job.is_on] == ["first"]
    assert named(jobs, "second").off_because == "one.conf has no section [second]"
    assert named(jobs, "third").off_because == "there is no two.conf"
    (first,) = jobs_to_run(jobs)
    assert first.command == (str(tmp_path / "program"), "word", str(etc / "one.conf"))
    assert first.once().command == (*first.command, "--once")


def test_a_job_may_have_a_conf_of_its_own(tmp_path: Path, kinds: tuple[JobKind, ...]) -> None:
    kind = replace(kinds[0], own_conf="own.conf")
    both = conf_dir(tmp_path / "both", one="[first]\n", own="[first]\n")
    (job,) = jobs_to_run(read_jobs([both], [kind]))
    assert job.conf == both / "own.conf"
    server = conf_dir(tmp_path / "server", one="[first]\n")
    (job,) = jobs_to_run(read_jobs([server], [kind]))
    assert job.conf == server / "one.conf"
    off = conf_dir(tmp_path / "off", one="[first]\n", own="[other]\n")
    assert read_jobs([off], [kind])[0].off_because == "own.conf has no section [first]"


def test_a_job_that_is_on_must_be_installed(tmp_path: Path, kinds: tuple[JobKind, ...]) -> None:
    etc = conf_dir(tmp_path / "etc", one="[first]\n[second]\n")
    sentence = r"one\.conf has section \[second\], but martlet-not-installed is not installed"
    with pytest.raises(ConfigError, match=sentence):
        jobs_to_run(read_jobs([etc], kinds))


def test_a_job_that_is_off_need_not_be_installed(
    tmp_path: Path, kinds: tuple[JobKind, ...]
) -> None:
    etc = conf_dir(tmp_path / "etc", one="[first]\n", two="[third]\n")
    assert [job.name for job in jobs_to_run(read_jobs([etc], kinds))] == ["first", "third"]


def test_no_job_at_all_is_an_error(tmp_path: Path, kinds: tuple[JobKind, ...]) -> None:
    etc = conf_dir(tmp_path / "etc", one="")
    with pytest.raises(ConfigError, match="no job is on"):
        jobs_to_run(read_jobs([etc], kinds))


def test_a_directory_without_confs_is_an_error(tmp_path: Path, kinds: tuple[JobKind, ...]) -> None:
    etc = conf_dir(tmp_path / "etc")
    with pytest.raises(ConfigError, match=r"etc has none of one\.conf, two\.conf"):
        read_jobs([etc], kinds)


def test_a_conf_that_is_no_ini_file_is_an_error(tmp_path: Path, kinds: tuple[JobKind, ...]) -> None:
    etc = conf_dir(tmp_path / "etc", one="no section\n")
    with pytest.raises(ConfigError, match="is not a valid ini file"):
        read_jobs([etc], kinds)


def test_jobs_of_several_directories_have_names_of_their_own(
    tmp_path: Path, kinds: tuple[JobKind, ...]
) -> None:
    both = [conf_dir(tmp_path / name, one="[first]\n") for name in ("a", "b")]
    names = [job.name for job in jobs_to_run(read_jobs(both, kinds))]
    assert names == [f"first@{path}" for path in both]
    with pytest.raises(ConfigError, match="named twice"):
        read_jobs([both[0], both[0] / ".." / "a"], kinds)


def test_the_table_names_each_job_once() -> None:
    names = [kind.name for kind in JOB_KINDS]
    assert len(set(names)) == len(names)
    assert {(kind.name, kind.section) for kind in JOB_KINDS} == {(name, name) for name in names}
