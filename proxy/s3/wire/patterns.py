# SPDX-License-Identifier: Apache-2.0
"""Patterns of policies: ``*``, ``?``, and variables such as ``${aws:username}``.

A match takes time in proportion to the pattern and the text at most: between two ``*``, the first
place that fits is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Facts = Mapping[str, Sequence[str]]

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_DEFAULT = re.compile(r"([^,]+?)\s*,\s*'([^']*)'\s*")
#: ``${*}`` and the like stand for the character itself.
_CHARACTERS = frozenset("*?$")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: its name as `key_of` returns it, and what stands for it if it is unknown."""

    name: str
    default: str | None = None


#: A piece is literal text, a variable, or one of these.
_STAR, _ANY = object(), object()
_Chunk = tuple["re.Pattern[str]", int]


def key_of(name: str) -> str:
    """A condition key as `Facts` has it: in lower case, but for the name of a tag."""
    prefix, slash, tag = name.partition("/")
    return f"{prefix.lower()}{slash}{tag}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern.

    :param static: the chunks between its stars, None if it has a variable.
    """

    pieces: tuple[object, ...]
    static: tuple[_Chunk, ...] | None
    ignores_case: bool = False

    @property
    def variables(self) -> list[Variable]:
        """Its variables."""
        return [piece for piece in self.pieces if isinstance(piece, Variable)]

    def matches(self, text: str, facts: Facts) -> bool:
        """Whether it matches the whole text; it does not if a variable is unknown."""
        chunks = self.static
        if chunks is None:
            resolved = _resolve(self.pieces, facts)
            if resolved is None:
                return False
            chunks = _compile(resolved, self.ignores_case)
        return _match(chunks, text)


def literal(text: str, has_variables: bool, *, ignores_case: bool = False) -> Pattern:
    """A pattern without wildcards.

    :raises ValueError: a variable is malformed.
    """
    return _pattern(text, has_variables, False, ignores_case)


def wildcard(text: str, has_variables: bool, *, ignores_case: bool = False) -> Pattern:
    """A pattern in which ``*`` and ``?`` are wildcards.

    :raises ValueError: a variable is malformed.
    """
    return _pattern(text, has_variables, True, ignores_case)


def _pattern(text: str, has_variables: bool, has_wildcards: bool, ignores_case: bool) -> Pattern:
    pieces: list[object] = []
    start = 0
    for found in _VARIABLE.finditer(text) if has_variables else ():
        pieces += _plain(text[start : found.start()], has_wildcards)
        pieces.append(_variable(found[1]))
        start = found.end()
    rest = text[start:]
    if has_variables and "${" in rest:
        raise ValueError("a variable has no end")
    pieces += _plain(rest, has_wildcards)
    is_static = not any(isinstance(piece, Variable) for piece in pieces)
    static = _compile(pieces, ignores_case) if is_static else None
    return Pattern(tuple(pieces), static, ignores_case)


def _plain(text: str, has_wildcards: bool) -> list[object]:
    if not has_wildcards:
        return [text]
    parts = re.split(r"([*?])", text)
    return [_STAR if p == "*" else _ANY if p == "?" else p for p in parts if p]


def _variable(text: str) -> object:
    if text in _CHARACTERS:
        return text
    found = _DEFAULT.fullmatch(text)
    name = key_of(found[1] if found else text.strip())
    return Variable(name, found[2] if found else None)


def _resolve(pieces: Sequence[object], facts: Facts) -> list[object] | None:
    """The pieces with the values of variables; None if one has no single value."""
    found: list[object] = []
    for piece in pieces:
        if not isinstance(piece, Variable):
            found.append(piece)
            continue
        values = facts.get(piece.name, ())
        if len(values) > 1 or (not values and piece.default is None):
            return None
        found.append(values[0] if values else piece.default)
    return found


def _compile(pieces: Sequence[object], ignores_case: bool) -> tuple[_Chunk, ...]:
    chunks: list[tuple[str, int]] = [("", 0)]
    for piece in pieces:
        source, length = chunks[-1]
        if piece is _STAR:
            chunks.append(("", 0))
        elif piece is _ANY:
            chunks[-1] = (f"{source}.", length + 1)
        else:
            text = str(piece)
            chunks[-1] = (source + re.escape(text), length + len(text))
    flags = re.DOTALL | (re.IGNORECASE if ignores_case else 0)
    return tuple((re.compile(source, flags), length) for source, length in chunks)


def _match(chunks: Sequence[_Chunk], text: str) -> bool:
    first, length = chunks[0]
    if len(chunks) == 1:
        return first.fullmatch(text) is not None
    if not first.match(text):
        return False
    last, last_length = chunks[-1]
    position, end = length, len(text) - last_length
    for middle, _ in chunks[1:-1]:
        found = middle.search(text, position)
        if found is None:
            return False
        position = found.end()
    return position <= end and last.fullmatch(text, end) is not None
