# SPDX-License-Identifier: Apache-2.0
"""Patterns of policies: ``*``, ``?``, and variables such as ``${aws:username}``.

Between two ``*``, the first place that fits is taken, so a match never goes back. Text without
``?`` is looked for as text. A long chunk with ``?`` among its texts is looked for in one pass
(Shift-And, Baeza-Yates and Gonnet 1992): a regular expression would begin anew at each character.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

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
#: Up to this length of a chunk, a regular expression is the faster way.
_SHORT = 16


class _Chunk(NamedTuple):
    """The part between two stars: texts with their offsets, and ``?`` wherever there is none."""

    runs: tuple[tuple[int, str], ...]
    length: int
    finder: Callable[[str, int], int]

    def fits(self, text: str, at: int) -> bool:
        """Whether it matches the text from there."""
        is_within = 0 <= at <= len(text) - self.length
        return is_within and all(text.startswith(run, at + offset) for offset, run in self.runs)


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
        return _match(chunks, text.lower() if self.ignores_case else text)


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
    groups: list[list[object]] = [[]]
    for piece in pieces:
        if piece is _STAR:
            groups.append([])
        else:
            groups[-1].append(piece)
    return tuple(_chunk(group, ignores_case) for group in groups)


def _chunk(pieces: Sequence[object], ignores_case: bool) -> _Chunk:
    runs: list[tuple[int, str]] = []
    length = 0
    for is_any, group in groupby(pieces, lambda piece: piece is _ANY):
        if is_any:
            length += len(list(group))
            continue
        text = "".join(map(str, group))
        text = text.lower() if ignores_case else text
        runs += [(length, text)] if text else []
        length += len(text)
    return _Chunk(tuple(runs), length, _finder(runs, length))


def _finder(runs: Sequence[tuple[int, str]], length: int) -> Callable[[str, int], int]:
    """A function that returns the first place from a start on, and -1 if there is none."""
    if len(runs) < 2:
        offset, run = runs[0] if runs else (0, "")
        return functools.partial(_find_text, run, offset, length)
    if length <= _SHORT:
        return functools.partial(_find_short, re.compile(_source_of(runs, length), re.DOTALL))
    anys, masks = (1 << length) - 1, dict[str, int]()
    for offset, run in runs:
        for number, character in enumerate(run, offset):
            anys ^= 1 << number
            masks[character] = masks.get(character, 0) | 1 << number
    masks = {character: mask | anys for character, mask in masks.items()}
    return functools.partial(_find_long, masks, anys, length)


def _source_of(runs: Sequence[tuple[int, str]], length: int) -> str:
    source, at = "", 0
    for offset, run in runs:
        source += "." * (offset - at) + re.escape(run)
        at = offset + len(run)
    return source + "." * (length - at)


def _find_text(run: str, offset: int, length: int, text: str, start: int) -> int:
    at = text.find(run, start + offset) - offset
    return at if start <= at <= len(text) - length else -1


def _find_short(expression: re.Pattern[str], text: str, start: int) -> int:
    found = expression.search(text, start)
    return -1 if found is None else found.start()


def _find_long(masks: Mapping[str, int], anys: int, length: int, text: str, start: int) -> int:
    """Shift-And: bit n of the state says that the chunk's first n + 1 characters end here."""
    state, last = 0, 1 << (length - 1)
    for at in range(start, len(text)):
        state = (state << 1 | 1) & masks.get(text[at], anys)
        if state & last:
            return at + 1 - length
    return -1


def _match(chunks: Sequence[_Chunk], text: str) -> bool:
    first, last = chunks[0], chunks[-1]
    if len(chunks) == 1:
        return first.length == len(text) and first.fits(text, 0)
    if not first.fits(text, 0):
        return False
    position, end = first.length, len(text) - last.length
    for middle in chunks[1:-1]:
        at = middle.finder(text, position)
        if at < 0:
            return False
        position = at + middle.length
    return position <= end and last.fits(text, end)
