# SPDX-License-Identifier: Apache-2.0
"""What the SQLite services share: the databases of accounts and containers, and work on them.

``database`` opens one, ``database_files`` says where it lies and how it is made durable, ``schema``
and ``metadata`` hold what both kinds have in common, ``name_listing`` walks names in order,
``storage_server`` is the WSGI base of the account and the container server.
"""
