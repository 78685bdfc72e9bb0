# SPDX-License-Identifier: Apache-2.0
"""The release that runs, as monitoring is told."""

from __future__ import annotations

import importlib.metadata

#: Read at the start: in an upgrade the files of another release take the place of these.
RUNNING = importlib.metadata.version("martlet")
