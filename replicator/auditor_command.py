# SPDX-License-Identifier: Apache-2.0
"""The command line of the auditors of databases, and their start from a conf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from replicator.job_command import arguments_of, run

if TYPE_CHECKING:
    from replicator.auditor import Auditor
    from replicator.options import AuditorOptions
    from storage.replicated_database import ReplicatedDatabase

OpenDatabase = Callable[[str, Callable[[str], None]], "ReplicatedDatabase"]


def run_auditor(
    argv: list[str] | None,
    kind: str,
    options_class: type[AuditorOptions],
    open_database: OpenDatabase,
) -> int:
    """Run the auditor of a kind until a stop signal, or once; return the exit status.

    The standard library is patched already.
    """
    name = f"martlet-{kind}-auditor"
    words = f"Reads this host's {kind} databases, and puts damaged ones into quarantine."

    def load(conf_path: Path) -> Auditor:
        return load_auditor(conf_path, kind, options_class, open_database)

    return run(arguments_of(argv, name, words, f"{kind}-server.conf"), name, load)


def load_auditor(
    conf_path: Path,
    kind: str,
    options_class: type[AuditorOptions],
    open_database: OpenDatabase,
) -> Auditor:
    """Load an auditor from the conf of the server of the same kind.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: there is no ring.
    :raises ValueError: the log level is invalid.
    :raises OSError: the priority cannot be set.
    """
    from replicator.auditor import Auditor
    from replicator.job_setup import load_job

    setup, options = load_job(conf_path, f"{kind}-auditor", options_class)
    return Auditor(
        kind,
        options,
        setup.ring(kind),
        setup.server.bind_port,
        setup.usable_path,
        lambda path: open_database(path, setup.check.assert_there),
    )
