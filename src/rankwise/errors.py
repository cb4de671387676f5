"""Every mistake a user can make: one root, one exit code each.

A message says what was expected, what came, and how to fix it. The command line prints it
without a traceback and leaves with ``exit_code``; in Python the classes are also the built-in
exceptions one would expect (``ValueError``, ``ImportError``).
"""

from __future__ import annotations

from difflib import get_close_matches


class RankwiseError(Exception):
    """Root of all errors that are not bugs of rankwise."""

    exit_code = 2


class InvalidInputError(RankwiseError, ValueError):
    """An argument, option or file content that cannot be meant."""


class ShapeError(InvalidInputError):
    """A tensor whose shape does not fit the module it was given to."""


class SpecError(InvalidInputError):
    """A spec that does not read: the message starts with the path of the key."""


class MissingExtraError(RankwiseError, ImportError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, extra: str, feature: str) -> None:
        self.extra = extra
        super().__init__(f"{feature} needs the extra {extra!r}; install it with: pip install 'rankwise[{extra}]'")


def nearest_name(name: str, valid: list[str]) -> str:
    """``" (did you mean 'rank'?)"`` when some valid name is close, otherwise an empty string."""
    close = get_close_matches(name, valid, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def require_int(name: str, value: object, *, minimum: int) -> int:
    """``value`` if it is a whole number of at least ``minimum``; bools are not numbers here."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInputError(f"{name}: expected a whole number of at least {minimum}, got {value!r}")
    if value < minimum:
        raise InvalidInputError(f"{name}: expected at least {minimum}, got {value}")
    return value


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """``value`` if it is one of ``choices``."""
    if value not in choices or not isinstance(value, str):
        hint = nearest_name(str(value), list(choices))
        raise InvalidInputError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}{hint}")
    return value
