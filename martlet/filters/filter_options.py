# SPDX-License-Identifier: Apache-2.0
"""Reading the options of a ``[filter:NAME]`` section."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TypeVar

from martlet.conf.options import load_options

T = TypeVar("T")


def load_filter_options(
    cls: type[T],
    name: str,
    global_conf: Mapping[str, str],
    local_conf: Mapping[str, str],
    ignore: Container[str] = (),
) -> T:
    """The options of filter ``name``; ``local_conf`` are those that its section sets.

    :raises ConfigError: naming the file, the section and the option.
    """
    return load_options(cls, local_conf, where(name, global_conf), ignore)


def where(name: str, global_conf: Mapping[str, str]) -> str:
    """The name of the section of filter ``name`` in error messages."""
    return f"{global_conf.get('__file__', '')} [filter:{name}]".strip()
