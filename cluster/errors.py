# SPDX-License-Identifier: Apache-2.0
"""The errors that end a command; the message is one sentence for the user."""


class ClusterError(Exception):
    """The command cannot continue; it prints only the message and exits with status 1."""


class Stopped(Exception):
    """A signal asked the cluster to stop."""
