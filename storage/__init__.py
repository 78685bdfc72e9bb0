# SPDX-License-Identifier: Apache-2.0
"""The base of the SQLite services: the databases of accounts and containers, and their servers.

- ``database``: one database; ``database_pool``: those that a process has open;
- ``database_files``: their paths and their durable creation;
- ``device_check``: whether a device can be used;
- ``group_commit``: concurrent writers share a flush;
- ``grid_payloads``: requests and answers as payloads of the grid;
- ``concurrency``: work in parallel and in the background;
- ``schema``, ``metadata``: common parts of both kinds; ``name_listing``: listings in order;
- ``storage_server``: the WSGI base of both servers.
"""
