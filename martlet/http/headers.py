# SPDX-License-Identifier: Apache-2.0
"""Headers of requests and responses: case-insensitive mappings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar, overload

from martlet.http.environ import Environ, HeaderList
from martlet.http.header_names import lower_name, title_name, upper_name

_T = TypeVar("_T")

_environ_keys: dict[str, str] = {}


def environ_key(header: str) -> str:
    """The ``environ`` key of a header name."""
    key = _environ_keys.get(header)
    if key is None:
        upper = upper_name(header).replace("-", "_")
        key = upper if upper in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{upper}"
        if len(_environ_keys) < 4096:  # bounded, although the names come from our own code
            _environ_keys[header] = key
    return key


class RequestHeaders(MutableMapping[str, str]):
    """The headers of a request: a case-insensitive view of its ``environ``."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        value: str = self._environ[environ_key(name)]
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header, or ``default``."""
        return self._environ.get(environ_key(name), default)

    def __setitem__(self, name: str, value: str) -> None:
        self._environ[environ_key(name)] = str(value)

    def __delitem__(self, name: str) -> None:
        del self._environ[environ_key(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and environ_key(name) in self._environ

    def __iter__(self) -> Iterator[str]:
        for key, value in self._environ.items():
            if key.startswith("HTTP_"):
                yield title_name(key[5:].replace("_", "-"))
            elif key in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
                yield key.replace("_", "-").title()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Headers(MutableMapping[str, str]):
    """Response headers: case-insensitive, ordered, one value a name, spelled as first set."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._items: dict[str, tuple[str, str]] = {}
        if type(items) is not list and isinstance(items, Mapping):
            items = items.items()
        for name, value in items:
            self._items[lower_name(name)] = (name, str(value))

    def __getitem__(self, name: str) -> str:
        return self._items[lower_name(name)][1]

    def __setitem__(self, name: str, value: str | int) -> None:
        lowered = lower_name(name)
        known = self._items.get(lowered)
        self._items[lowered] = (known[0] if known else name, str(value))

    def __delitem__(self, name: str) -> None:
        del self._items[lower_name(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and lower_name(name) in self._items

    @overload
    def get(self, name: str) -> str | None: ...

    @overload
    def get(self, name: str, default: str) -> str: ...

    @overload
    def get(self, name: str, default: _T) -> str | _T: ...

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header, or ``default``; without the exception of the inherited one."""
        known = self._items.get(lower_name(name))
        return default if known is None else known[1]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._items.values()])

    def __len__(self) -> int:
        return len(self._items)

    def as_list(self) -> HeaderList:
        """The (name, value) pairs for ``start_response``."""
        return list(self._items.values())

    def __repr__(self) -> str:
        return f"Headers({self.as_list()!r})"


def find_header(headers: HeaderList, lowered: str) -> str | None:
    """Return the value of a response header by its lower-case name; stop at the first match."""
    size = len(lowered)
    for name, value in headers:
        if len(name) == size and name.lower() == lowered:
            return value
    return None
