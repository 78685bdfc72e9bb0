# SPDX-License-Identifier: Apache-2.0
"""OpenStack Swift of PyPI (`pip install '.[test]'`), run from a directory of its own."""

from __future__ import annotations

import sys

#: Swift reads policies and the salt from a fixed path, whatever swift_dir is.
_RUN = """
import sys
from importlib import import_module
from swift.common import storage_policy, utils
from swift.common.utils import config
module, folder, *arguments = sys.argv[1:]
for each in (storage_policy, utils, config):
    each.SWIFT_CONF_FILE = folder + "/swift.conf"
storage_policy.reload_storage_policies()
sys.argv[:] = [module, *arguments]
sys.exit(import_module(module).main())
"""


def swift_command(module: str, folder: str, *arguments: str) -> list[str]:
    """The command that runs ``main`` of a module with the ``swift.conf`` of a folder."""
    return [sys.executable, "-c", _RUN, module, folder, *arguments]
