# SPDX-License-Identifier: Apache-2.0
"""The ring: which devices hold which partition, and which partition holds which name.

``hashing`` turns a name into a partition, ``ring`` answers look-ups from a ring file, ``builder``
and ``balance`` make rings, ``file_format`` and ``builder_file`` keep them on disk
(doc/formats/ring.md).
"""
