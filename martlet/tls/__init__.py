# SPDX-License-Identifier: Apache-2.0
"""TLS between the servers of a cluster, for green and for blocking sockets."""
