"""rankwise: how much rank does an attention head need, and how many heads?

The functions of the Python API are ``audit``, ``need``, ``advise``, ``reduce`` and ``load_reduced``; the layer is in
``rankwise.nn``.

The packages, and the one way imports point::

    errors, callable_package < estimate, progress, foreign_file, whole_file < spec < nn, tasks, theory, measure < shapes
           < train, models < sweep, audit, need, reduce < choose, watch < report, advise < recipes < cli < api

Importing ``rankwise`` imports none of them, so that ``rankwise --help`` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwise.api import advise, audit, load_reduced, need, reduce

__version__ = "0.1.0"
__all__ = ["advise", "audit", "load_reduced", "need", "reduce"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rankwise' has no attribute {name!r}")
    from importlib import import_module

    if name == "load_reduced":
        return import_module("rankwise.reduce").load_reduced
    return import_module(f"rankwise.{name}")  # a package that can be called
