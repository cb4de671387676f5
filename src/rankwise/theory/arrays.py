"""The array type of this package: ``Float[Array, "shape"]`` reads well, is checked under pytest, mypy follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
else:
    Array = np.ndarray
