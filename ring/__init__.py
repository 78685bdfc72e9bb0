# SPDX-License-Identifier: Apache-2.0
"""The ring: the partition of each name, and the devices of each partition.

- ``hashing``: the partition of a name; ``ring``: look-ups in a ring file;
- ``builder``, ``balance``: making rings; ``table``: the table of assignments that these share;
- ``file_format``, ``builder_file``: their files (doc/formats/ring.md).
"""
