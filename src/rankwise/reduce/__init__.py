"""Trained models with a smaller cache or smaller heads, what that costs, and how they are loaded."""

from typing import Any

from rankwise.callable_room import make_callable

__all__ = ["load_reduced"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rankwise.reduce.saved import load_reduced  # torch and transformers, which a document's reader can do without

    return load_reduced


make_callable(__name__)
