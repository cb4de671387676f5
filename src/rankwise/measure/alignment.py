"""How near a matrix is to a multiple of the identity."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor


def angle_and_scale(matrix: Float[Tensor, "D D"], sign: int) -> tuple[float, float]:
    """Degrees between ``matrix`` [D, D] and ``sign * I``, and ``|matrix|_F / sqrt(D)``."""
    A = matrix.detach().double()
    size, root = float(A.norm()), math.sqrt(len(A))
    if size == 0:
        return 90.0, 0.0
    cosine = sign * float(A.trace()) / (size * root)
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine)))), size / root
