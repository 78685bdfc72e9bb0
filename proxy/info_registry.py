# SPDX-License-Identifier: Apache-2.0
"""The content of ``/info``: each filter and the proxy itself add a section when they load.

The filters of a PasteDeploy pipeline share no object, so there is one registry for each process. It
is filled before the workers are forked and only read afterwards.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

_RESERVED = ("admin", "disallowed_sections")

_public: dict[str, dict[str, Any]] = {}
_admin: dict[str, dict[str, Any]] = {}


def register_info(name: str = "swift", *, admin: bool = False, **values: Any) -> None:
    """Add ``values`` to section ``name``; with ``admin``, only signed requests show them.

    :raises ValueError: a name is reserved, or contains a dot. Dots separate the parts of a
        disallowed section.
    """
    if name in _RESERVED:
        raise ValueError(f"{name!r} is a reserved section of /info")
    for word in (name, *values):
        if "." in word:
            raise ValueError(f"{word!r}: names in /info may not contain a dot")
    (_admin if admin else _public).setdefault(name, {}).update(values)


def collect_info(*, admin: bool = False, disallowed_sections: Iterable[str] = ()) -> dict[str, Any]:
    """A copy of all sections except the disallowed ones (``name`` or ``name.key.key``)."""
    info: dict[str, Any] = copy.deepcopy(_public)
    disallowed = list(disallowed_sections)
    for section in disallowed:
        _remove(info, section.split("."))
    if admin:
        info["admin"] = {**copy.deepcopy(_admin), "disallowed_sections": disallowed}
    return info


def admin_info(name: str) -> Mapping[str, Any]:
    """The values of a section that only signed requests show; none if no filter added it."""
    return _admin.get(name, {})


def clear_info() -> None:
    """Remove all sections; for tests and for loading another pipeline in one process."""
    _public.clear()
    _admin.clear()


def _remove(info: dict[str, Any], keys: list[str]) -> None:
    place: Any = info
    for key in keys[:-1]:
        place = place.get(key) if isinstance(place, dict) else None
    if isinstance(place, dict):
        place.pop(keys[-1], None)
