# SPDX-License-Identifier: Apache-2.0
"""The background jobs of a node: a table, and the choice that its confs make.

A job runs if the conf of its server has the job's section, which may be empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from martlet.conf.options import ConfigError, read_ini
from martlet.service.programs import ProgramMissing, find_program


@dataclass(frozen=True)
class JobKind:
    """A row of the table; ``command`` is a program with the words before its conf.

    A directory may have ``own_conf`` instead of the section in ``conf_name``.
    """

    name: str
    conf_name: str
    section: str
    command: tuple[str, ...]
    own_conf: str = ""

    def conf_in(self, directory: Path) -> Path:
        """The conf of the job: its own if there is one, else that of its server."""
        own = directory / self.own_conf
        return own if self.own_conf and own.exists() else directory / self.conf_name


#: In the order of their start.
JOB_KINDS = (
    JobKind(
        "object-replicator",
        "object-server.conf",
        "object-replicator",
        ("martlet-object-server", "replicate"),
    ),
    JobKind(
        "object-auditor",
        "object-server.conf",
        "object-auditor",
        ("martlet-object-server", "audit"),
    ),
    JobKind(
        "object-lifecycle",
        "object-server.conf",
        "object-lifecycle",
        ("martlet-object-server", "lifecycle"),
    ),
    JobKind(
        "container-replicator",
        "container-server.conf",
        "container-replicator",
        ("martlet-container-replicator",),
    ),
    JobKind(
        "account-replicator",
        "account-server.conf",
        "account-replicator",
        ("martlet-account-replicator",),
    ),
    JobKind(
        "container-auditor",
        "container-server.conf",
        "container-auditor",
        ("martlet-container-auditor",),
    ),
    JobKind(
        "container-sharder",
        "container-server.conf",
        "container-sharder",
        ("martlet-container-sharder",),
    ),
    JobKind(
        "account-auditor",
        "account-server.conf",
        "account-auditor",
        ("martlet-account-auditor",),
    ),
    JobKind(
        "account-reaper",
        "account-server.conf",
        "account-reaper",
        ("martlet-account-reaper",),
    ),
    JobKind(
        "object-expirer",
        "object-server.conf",
        "object-expirer",
        ("martlet-object-expirer",),
        own_conf="object-expirer.conf",
    ),
)


@dataclass(frozen=True)
class Job:
    """A job of one directory of confs, which may be off or not installed."""

    name: str
    kind: str
    conf: Path
    command: tuple[str, ...]  # empty if the program is missing
    off_because: str = ""
    missing: str = ""  # the program: a sentence

    @property
    def is_on(self) -> bool:
        return not self.off_because

    def once(self) -> Job:
        """The job as it runs for one pass."""
        return replace(self, command=(*self.command, "--once"))


def read_jobs(directories: Sequence[Path], kinds: Sequence[JobKind] = JOB_KINDS) -> list[Job]:
    """Read all jobs of the directories, also those that are off.

    With several directories the name of a job ends with ``@`` and its directory.

    :raises ConfigError: a directory or a conf cannot be read, or a directory has no conf.
    """
    directories = [Path(directory).absolute() for directory in directories]
    if len({directory.resolve() for directory in directories}) < len(directories):
        raise ConfigError("a directory is named twice")
    jobs = []
    for directory in directories:
        suffix = f"@{directory}" if len(directories) > 1 else ""
        found = [_read_job(directory, kind, suffix) for kind in kinds]
        if not any(job.conf.exists() for job in found):
            known = ", ".join(dict.fromkeys(kind.conf_name for kind in kinds))
            raise ConfigError(f"{directory} has none of {known}")
        jobs += found
    return jobs


def jobs_to_run(jobs: Iterable[Job]) -> list[Job]:
    """The jobs that are on.

    :raises ConfigError: none is on, or the program of one is missing.
    """
    wanted = [job for job in jobs if job.is_on]
    if not wanted:
        raise ConfigError("no job is on: see --list")
    for job in wanted:
        if job.missing:
            raise ConfigError(f"{job.conf} has section [{job.kind}], but {job.missing}")
    return wanted


def _read_job(directory: Path, kind: JobKind, suffix: str) -> Job:
    conf, off_because, missing = kind.conf_in(directory), "", ""
    if not conf.exists():
        off_because = f"there is no {conf.name}"
    elif not read_ini(conf).has_section(kind.section):
        off_because = f"{conf.name} has no section [{kind.section}]"
    try:
        command: tuple[str, ...] = (
            find_program(kind.command[0]),
            *kind.command[1:],
            str(conf),
        )
    except ProgramMissing as error:
        command, missing = (), str(error)
    return Job(kind.name + suffix, kind.name, conf, command, off_because, missing)
