"""Options: from the strings of an ini file to a frozen dataclass, checked once at start.

Each service declares its options as a dataclass whose fields are made with ``option``; nothing
reads the ini file later. A test compares these dataclasses with ``etc/*.conf-sample``.
"""

from __future__ import annotations

import configparser
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from martlet.conf.swift_options import REFUSED, without_effect
from martlet.log import get_logger

T = TypeVar("T")

_SECTION = re.compile(r".*\[([^\]]*)\]")
_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


class ConfigError(Exception):
    """A configuration that cannot be used; the message names the option and its legal values."""


def option(default: Any, help: str, unit: str = "") -> Any:
    """A dataclass field for an option: its default, what it means, and its unit."""
    metadata = {"help": help, "unit": unit}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def load_options(
    cls: type[T], values: Mapping[str, str], where: str = "", ignore: typing.Container[str] = ()
) -> T:
    """Build the options class ``cls`` from ini strings.

    ``where`` names the file and, in brackets at its end, the section. Names in ``ignore`` belong
    to another reader. An option of OpenStack Swift that has no effect here is logged.

    :raises ConfigError: an unknown option, or a value of the wrong form.
    """
    section = _SECTION.sub(r"\1", where)
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    prefix = f"{where}: " if where else ""
    loaded: dict[str, Any] = {}
    for name, text in values.items():
        if name in ignore:
            continue
        if name not in fields and (reason := without_effect(section, name)):
            warn_once(f"{prefix}option {name} of OpenStack Swift has no effect here: {reason}")
            continue
        if name not in fields and (reason := REFUSED.get(section, {}).get(name)):
            if text.strip().lower() in {"", *_FALSE}:
                continue
            raise ConfigError(f"{prefix}option {name} of OpenStack Swift: {reason}")
        if name not in fields:
            known = ", ".join(sorted(fields))
            raise ConfigError(f"{prefix}unknown option {name!r}; known options: {known}")
        try:
            loaded[name] = _convert(hints[name], text)
        except ValueError as error:
            raise ConfigError(f"{prefix}option {name} = {text!r}: {error}") from None
    try:
        return cls(**loaded)
    except ValueError as error:
        raise ConfigError(f"{prefix}{error}") from None


@cache
def warn_once(text: str) -> None:
    """Log a warning about the configuration, once even if several parts of a service read it."""
    get_logger("martlet.config").warning("%s", text)


def parse_bool(text: str) -> bool:
    """:raises ValueError: the text is not a boolean."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("expected true or false")


def is_true(text: str | None) -> bool:
    """Whether a header or a parameter of a request is true, in the spelling of an option."""
    return text is not None and text.strip().lower() in _TRUE


def _convert(kind: Any, text: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in typing.get_args(kind) if a is not type(None)]
        return None if not text.strip() else _convert(inner[0], text)
    if origin is list:
        return [item.strip() for item in text.split(",") if item.strip()]
    converters: dict[Any, Callable[[str], Any]] = {
        bool: parse_bool,
        int: _parse_int,
        float: _parse_float,
        str: str.strip,
    }
    return converters[kind](text)


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number") from None


def read_ini(path: Path, encoding: str = "utf-8") -> configparser.ConfigParser:
    """Read an ini file without interpolation, so that ``%`` is an ordinary character.

    :raises ConfigError: the file is missing or is not an ini file.
    """
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    # Option names keep their case: tempauth's users are options.
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        with path.open(encoding=encoding) as stream:
            parser.read_file(stream)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a valid ini file: {error}") from None
    return parser
