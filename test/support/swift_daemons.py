# SPDX-License-Identifier: Apache-2.0
"""OpenStack Swift's own daemons, run against a cluster of a test."""

from __future__ import annotations

import getpass
import shutil
import sys
from pathlib import Path

# It always reads swift.conf from /etc/swift.
_PROGRAM = """
import sys
from importlib import import_module
from swift.common import storage_policy, utils
from swift.common.utils import config
module, folder, conf, *arguments = sys.argv[1:]
for each in (storage_policy, utils, config):
    each.SWIFT_CONF_FILE = folder + "/swift.conf"
storage_policy.reload_storage_policies()
sys.argv[1:] = [folder + "/" + conf, *arguments]
sys.exit(import_module(module).main())
"""
_CONF = """
[DEFAULT]
swift_dir = {folder}
user = {user}
[{section}]
{options}
[pipeline:main]
pipeline = catch_errors proxy-server
[app:proxy-server]
use = egg:swift#proxy
[filter:catch_errors]
use = egg:swift#catch_errors
"""


def swift_daemon(
    module: str, section: str, home: Path, folder: Path, *arguments: str, options: str = ""
) -> list[str]:
    """Write the confs of a daemon with the rings of a cluster; return the command.

    :param home: the home of the cluster, which must accept requests without proof.
    :param folder: for the confs.
    """
    for ring in (home / "etc").glob("*.ring.gz"):
        shutil.copy(ring, folder)
    shutil.copy(home / "etc" / "martlet.conf", folder / "swift.conf")
    conf = folder / f"{section}.conf"
    user = getpass.getuser()
    conf.write_text(_CONF.format(folder=folder, user=user, section=section, options=options))
    return [sys.executable, "-c", _PROGRAM, module, str(folder), conf.name, *arguments]
