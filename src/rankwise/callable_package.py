"""Packages that can be called: ``rankwise.audit`` is the package, ``rankwise.audit(model)`` a function of the API.

Why: the natural names of the API are those of the packages that do the work, and Python binds a package to its name
in ``rankwise`` as soon as anything in it is imported. The function is found by its name when it is called, so that a
package imports nothing from above.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package whose call is the function of the same name in ``rankwise.api``."""

    @property
    def _function(self) -> Any:
        return getattr(import_module("rankwise.api"), self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._function(*given, **named)


def make_callable(package: str) -> None:
    """Let the package of that name be called; its ``__init__`` says so."""
    sys.modules[package].__class__ = CallablePackage
