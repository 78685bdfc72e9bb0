# SPDX-License-Identifier: Apache-2.0
"""What the SQLite services share: the databases of accounts and containers, and work on them.

``database`` is one of them, ``database_pool`` those that a process has open, ``database_files``
says where they lie and how they are made durable; ``device_check`` whether their device can be
used; ``group_commit`` lets writers share a flush; ``concurrency`` does several things at once.
``schema`` and ``metadata`` hold what both kinds have in common, ``name_listing`` walks names in
order, ``storage_server`` is the WSGI base of both servers.
"""
