"""The run-time checker behind jaxtyping in the tests.

Only array annotations are checked. What a user may get wrong (a rank of 0, an unknown mask) must reach
rankwise's own checks, whose errors are tested; a type checker in front of them would hide them.
"""

import re
from collections.abc import Callable
from typing import Any

from beartype import beartype

_ARRAY = re.compile(r"\b(Float|Int|Bool|Shaped|Complex|Integer|Inexact|Num|Real)(\d+)?\[")


def check_arrays_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with its array annotations enforced and all others ignored."""
    hints = getattr(function, "__annotations__", {})
    arrays = {name: hint for name, hint in hints.items() if _ARRAY.search(str(hint))}
    if not arrays:
        return function
    function.__annotations__ = arrays
    return beartype(function)
