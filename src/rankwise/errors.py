"""Every mistake a user can make: one root, one exit code each.

A message says what was expected, what came, and how to fix it. The command line prints it
without a traceback and leaves with ``exit_code``; in Python the classes are also the built-in
exceptions one would expect (``ValueError``, ``ImportError``).
"""

from __future__ import annotations

import math
import re
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


class StorageError(RankwiseError):
    """A store that cannot be written: disk full, read-only, held by another driver. Nothing finished is lost."""


class LockedStoreError(StorageError):
    """A store that another driver is working on."""


class CorruptStoreError(RankwiseError):
    """A store whose bytes are not what was written."""

    exit_code = 3


class EngineError(RankwiseError):
    """Workers that cannot work: the entry point does not import, or every worker dies before its first run."""


class RunsFailedError(RankwiseError):
    """A sweep that ended with failures; the message lists each with its cause."""

    exit_code = 1


class InterruptedSweepError(RankwiseError):
    """A sweep that was asked to stop and did; the same command continues it."""

    exit_code = 130


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


def require_number(name: str, value: object, *, above: float | None = None, minimum: float | None = None) -> float:
    """``value`` as a float if it is a finite number within the given bound."""
    wanted = "a finite number"
    wanted += f" above {above:g}" if above is not None else f" of at least {minimum:g}" if minimum is not None else ""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if (
        not math.isfinite(number)
        or (above is not None and number <= above)
        or (minimum is not None and number < minimum)
    ):
        raise InvalidInputError(f"{name}: expected {wanted}, got {value!r:.100}")
    return number


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """``value`` if it is one of ``choices``."""
    if value not in choices or not isinstance(value, str):
        hint = nearest_name(str(value), list(choices))
        raise InvalidInputError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}{hint}")
    return value


def require_sha256(name: str, value: str) -> str:
    """``value`` if it is 64 lower-case hexadecimal digits."""
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InvalidInputError(f"{name}: expected 64 lower-case hexadecimal digits (sha256sum FILE), got {value!r}")
    return value
