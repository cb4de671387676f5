"""The barrier: how many keys are anybody's favourite when every row picks one at random.

A row of a hardmax attention matrix is one-hot, so the rank of the matrix is the number of distinct columns its rows
pick: exact, no SVD, no tolerance. If every row picks uniformly and independently among the keys it sees, that number
is an occupancy count with closed forms. Independent Gaussian queries and keys of any head dimension stay below its
mean when every row sees every key (by Jensen's inequality) and reach it as the head dimension grows; the classical
counts are textbook, their reading as the barrier of attention rank and the causal and window forms are our derivation.

They are laws of random, independent queries and keys and of the MEAN: near the barrier single draws lie above it about
half the time, tied queries and keys (W_Q = W_K) reach rank n, and nothing is said about trained weights.

Legend: n keys, m queries, w window. Row i (from 1) sees all keys (full), keys 1..i (causal) or i-w+1..i (window).
"""

from __future__ import annotations

import math

from rankwise.errors import InvalidInputError, require_choice, require_int

_MASKS = ("full", "causal", "window")


def hardmax_rank_mean(length: int, mask: str = "full", window: int | None = None, queries: int | None = None) -> float:
    """Mean number of distinct columns that uniform, independent rows pick, out of ``length`` keys.

    ======  ===================================================================  ==================================
    mask    mean                                                                 limit
    ======  ===================================================================  ==================================
    full    n (1 - (1 - 1/n)^m), with m = ``queries`` (default n)                (1 - 1/e) n = 0.632 n for m = n
    causal  (n + 1) / 2, exactly                                                 0.5 n
    window  sum_j [1 - prod_{i=j}^{min(n, j+w-1)} (1 - 1/min(i, w))]             0.632 n for 1 << w << n
    ======  ===================================================================  ==================================

    ``mask="causal"`` with a ``window`` is the window mask; a window of at least ``length`` is the causal one.
    """
    reach = visible_reach(length, mask, window)
    if queries is not None:
        require_int("queries", queries, minimum=1)
        if reach is not None:
            raise InvalidInputError(f"queries: rows and keys are the same tokens under mask {mask!r}; use mask 'full'")
    if reach is None:
        rows = length if queries is None else queries
        return float(length) if length == 1 else -length * math.expm1(rows * math.log1p(-1 / length))
    if reach == length:
        return (length + 1) / 2
    return length - _window_misses(length, reach)


def hardmax_rank_var(length: int, mask: str = "full") -> float:
    """Variance of the same number, for as many queries as keys.

    full: n q (1 - q) + n (n - 1) ((1 - 2/n)^n - q^2) with q = (1 - 1/n)^n, about 0.097 n;
    causal: (n + 1) / 12 for n >= 2 (the count is Eulerian), 0 for n = 1. There is no closed form for a window.
    """
    reach = visible_reach(length, mask, length if mask == "window" else None)
    if mask == "window":
        raise InvalidInputError("mask: the variance has a closed form for 'full' and 'causal' only, got 'window'")
    if length == 1:
        return 0.0
    if reach is not None:
        return (length + 1) / 12
    log_miss = length * math.log1p(-1 / length)
    miss = math.exp(log_miss)
    if length == 2:
        return 2 * miss * (1 - miss) - 2 * miss**2
    # (1 - 2/n)^n - q^2 without the cancellation
    joint = miss**2 * math.expm1(length * math.log1p(-((length - 1) ** -2.0)))
    return -length * miss * math.expm1(log_miss) + length * (length - 1) * joint


def visible_reach(length: int, mask: str, window: int | None) -> int | None:
    """How many of the latest keys a row sees at most: None for all of them in both directions (full)."""
    require_int("length", length, minimum=1)
    require_choice("mask", mask, _MASKS)
    if window is not None:
        require_int("window", window, minimum=1)
    if mask == "full":
        if window is not None:
            raise InvalidInputError(f"window: expected None with mask 'full', got {window}; use mask 'window'")
        return None
    if mask == "window" and window is None:
        raise InvalidInputError("window: expected a whole number of at least 1 with mask 'window', got None")
    return length if window is None else min(window, length)


def _window_misses(length: int, window: int) -> float:
    """Sum over keys j of the probability that none of the rows j .. min(n, j+w-1) picks j, for w < n.

    With q = 1 - 1/w, all three kinds of keys have closed sums: the first w (rows j .. w see i keys each and their
    product telescopes to (j-1)/w, min(j-1, n-w) later rows miss with q each), the last, which e = 1, 2, .. rows see,
    and those between, which w rows see.
    """
    if window == 1:
        return 0.0
    log_miss = math.log1p(-1 / window)
    ending = min(window - 1, length - window)
    miss_ending = math.exp(ending * log_miss)
    first = (window - 1) * (1 - miss_ending * (1 + ending / window))
    first += miss_ending * (window - 1 - ending * (ending + 1) / window) / 2
    last = (window - 1) * (1 - miss_ending)
    between = max(0, length - 2 * window + 1) * math.exp(window * log_miss)
    return first + last + between
