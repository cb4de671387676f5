"""Values checked against the annotations of a dataclass: one mechanism for files and for Python.

An annotation is one of ``int``, ``float`` (a whole number is accepted and becomes a float), ``bool``, ``str``,
``Words``, ``Literal[...]``, ``X | None``, ``tuple[X, ...]``, ``tuple[X, Y]`` (a list is accepted), ``dict[str, X]``,
another dataclass (a table is accepted) or a family of dataclasses with a method ``by_name`` (a table whose ``name``
tells which). Every complaint starts with the path of the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rankwise.errors import InvalidInputError, SpecError, nearest_name

T = TypeVar("T")

Words = Annotated[str, 4000]
"""A sentence or a path, where a plain ``str`` is a name of at most 200 characters."""

# What a person calls the simple types in a file.
_NAMES: dict[Any, str] = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a string"}


def kinds(cls: Any) -> dict[str, Any]:
    """The annotation of every field of the dataclass ``cls``, resolved."""
    return _layout(cls)[0]


@cache
def _layout(cls: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The annotations of a dataclass, and which of its fields have no default."""
    hints = get_type_hints(cls, include_extras=True)
    required = frozenset(f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING)
    return {field.name: hints[field.name] for field in fields(cls)}, required


def settle(spec: object) -> None:
    """Check every field of a frozen dataclass against its annotation, from within its ``__post_init__``.

    What is equal is stored equal (``1`` becomes ``1.0`` in a float field, a list becomes a tuple), so that two specs
    that mean the same compare equal and have the same canonical form.
    """
    cls: Any = type(spec)
    for name, kind in kinds(cls).items():
        object.__setattr__(spec, name, convert(kind, getattr(spec, name), name))


def convert(kind: Any, value: object, path: str) -> Any:
    """``value`` as the annotation ``kind`` wants it, or a ``SpecError`` that starts with ``path``."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        options = get_args(kind)
        if value is None and NoneType in options:
            return None
        (inner,) = (option for option in options if option is not NoneType)
        return convert(inner, value, path)
    if origin is Annotated:
        return _str(value, path, limit=get_args(kind)[1])
    if origin is dict:
        return _dict(get_args(kind)[1], value, path)
    if origin is Literal:
        return _choice(get_args(kind), value, path)
    if origin is tuple:
        return _tuple(get_args(kind), value, path)
    if isinstance(kind, type) and isinstance(value, kind) and kind not in _SIMPLE:
        return value
    if hasattr(kind, "by_name"):
        return build(_named(kind, value, path), value, path)
    if isinstance(kind, type) and is_dataclass(kind):
        return build(kind, value, path)
    return _SIMPLE[kind](value, path)


def build(cls: type[T], table: object, path: str) -> T:
    """An instance of the dataclass ``cls`` from a table of plain values; ``path`` is "" for the whole file."""
    own_reader = getattr(cls, "from_table", None)
    if own_reader is not None:
        answer: T = own_reader(table, path)
        return answer
    if not isinstance(table, Mapping):
        raise SpecError(f"{path or 'the file'}: expected a table, got {describe(table)}")
    layout: Any = cls
    hints, required = _layout(layout)
    for key in table:
        if key not in hints:
            hint = nearest_name(str(key), list(hints)) or f" (valid: {', '.join(hints)})"
            raise SpecError(f"{join(path, shorten(str(key)))}: unknown key{hint}")
    given = {key: convert(hints[key], value, join(path, key)) for key, value in table.items()}
    for name, kind in hints.items():
        if name not in given and name in required:
            raise SpecError(f"{join(path, name)}: missing, expected {expected(kind)}")
    try:
        return cls(**given)
    except InvalidInputError as error:
        raise SpecError(join(path, str(error))) from None


def join(path: str, key: str) -> str:
    """``model`` and ``rank`` make ``model.rank``."""
    return f"{path}.{key}" if path else key


def expected(kind: Any) -> str:
    """What ``kind`` is called in a message."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(repr, options))}"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(expected(option) for option in options if option is not NoneType))
    if origin is tuple:
        return f"a list of {expected(options[0]).removeprefix('a ')}s"
    return _NAMES.get(kind, "a table")


def describe(value: object) -> str:
    """``value`` short enough for one line of a message."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    return shorten(repr(value))


def shorten(text: str, limit: int = 80) -> str:
    """At most ``limit`` printable characters of ``text``."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def _named(kind: Any, value: object, path: str) -> Any:
    """Which dataclass of the family ``kind`` the table ``value`` is for, by its ``name``."""
    if not isinstance(value, Mapping):
        raise SpecError(f"{path}: expected a table, got {describe(value)}")
    by_name = kind.by_name(value.get("name"))
    if "name" not in value:
        raise SpecError(f"{join(path, 'name')}: missing, expected one of {', '.join(map(repr, by_name))}")
    return by_name[_choice(tuple(by_name), value["name"], join(path, "name"))]


def _choice(options: tuple[str, ...], value: object, path: str) -> str:
    for option in options:
        if value == option and isinstance(value, str):
            return option
    hint = nearest_name(value, list(options)) if isinstance(value, str) else ""
    wanted = ", ".join(map(repr, options))
    raise SpecError(f"{path}: expected one of {wanted}, got {describe(value)}{hint}")


def _tuple(kinds_inside: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise SpecError(f"{path}: expected a list, got {describe(value)}")
    if kinds_inside[-1] is Ellipsis:
        kinds_inside = (kinds_inside[0],) * len(value)
    if len(value) != len(kinds_inside):
        raise SpecError(f"{path}: expected a list of {len(kinds_inside)} values, got {len(value)}")
    pairs = zip(kinds_inside, value, strict=True)
    return tuple(convert(kind, item, f"{path}[{index}]") for index, (kind, item) in enumerate(pairs))


def _dict(kind: Any, value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{path}: expected a table, got {describe(value)}")
    return {str(key): convert(kind, item, join(path, shorten(str(key)))) for key, item in value.items()}


def _int(value: object, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(f"{path}: expected a whole number, got {describe(value)}")
    # Larger numbers have no meaning in any spec, and SQLite, torch and TOML all stop at 64 bits.
    if not -(2**63) <= value < 2**63:
        raise SpecError(f"{path}: expected a whole number of at most 64 bits, got {describe(value)}")
    return value


def _float(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{path}: expected a finite number, got {describe(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SpecError(f"{path}: expected a finite number, got {describe(value)}")
    return number + 0.0  # minus zero means zero


def _bool(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{path}: expected true or false, got {describe(value)}")
    return value


def _str(value: object, path: str, limit: int = 200) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{path}: expected a string, got {describe(value)}")
    # Names end up in terminals, tables, file names and pages: no escape sequences, no lone surrogates.
    if not value.isprintable() or len(value) > limit:
        raise SpecError(f"{path}: expected at most {limit} printable characters, got {describe(value)}")
    return value


_SIMPLE: dict[Any, Callable[[object, str], Any]] = {int: _int, float: _float, bool: _bool, str: _str}
