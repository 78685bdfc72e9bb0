# SPDX-License-Identifier: Apache-2.0
"""What ends a command: the message is the one sentence that the person reads."""


class ClusterError(Exception):
    """The command cannot go on; it prints the message alone and exits with status 1."""


class Stopped(Exception):
    """The person or the system asked the cluster to stop while it was still starting."""
