"""How the number of heads grows with the error, in the limit of large dimensions (our derivation)."""

from __future__ import annotations

import math

LAW = 2 / math.pi**3
"""log_d H for rank 1 follows ``LAW / error^2``."""


def limit_exponent(error: float) -> int:
    """lim log_d H for rank 1: the odd degree l whose energy takes what is left below 2 ``error``.

    d^c heads cover the degrees below c, N(d, l) being of order d^l; in the limit eta_l^2 = (2/pi) C(2k, k) / 4^k / l,
    l = 2k+1. What is left beyond l falls like sqrt(8 / (pi^3 l)), whence the law 2/pi^3/error^2.
    """
    degree, left, term = 1, 1.0, 2 / math.pi
    while left - term / degree >= 2 * error:
        left -= term / degree
        term *= degree / (degree + 1)
        degree += 2
    return degree
