# SPDX-License-Identifier: Apache-2.0
"""Transaction ids: each stands in the answer and in every log line about its request."""

from __future__ import annotations

import random
import time


def new_trans_id(suffix: str = "") -> str:
    """``tx``, 21 hex digits, ``-``, the time as 10 hex digits, and the suffix."""
    return f"tx{random.getrandbits(84):021x}-{int(time.time()):010x}{suffix}"
