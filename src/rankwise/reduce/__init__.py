"""Trained models with a smaller cache or smaller heads, what that costs, and how they are loaded.

``load_reduced`` is imported when it is asked for: reading a report needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankwise.callable_room import make_callable

if TYPE_CHECKING:
    from rankwise.reduce.saved import load_reduced

__all__ = ["load_reduced"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rankwise.reduce.saved import load_reduced

    return load_reduced


make_callable(__name__)
