# SPDX-License-Identifier: Apache-2.0
"""The types of WSGI (PEP 3333)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Environ = dict[str, Any]
HeaderList = list[tuple[str, str]]
StartResponse = Callable[..., Any]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]
