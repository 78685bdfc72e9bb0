#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: keystone.py PROGRAMS DIRECTORY ADDRESS: a Keystone until its input ends.

Prints a line with its URL. Of an operator of a project: a token, the path of its account, an access
key for S3 and its secret. Last, the password of the user swift of the project service.
"""

from __future__ import annotations

import sys
from pathlib import Path

from real_keystone import PASSWORD, Keystone


def main() -> int:
    """Start it, make the users, and wait."""
    programs, directory, address = sys.argv[1:]
    keystone = Keystone(Path(programs), Path(directory), host=address)
    try:
        keystone.start()
        keystone.grant("swift", "service", "admin")
        keystone.grant("ann", "blue", "swiftoperator")
        account = f"/v1/AUTH_{keystone.id_of('project', 'blue')}"
        access_key, secret = keystone.ec2_credentials("ann", "blue")
        token = keystone.token("ann", "blue")
        print(keystone.url, token, account, access_key, secret, PASSWORD, flush=True)
        sys.stdin.read()
    finally:
        keystone.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
