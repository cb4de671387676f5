"""How ``--help`` shows arguments: positionals by their name, options by their type, no default that says nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass, make_dataclass
from functools import wraps
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

_NAMED = inspect.Parameter.KEYWORD_ONLY


def with_shown_names(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, whose help says ``MODEL`` for ``STR``, and ``PATH`` for ``{None}|PATH (default: None)``."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    shown = {name: _shown(one, hints[name]) for name, one in signature.parameters.items()}

    @wraps(command)
    def named(*given: Any, **options: Any) -> None:
        command(*given, **options)

    del named.__wrapped__  # whose annotations are the old ones
    named.__annotations__ = shown
    parameters = [_replaced(one, shown[name]) for name, one in signature.parameters.items()]
    named.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return named


def _replaced(one: inspect.Parameter, hint: Any) -> inspect.Parameter:
    group = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    default = group(**vars(one.default)) if is_dataclass(one.default) else one.default
    return one.replace(annotation=hint, default=default)


def _shown(one: inspect.Parameter, hint: Any) -> Any:
    kind, *others = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if isinstance(kind, type) and is_dataclass(kind):
        return Annotated[(_with_shown_fields(kind), *others)]
    named: dict[str, Any] = {}
    if tyro.conf.Positional in others:
        named["metavar"] = f"[{one.name.upper()}]" if one.default is None else one.name.upper()
    elif one.default is None:
        named["metavar"] = _type_name(kind)
    if any(getattr(other, "metavar", None) for other in others):
        named.pop("metavar", None)  # the command has named it itself
    if one.default is None or isinstance(one.default, bool) or one.default == ():
        named["help_behavior_hint"] = ""
    return Annotated[hint, tyro.conf.arg(**named)] if named else hint


def _with_shown_fields(group: type[Any]) -> type[Any]:
    """The same options in a class of their own, so that ``group`` stays as it is."""
    hints = get_type_hints(group)
    options = [inspect.Parameter(one.name, _NAMED, default=one.default) for one in fields(group)]
    shown = [(one.name, _shown(one, hints[one.name]), one.default) for one in options]
    return make_dataclass(group.__name__, shown, bases=(group,), frozen=True, kw_only=True)


def _type_name(kind: Any) -> str:
    """``INT`` of ``int | None``, ``{a,b}`` of ``Literal["a", "b"] | None``."""
    (inner,) = (part for part in get_args(kind) if part is not type(None))
    choices = get_args(inner) if get_origin(inner) is Literal else (True, False) if inner is bool else ()
    if choices:
        return "{" + ",".join(map(str, choices)) + "}"
    return str(inner.__name__).upper()
