# SPDX-License-Identifier: Apache-2.0
"""The proxy: the Swift API in front of the account, container and object servers.

``app`` passes a request to the controller of its path (``account``, ``container``, ``object``). The
controllers send requests to the storage services through ``replicas``. The proxy imports no storage
code: it reaches the services over the network only.
"""
