# SPDX-License-Identifier: Apache-2.0
"""The proxy: the Swift API in front of the account, container and object servers.

``app`` takes a request to the controller of its path (``account``, ``container``, ``object``), the
controllers speak to the storage services through ``replicas``. No storage code is imported here:
the services are reached over the network only.
"""
