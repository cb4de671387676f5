"""The smallest rank that will do, where every question costs a measurement."""

from __future__ import annotations

from collections.abc import Callable


def smallest(meets: Callable[[int], bool], last: int) -> int:
    """The smallest of 1..``last`` that ``meets``, by bisection: from there on all are taken to, ``last`` unasked.

    Where noise breaks that, it is one that meets and whose predecessor does not.
    """
    below, found = 0, last
    while found - below > 1:
        middle = (below + found) // 2
        below, found = (below, middle) if meets(middle) else (middle, found)
    return found
