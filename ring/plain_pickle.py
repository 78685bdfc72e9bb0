# SPDX-License-Identifier: Apache-2.0
"""Safe unpickling of untrusted data: only numbers, strings, bytes, containers and arrays.

A pickle is a program. This module reads it twice. The first pass reads the list of opcodes. It
allows only those for plain data, and bounds every length and memo index by the size of the file.
The second pass is the unpickler, which gets harmless functions for the few allowed names. These
are arrays, and bytes, which Python 3 writes as a call in protocol 2.
"""

from __future__ import annotations

import io
import pickle
import re
from array import array
from collections.abc import Callable

# Opcodes of fixed length: protocol, None, booleans, numbers, containers and how they are filled,
# memo slots below 256, memo look-ups, a call (of what GLOBAL named) and the end.
_FIXED = re.compile(
    rb"(?:\x80.|K.|M..|J.{4}|G.{8}|q.|h.|j.{4}|[N\x88\x89(\]})eauset\x85\x86\x87R.])*+", re.DOTALL
)
# Opcode -> size of the length that follows it: strings (X; T and U by Python 2), long integers.
_COUNTED = {b"X": 4, b"T": 4, b"U": 1, b"\x8a": 1}
_LONG_BINPUT = b"r"
_GLOBALS = (b"carray\narray\n", b"c_codecs\nencode\n", b"c__builtin__\nbytes\n")


def load_plain(raw: bytes, *, with_bytes: bool = False) -> object:
    """Load the plain data in a pickle of protocol 2.

    ``with_bytes`` allows bytes, and strings of Python 2 become bytes; else they must be ASCII.

    :raises ValueError: it is damaged, or has more than plain data.
    """
    _check_opcodes(raw)
    try:
        if with_bytes:
            return _BytesUnpickler(io.BytesIO(raw), encoding="bytes").load()
        return _PlainUnpickler(io.BytesIO(raw)).load()
    except ValueError:
        raise
    except Exception as error:  # the unpickler raises nearly anything on damaged bytes
        raise ValueError(f"damaged: {error}") from error


def _check_opcodes(raw: bytes) -> None:
    place = 0
    while True:
        match = _FIXED.match(raw, place)
        place = match.end() if match else place
        if place >= len(raw):
            return
        place = _after_variable_opcode(raw, place)


def _after_variable_opcode(raw: bytes, place: int) -> int:
    """The position after the opcode of variable length at ``place``."""
    opcode = raw[place : place + 1]
    if opcode in _COUNTED:
        start = place + 1 + _COUNTED[opcode]
        end = start + int.from_bytes(raw[place + 1 : start], "little")
    elif opcode == _LONG_BINPUT:
        end = place + 5
        # The unpickler allocates memory up to this slot.
        if int.from_bytes(raw[place + 1 : end], "little") > len(raw):
            raise ValueError(f"damaged: an impossible memo slot at byte {place}")
    elif known := [name for name in _GLOBALS if raw.startswith(name, place)]:
        end = place + len(known[0])
    else:
        raise ValueError(f"more than plain data: opcode {opcode!r} at byte {place}")
    if end > len(raw):
        raise ValueError("damaged: it is cut off")
    return end


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., array[int] | bytes]:
        if (module, name) != ("array", "array"):
            raise ValueError(f"more than plain data: it names {module}.{name}")
        return _plain_array


class _BytesUnpickler(_PlainUnpickler):
    def find_class(self, module: str, name: str) -> Callable[..., array[int] | bytes]:
        match module, name:
            case "_codecs", "encode":
                return _plain_bytes
            case "__builtin__", "bytes":
                return _no_bytes
        return super().find_class(module, name)


def _plain_array(type_code: str, values: list[int]) -> array[int]:
    if type_code not in ("B", "H", "I", "L") or not isinstance(values, list):
        raise ValueError(f"an array of type {type_code!r} is not of whole numbers")
    return array(type_code, values)


def _plain_bytes(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("damaged: invalid bytes")
    return text.encode("latin-1")


def _no_bytes() -> bytes:
    return b""
