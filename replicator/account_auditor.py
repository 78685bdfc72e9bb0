# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-account-auditor``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator.auditor import Auditor

NAME = "martlet-account-auditor"


def main(argv: list[str] | None = None) -> int:
    """Run the auditor until a stop signal, or once; return the exit status."""
    from martlet.service.server import patch_standard_library

    patch_standard_library()
    from replicator.job_command import arguments_of, run

    words = (
        "Reads the account databases on this host's devices, and puts damaged ones into quarantine."
    )
    return run(arguments_of(argv, NAME, words, "account-server.conf"), NAME, load_auditor)


def load_auditor(conf_path: Path) -> Auditor:
    """Load the auditor from the conf of the account server.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: there is no ring.
    :raises ValueError: the log level is invalid.
    :raises OSError: the priority cannot be set.
    """
    from account.database import AccountDatabase
    from replicator.auditor import Auditor
    from replicator.job_setup import load_job
    from replicator.options import AccountAuditorOptions

    setup, options = load_job(conf_path, "account-auditor", AccountAuditorOptions)
    return Auditor(
        "account",
        options,
        setup.ring("account"),
        setup.server.bind_port,
        setup.usable_path,
        lambda path: AccountDatabase(path, setup.check.assert_there),
    )


if __name__ == "__main__":
    sys.exit(main())
