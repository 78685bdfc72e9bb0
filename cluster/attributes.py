# SPDX-License-Identifier: Apache-2.0
"""Extended attributes of files, read with pyxattr.

The ``xattr`` that OpenStack Swift requires has the same module name, and wins where both are
installed. So this module uses ``getxattr`` alone, which is the same function in both.
"""

from __future__ import annotations

import errno
from pathlib import Path

import xattr  # type: ignore[import-untyped]


def read_attribute(path: Path, name: str) -> bytes | None:
    """An attribute of a file. None: the file has none of this name, or its file system keeps none.

    :raises OSError: it cannot be read.
    """
    try:
        value: bytes = xattr.getxattr(str(path), name)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return None
        raise
    return value
